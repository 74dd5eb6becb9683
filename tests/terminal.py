"""Commands of `manage.py` as an operator's script calls them."""

import io
import json
from typing import Any

from django.core.management import call_command


def run(command: str, *words: object) -> Any:
    """The one JSON object that a command prints."""
    out = io.StringIO()
    call_command(command, *map(str, words), "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())
