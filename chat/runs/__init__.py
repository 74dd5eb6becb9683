"""Running turns: their tasks, their event logs, their readers, and the work after an answer.

`runner` owns the tasks; `following` streams a turn to its readers, replays an ended turn from its rows and interrupts
the turns of dead processes; `terminal` runs one turn for a command. Imports `turn` and what lies under it.
"""
