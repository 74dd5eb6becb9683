"""Django looks for an app's admin here; the pages live in `chat.staff.admin`."""

from chat.staff.admin import conversations, feedback, golden, keys  # noqa: F401
