"""What each program is tried with; it prints, as JSON, what came of each try: a text, or the error that it raised.

`ASKED` in the environment is asked instead of the known question, `ONLY` names the tries.
"""

import json
import os
import sys
from collections.abc import Callable

KNOWN = os.environ.get("ASKED", "Combien de temps peut-on garder le CV d’un candidat non retenu ?")
ONLY = os.environ.get("ONLY", "").split()
#: No deployment of the key; and one that writes its sources into its answers, for programs that show the text alone.
UNKNOWN = "nobody"
WRITTEN = "written"
OPEN = "Comment s’organise le télétravail et que rembourse l’accord aux salariés ?"
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def site() -> tuple[str, str, str]:
    """The address of `/v1`, a key and a model."""
    address, key, model = sys.argv[1:4]
    return address, key, model


def run(**tries: Callable[[], object]) -> None:
    found = {}
    for name, attempt in tries.items():
        if ONLY and name not in ONLY:
            continue
        try:
            found[name] = str(attempt())
        except Exception as error:  # noqa: BLE001  # whatever a program raises is what it did
            found[name] = f"ERROR {type(error).__name__}: {error}"
    sys.stdout.write("\n" + json.dumps(found) + "\n")
