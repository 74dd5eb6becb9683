"""The child that reads files for `knowledge.isolation`: `python -m knowledge.reader_process BYTES`.

Its address space is limited before anything is read, and it ends when its standard input does, so it cannot outlive the
process that asked. What libraries print goes to standard error.
"""

import os
import resource
import sys
from typing import Any, BinaryIO


def main() -> None:
    limit = int(sys.argv[1])
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    _load_models()
    from knowledge.isolation import frame

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    _reply(replies, frame({"ready": True}))
    pages: frozenset[str] = frozenset()
    while (question := _question(sys.stdin.buffer)) is not None:
        data = sys.stdin.buffer.read(question["size"])
        pages = frozenset(question["pages"]) if "pages" in question else pages
        _reply(replies, frame(_answer(question, data, pages)))


def _load_models() -> None:
    """The apps whose models the parsers name, without what runs at their start: a whole site takes thrice as long."""
    from importlib import import_module

    from django.apps import AppConfig, apps
    from django.conf import settings
    from django.utils.log import configure_logging

    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
    own = (AppConfig(name, import_module(name)) for name in ("agents", "knowledge"))
    apps.populate(["django.contrib.contenttypes", "django.contrib.auth", *own])


def _question(questions: BinaryIO) -> dict[str, Any] | None:
    import json

    from knowledge.isolation import HEADER

    header = questions.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    question: dict[str, Any] = json.loads(questions.read(HEADER.unpack(header)[0]))
    return question


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


def _reply(replies: BinaryIO, data: bytes) -> None:
    replies.write(data)
    replies.flush()


if __name__ == "__main__":
    main()
