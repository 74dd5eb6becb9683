"""Turns that are running: their tasks, their event logs, who follows them, and what is done once an answer is out.

`runner` owns the tasks; `following` serves a reader who comes or comes back, tells an ended turn again from its rows and
settles the turns of dead processes; `terminal` runs one turn for a command. Imports `turn` and what lies under it.
"""
