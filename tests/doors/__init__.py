"""Every door of the site by every role, driven with rows, held to the rules of `tests/integration/doors`.

`catalogue` finds the doors (URL configuration, admin actions, socket frames), `world` the rows; `admin`, `readers` and
`frames` knock.
"""
