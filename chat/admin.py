"""Django looks for an app's admin here; the pages live in `chat.staff.admin`."""

from chat.staff.admin import conversations, golden, help_requests, keys  # noqa: F401
