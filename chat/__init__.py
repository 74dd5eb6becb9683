"""The conversation, in packages; the top of the import order: only `config` imports this app.

`urls → page | serve | staff → api → runs | archive → turn → thread → access → shared modules` (`protocol`, `rendering`,
`telemetry`, `models`, `errors`). A package imports only what stands right of it; the contract in `pyproject.toml`
checks this. The story of a question is `chat/turn/path.py`.
"""
