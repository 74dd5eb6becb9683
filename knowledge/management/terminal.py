"""What commands share: a progress bar on standard error, one JSON object on standard output, errors that help."""

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any, TypeVar

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.db.models import QuerySet
from django.utils.html import strip_tags
from django.utils.safestring import SafeString
from tqdm import tqdm

from agents.errors import ApplicationError
from agents.models import Agent, Deployment
from agents.texts import read_json
from knowledge.models import BuildPhase

M = TypeVar("M", Agent, Deployment)

_PHASE_UNITS = {
    BuildPhase.FETCHING: "page",
    BuildPhase.READING: "document",
    BuildPhase.QUESTIONS: "passage",
    BuildPhase.VECTORS: "point",
}


#: Names in one line; the others are counted.
LISTED_NAMES = 10


@contextmanager
def progress_bar(unit: str, **options: Any) -> Iterator[Callable[..., None]]:
    """A bar that follows (done, total), from zero again in each phase of a build; `options` are those of tqdm."""
    with tqdm(unit=unit, file=sys.stderr, dynamic_ncols=True, **options) as bar:
        shown: object = None

        def advance(done: int, total: int, phase: object = None, /) -> None:
            nonlocal shown
            if isinstance(phase, BuildPhase) and phase is not shown:
                shown = phase
                bar.set_description(phase.value, refresh=False)
                bar.unit = _PHASE_UNITS[phase]
                bar.reset(total)
            if bar.total != total:
                bar.total = total
                bar.refresh()
            bar.update(done - bar.n)

        yield advance


@contextmanager
def errors_to_terminal() -> Iterator[None]:
    """Our errors, and the database's, as a message on standard error and a non-zero exit status."""
    try:
        yield
    except ApplicationError as error:
        said = error.public_message
        if isinstance(said, SafeString):  # made for a page, with links
            said = unescape(strip_tags(said))
        raise CommandError(f"{said} ({error})") from error
    except DatabaseError as error:
        raise CommandError(
            f"The database cannot be used: {error}. If it is new, or the program was upgraded, run: manage.py migrate"
        ) from error


class JsonCommand(BaseCommand):
    """A command that tells people what it did, line by line, or a program with `--json`; errors are `errors_to_terminal`'s."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        with errors_to_terminal():
            return super().execute(*args, **options)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def tell(self, options: Mapping[str, Any], value: Mapping[str, Any], lines: Iterable[str]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(value, ensure_ascii=False, default=str))
            return
        for line in lines:
            self.stdout.write(line)


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file, one a line, each with its place; raises `ValueError` with what cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    # Not `splitlines`: a text may hold U+2028 and its like, which end no line of JSON.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = read_json(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: not a JSON object.")
        yield f"{path}, line {number}", row


def at_least_one(text: str) -> int:
    """The type of an argument."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def agent_named(slug: str) -> Agent:
    return _named(Agent.objects.all(), slug)


def deployment_named(slug: str) -> Deployment:
    return _named(Deployment.objects.select_related("agent"), slug)


def _named(rows: "QuerySet[M]", slug: str) -> M:
    row = rows.filter(slug=slug).first()
    if row is None:
        kind = rows.model._meta.model_name
        known = ", ".join(rows.values_list("slug", flat=True)) or "none yet"
        create = f"Create it with: manage.py create_agent {slug}"
        raise CommandError(f"There is no {kind} {slug!r} ({kind}s: {known}). {create}")
    return row


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """What a run did, for people: one line for what is the same of many files."""
    yield (
        "{documents} documents, {chunks} chunks, {points} points ({embedded} embedded, {reused} reused), {seconds} s"
    ).format(**report)
    if report["model_calls"]:
        yield "  {model_calls} model calls; {rejected} units not kept".format(**report)
    if report.get("pages"):
        yield "  {pages} pages: {unchanged} unchanged, {gone} gone".format(**report)
    elif report.get("unchanged"):
        yield "  {unchanged} of them unchanged, not read again".format(**report)
    skipped: dict[str, list[str]] = {}
    for row in report["skipped"]:
        skipped.setdefault(row["reason"], []).append(row["item"])
    for reason, names in skipped.items():
        more = f" and {len(names) - LISTED_NAMES} more" if len(names) > LISTED_NAMES else ""
        yield f"  skipped: {', '.join(names[:LISTED_NAMES])}{more}: {reason}"
    for row in report["failed"]:
        yield f"  failed: {row['item']}: {row['reason']}"
