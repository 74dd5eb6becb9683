"""`serve`: the web processes and the worker, started, watched and stopped as one command. Imports `runs`; no door."""
