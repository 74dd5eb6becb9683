"""What the model may call: tools, the catalogue with its wall of rights, selection, and execution.

Public: `tool`, `catalog`, `selection`, `execution`, `usage`, `exceptions`. The loop that calls a model lives in `chat`,
which this app never imports; tools that need it are declared in `chat/tools.py`.
"""
