"""The child that reads files for `knowledge.isolation`: `python -m knowledge.reader_process BYTES`.

Its address space is limited before anything is read, and it ends when its standard input, the connection to the process
that asked, does: it cannot outlive that process. What libraries print goes to standard error.
"""

import gc
import json
import os
import resource
import sys
from multiprocessing.connection import Connection
from typing import Any


def main() -> None:
    limit = int(sys.argv[1])
    # Programs that a parser starts inherit the standard input: not the connection.
    channel = Connection(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    _load_models()
    import knowledge.isolation  # noqa: F401  # with all libraries, before memory is limited

    # A large page is a million objects that refer to each other: looking for what is left over took two fifths of the time.
    gc.set_threshold(50_000, 20, 100)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    channel.send_bytes(b"ready")
    pages: frozenset[str] = frozenset()
    while True:
        try:
            question, data = json.loads(channel.recv_bytes()), channel.recv_bytes()
        except (EOFError, OSError):
            return
        pages = frozenset(question.get("pages", pages))
        channel.send_bytes(json.dumps(_answer(question, data, pages)).encode())


def _load_models() -> None:
    """The apps whose models the parsers name, without what runs at their start: a whole site takes thrice as long."""
    from importlib import import_module

    from django.apps import AppConfig, apps
    from django.conf import settings
    from django.utils.log import configure_logging

    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
    own = (AppConfig(name, import_module(name)) for name in ("agents", "knowledge"))
    apps.populate(["django.contrib.contenttypes", "django.contrib.auth", *own])


def _answer(question: dict[str, Any], data: bytes, pages: frozenset[str]) -> dict[str, Any]:
    from dataclasses import asdict

    from django.utils import translation

    from knowledge.errors import DiskFullError, MachineTroubleError, UnreadableDocumentError
    from knowledge.isolation import read_guarded

    with translation.override(question["language"]):
        try:
            return asdict(read_guarded(data, filename=question["filename"], pages=pages))
        except MemoryError:
            os._exit(os.EX_OSERR)  # what is left of the memory is not worth counting on
        except MachineTroubleError as error:
            return {"trouble": str(error), "is_full": isinstance(error, DiskFullError)}
        except UnreadableDocumentError as error:
            return {"refused": str(error.public_message), "detail": str(error)}


if __name__ == "__main__":
    main()
