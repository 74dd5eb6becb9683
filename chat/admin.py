"""Django looks for an app's admin here; the pages live in `chat.staff.admin`."""

import chat.staff.admin.conversations  # noqa: F401
