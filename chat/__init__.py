"""The conversation, in packages; the top of the import order: only `config` imports this app.

`page | serve | staff → api → runs | retention → turn → thread → access → shared modules`, which `pyproject.toml` checks.
"""
