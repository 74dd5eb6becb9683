"""`add_documents AGENT PATH…`: load files, folders, pages and sitemaps and index them, inline, with a progress bar."""

import os
from argparse import ArgumentParser
from collections import defaultdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from agents.texts import storable
from knowledge.errors import PageRefusedError
from knowledge.indexing.jobs import build_missing_indexes, enqueue_questions, refresh_now
from knowledge.indexing.path import index_documents, store_files
from knowledge.indexing.points import IndexReport
from knowledge.indexing.refresh import add_source
from knowledge.management.terminal import JsonCommand, agent_named, progress_bar, report_lines
from knowledge.models import Category, page_address
from knowledge.readers.registry import SUPPORTED_SUFFIXES

#: Of a document's name, which is its key.
LONGEST_NAME = 500


class Command(JsonCommand):
    help = "Load files, folders, pages of the web or sitemaps into an agent and index them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent")
        parser.add_argument("paths", nargs="+", metavar="PATH", help="file, folder, https://… page or sitemap")
        parser.add_argument("--category", default="", help="of all these documents")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        report = IndexReport()
        addresses = [path for path in options["paths"] if page_address(path)]
        files = list_files([Path(path) for path in options["paths"] if not page_address(path)], report)
        category = None
        with progress_bar("point") as on_progress:
            if options["category"]:
                category, _ = Category.objects.get_or_create(name=options["category"][:200])
            documents, unchanged = store_files(agent, files, category, report)
            if documents:
                index_documents(agent=agent, documents=documents, report=report, on_progress=on_progress)
            for address in addresses:
                try:
                    source = add_source(agent=agent, address=address, category=category)
                except PageRefusedError as error:
                    report.fail(address, f"{error.public_message} ({error})")
                else:
                    refresh_now(source, report=report, on_progress=on_progress)
            build_missing_indexes(agent=agent, report=report, on_progress=on_progress)
            enqueue_questions(agent=agent, document_ids=[each.pk for each in (*documents, *unchanged)])
        told = report.as_json()
        self.tell(options, told, report_lines(told))
        if report.failed and not report.documents and not report.unchanged:
            raise CommandError("No document could be indexed; the reasons are above.")


def list_files(paths: list[Path], report: IndexReport) -> dict[str, Path]:
    """Files by document name: the path inside a given folder, else the name; same names have paths as given."""
    found: defaultdict[str, dict[Path, Path]] = defaultdict(dict)
    for path in paths:
        if path.is_dir():
            for inner in _files_inside(path, report):
                name = storable(str(inner.relative_to(path)))
                if _is_read(inner, name, report):
                    found[name].setdefault(inner.resolve(), inner)
        elif path.is_file():
            found[storable(path.name)].setdefault(path.resolve(), path)
        else:
            report.fail(str(path), "There is no such file or folder.")
    files: dict[str, Path] = {}
    for name, same in found.items():
        for file in same.values():
            full = name if len(same) == 1 else storable(str(file))
            if len(full) > LONGEST_NAME:
                report.fail(full, f"Its path is longer than {LONGEST_NAME} characters.")
            else:
                files[full] = file
    return files


def _files_inside(folder: Path, report: IndexReport) -> list[Path]:
    """Every file of a folder and of those inside it, hidden ones left out; a folder that cannot be read is told."""

    def tell(error: OSError) -> None:
        report.fail(str(error.filename), error.strerror or str(error))

    found: list[Path] = []
    for root, inside, names in os.walk(folder, onerror=tell):
        inside[:] = [name for name in inside if not name.startswith(".")]
        found += [Path(root, name) for name in names if not name.startswith(".")]
    return sorted(found)


def _is_read(path: Path, name: str, report: IndexReport) -> bool:
    try:
        if not path.is_file():
            return False
    except OSError as error:
        report.fail(str(path), error.strerror or str(error))
        return False
    if path.suffix.lower() in SUPPORTED_SUFFIXES:
        return True
    report.skip(name, "Files of this type are not read.")
    return False
