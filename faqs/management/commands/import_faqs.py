"""`import_faqs AGENT FILE.csv`: add validated answers from a file.

An answer that exists is replaced, or contradicted by another answer to its question, only with `--yes`.
"""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from agents.models import Agent
from faqs.answer_points import SyncReport, sync_learned
from faqs.csv import (
    ASKED,
    FAQ_MAX_IMPORT_BYTES,
    FaqRow,
    ImportPlan,
    ImportReport,
    PlannedRow,
    RowKind,
    apply_import,
    plan_import,
)
from knowledge.management.terminal import JsonCommand, agent_named, progress_bar


class Command(JsonCommand):
    help = "Import validated answers from a CSV file (question, answer, category)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("file", metavar="FILE.csv", type=Path)
        parser.add_argument("--yes", action="store_true", help="replace and contradict answers too")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, write nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        plan = self._plan(agent, _read(options["file"]))
        if options["dry_run"]:
            unchanged = len(plan.of_kind(RowKind.UNCHANGED))
            report, synced = ImportReport(unchanged=unchanged, failed=list(plan.failed)), SyncReport()
            report.left = plan.left(())
        else:
            chosen = {planned.row.line for planned in plan.of_kind(*ASKED)} if options["yes"] else set[int]()
            report = apply_import(plan, chosen=chosen)
            with progress_bar("answer") as on_progress:
                synced = sync_learned(report.keys, on_progress=on_progress)
        result = _result(plan, report, synced)
        self.tell(options, result, _lines(result, report.left, is_dry_run=options["dry_run"]))
        if synced.failed:
            raise CommandError(
                f"{len(synced.failed)} answers are kept and wait to be indexed: "
                f"{synced.failed[0]['reason']} A worker tries again by itself."
            )
        if report.failed and len(report.failed) == len(plan.rows) + len(plan.failed):
            raise CommandError("No row could be imported; the reasons are above.")

    def _plan(self, agent: Agent, data: bytes) -> ImportPlan:
        with progress_bar("question") as on_progress:
            plan = plan_import(agent, data, on_progress=on_progress)
        if plan.not_compared:
            self.stderr.write(
                f"{plan.not_compared} rows were not compared with answers to other wordings: {plan.not_compared_reason}"
            )
        return plan


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(FAQ_MAX_IMPORT_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error


def _result(plan: ImportPlan, report: ImportReport, synced: SyncReport) -> dict[str, Any]:
    return {
        "new": len(plan.of_kind(RowKind.NEW)),
        "created": report.created,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "indexed": synced.indexed,
        "changed": [_as_json(planned) for planned in plan.of_kind(RowKind.CHANGED)],
        "contradictory": [_as_json(planned) for planned in plan.of_kind(RowKind.CONTRADICTORY)],
        "left": [_as_json(planned) for planned in report.left],
        "failed": [asdict(failure) for failure in report.failed],
        "not_indexed": synced.failed,
        "not_compared": plan.not_compared,
    }


def _as_json(planned: PlannedRow) -> dict[str, Any]:
    row, old = asdict(planned.row), None
    if planned.old is not None:
        old = asdict(FaqRow.of(planned.old)) | {"status": planned.old.status}
        del old["line"]
    return {"line": row.pop("line"), "question": planned.row.question, "old": old, "new": row}


def _lines(result: dict[str, Any], left: Sequence[PlannedRow], *, is_dry_run: bool) -> Iterator[str]:
    if is_dry_run:
        yield "Nothing is written: {new} new, {unchanged} unchanged, {changes} changed, {against} contradictory".format(
            **result, changes=len(result["changed"]), against=len(result["contradictory"])
        )
    else:
        yield "{created} created, {updated} updated, {unchanged} unchanged, {indexed} indexed".format(**result)
    for row in result["failed"]:
        yield f"  line {row['line']}: {row['reason']}"
    if left:
        verb = "would be left" if is_dry_run else "left"
        yield f"{len(left)} {verb} as they are; `--yes` imports them all, the admin lets you choose:"
        for planned in left:
            yield f"  line {planned.row.line}: {planned.row.question}"
            for answer in filter(None, (planned.replaces, *planned.contradicts)):
                yield f"    now: {answer.question} → {answer.answer}"
            yield f"    in the file: {planned.row.answer}"
