"""What a migration says of rows that it drops, so that whoever upgrades a site reads what it loses."""

import sys
from collections.abc import Callable
from typing import Any


def announce_dropped(app: str, model: str, what: str) -> Callable[[Any, Any], None]:
    """Return a `RunPython` step that prints how many rows of a table are dropped, and what they were; nothing where it is empty."""

    def announce(apps: Any, schema_editor: Any) -> None:
        count = apps.get_model(app, model).objects.using(schema_editor.connection.alias).count()
        if count:
            sys.stderr.write(f"\n  {count} rows of {app}.{model} are dropped: {what}.\n")

    return announce
