"""The conversation, in rooms; the top of the import order: nothing imports it but `config`.

`urls → page | serve | staff → api → runs | archive → turn → thread → access → the ground` (`protocol`, `rendering`,
`telemetry`, `models`, `errors`, which all rooms share). A room imports what stands right of it and never back; the
contract in `pyproject.toml` checks it. The story of a question is `chat/turn/path.py`.
"""
