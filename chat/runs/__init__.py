"""Turns that are running: their tasks, their event logs, who follows them, and what is done once an answer is out.

Imports `turn` and what lies under it.
"""
