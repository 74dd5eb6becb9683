"""What a reader does with conversations afterwards: search them, export them, share them, forget them.

Imports `thread` and what lies under it.
"""
