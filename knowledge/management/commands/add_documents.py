"""`add_documents AGENT PATH…`: load files or folders and index them, inline, with a progress bar."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.models import Agent
from knowledge.indexing.documents import index_documents, store_document
from knowledge.indexing.report import IndexReport
from knowledge.management.terminal import (
    agent_named,
    errors_to_terminal,
    print_json,
    print_report,
    progress_bar,
)
from knowledge.models import Category, Document
from knowledge.overlaps import find_overlaps
from knowledge.parsing.registry import SUPPORTED_SUFFIXES


class Command(BaseCommand):
    help = "Load files or folders into an agent and index them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent")
        parser.add_argument("paths", nargs="+", metavar="PATH", type=Path)
        parser.add_argument("--category", default="", help="of all these documents")
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        report = IndexReport()
        files = list_files(options["paths"], report)
        category = None
        if options["category"]:
            category, _ = Category.objects.get_or_create(name=options["category"][:200])
        documents = store_files(agent, files, category, report)
        with errors_to_terminal(), progress_bar("point") as on_progress:
            index_documents(
                agent=agent, documents=documents, report=report, on_progress=on_progress
            )
            if report.embedded:
                find_overlaps(agent, document_ids={document.pk for document in documents})
        if options["json"]:
            print_json(self.stdout, report.as_json())
        else:
            print_report(self.stdout, report.as_json())
        if report.failed and not report.documents:
            raise CommandError("No document could be indexed; the reasons are above.")


def list_files(paths: list[Path], report: IndexReport) -> dict[str, Path]:
    """Files by document name: the path inside a given folder, or the name of a given file."""
    files: dict[str, Path] = {}
    for path in paths:
        if path.is_dir():
            for inner in sorted(path.rglob("*")):
                _add(files, inner, str(inner.relative_to(path)), report)
        elif path.is_file():
            files[path.name] = path
        else:
            report.fail(str(path), "There is no such file or folder.")
    return files


def _add(files: dict[str, Path], path: Path, name: str, report: IndexReport) -> None:
    if not path.is_file() or any(part.startswith(".") for part in Path(name).parts):
        return
    if path.suffix.lower() in SUPPORTED_SUFFIXES:
        files[name] = path
    else:
        report.skip(name, f"Files of type {path.suffix or 'none'} are not read.")


def store_files(
    agent: Agent, files: dict[str, Path], category: Category | None, report: IndexReport
) -> list[Document]:
    """Store every readable file; one that cannot be read from the disk is reported and the rest is done."""
    documents = []
    for name, path in files.items():
        try:
            data = path.read_bytes()
        except OSError as error:
            report.fail(name, error.strerror or str(error))
            continue
        stored = store_document(agent=agent, name=name[:500], data=data, category=category)
        documents.append(stored.document)
    return documents
