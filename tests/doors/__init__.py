"""Every door of the site by every role, driven with rows, against the committed table `docs/doors.md`.

`catalogue` finds the doors (URL configuration, admin actions, socket frames), `world` the rows, `admin`, `readers` and
`frames` knock, `table` reads and writes the document.
"""
