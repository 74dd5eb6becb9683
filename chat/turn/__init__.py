"""The path of one question: `path` tells it from top to bottom, the other modules are its steps.

Imports `thread` and what lies under it. A step takes the one `TurnInProgress`; none mixes database and network.
"""
