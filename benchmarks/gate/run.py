"""A gate before an index of real documents: a worse one is stopped, a better one goes live: `python -m
benchmarks.gate.run`.

Sheets of service-public.fr and the FAQ of the data-protection authority, read and indexed as staff do it, with the
local model. A reader that loses the end of a file makes the worse index, one that finds all of it the better one.
Nothing is mocked; the data folder is that named by REPONDANT_DATA (default: `../shared/data`).
"""

import csv
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

#: Sheets, and rows of the FAQ: those read first, those of the index in service, all.
SHEETS, LOST_FROM, SERVED, ROWS = 8, 40, 80, 120
SLUG = "droits"
#: What each passage of the FAQ holds, by its number.
_READ: dict[int, Any] = {}


def main() -> int:
    data = Path(os.environ.get("REPONDANT_DATA", "../shared/data"))
    if not (data / "cnil_faq.csv").exists():
        print(f"no data in {data}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            DJANGO_SETTINGS_MODULE="config.settings",
            DATA_DIR=folder,
            DATABASE_URL=f"sqlite:///{folder}/bench.db",
            LOG_LEVEL="ERROR",
            OPENAI_API_KEY="",
            OPENAI_BASE_URL="",
            REDIS_URL="",
            QDRANT_URL="",
            CELERY_BROKER_URL="filesystem://",
        )
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        _fill(data, Path(folder))
        _show()
    return 0


def _fill(data: Path, folder: Path) -> None:
    """An agent whose index has the sheets and the first rows, and a gate that asks of both, and of the rows to come."""
    from django.core.management import call_command

    from agents.models import Deployment
    from chat.models import GoldenSet, QuestionOrigin
    from chat.staff.golden.sets import add_questions

    with (data / "cnil_faq.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:ROWS]
    faq = folder / "cnil_faq.csv"
    with faq.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["question", "answer"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    sheets = sorted((data / "service_public").glob("*.md"), key=lambda path: path.stat().st_size)
    call_command("create_agent", SLUG, name="Vos droits", verbosity=0)
    call_command("add_documents", SLUG, faq, *sheets[:SHEETS])
    _keep(SERVED)
    call_command("rebuild_agent_index", SLUG)
    asked = [{"question": row["question"], "contains": row["answer"].strip()[:30]} for row in rows[::4]]
    for sheet in sheets[:SHEETS]:
        title = sheet.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").strip()
        asked.append({"question": title, "document": title[:40]})
    gate = GoldenSet.objects.create(name="Contrôle", deployment=Deployment.objects.get(slug=SLUG), is_gate=True)
    add_questions(gate, asked, QuestionOrigin.FILE)


def _keep(rows: int) -> None:
    """As a reader would have it that can read the answers of so many rows: what the documents hold says so, the index
    not yet.
    """
    from knowledge.models import Chunk

    for chunk in Chunk.objects.filter(document__name="cnil_faq.csv"):
        read = _READ.setdefault(chunk.pk, chunk.knowledge_units)
        lost = [{**unit, "answer": "[illisible]"} for unit in read]
        Chunk.objects.filter(pk=chunk.pk).update(knowledge_units=read if chunk.index < rows else lost)


def _show() -> None:
    from auditlog.models import LogEntry
    from django.core.management import call_command

    from agents.models import Agent, IndexingMethod
    from knowledge.vectors.base import collection_alias, vector_store

    agent = Agent.objects.get(slug=SLUG)
    method = IndexingMethod(agent.indexing_method)

    def serves() -> str | None:
        return vector_store().resolve_alias(collection_alias(SLUG, method))

    before = serves()
    _keep(LOST_FROM)
    worse = _rebuilt()
    assert worse["stopped"], "a worse index went live"
    assert serves() == before
    _tell("worse", worse)
    call_command("rebuild_agent_index", SLUG, "--discard")
    _keep(ROWS)
    better = _rebuilt()
    assert not better["stopped"], better
    assert serves() != before
    _tell("better", better)
    call_command("rebuild_agent_index", SLUG, "--rollback")
    assert serves() == before
    line = LogEntry.objects.filter(changes__has_key="index_in_service").latest("pk")
    _tell("rolled back", {"journal": line.changes["index_in_service"]})


def _rebuilt() -> dict[str, Any]:
    """A rebuild that nobody asked to stage, what its gate saw, and whether it could go live."""
    from django.core.management import call_command
    from django.core.management.base import CommandError

    from chat.models import GoldenRun
    from chat.staff.golden.gate import worse_results
    from chat.staff.golden.runs import carry_out
    from knowledge.models import BuildStatus, IndexBuild

    call_command("rebuild_agent_index", SLUG)
    build = IndexBuild.objects.latest("pk")
    assert build.status == BuildStatus.STAGED, build.status
    run = GoldenRun.objects.filter(build=build).latest("pk")
    began = time.perf_counter()
    carry_out(run.pk)
    seconds = time.perf_counter() - began
    results = list(run.results.all())
    stopped = ""
    try:
        call_command("rebuild_agent_index", SLUG, "--approve")
    except CommandError as error:
        stopped = str(error)
    return {
        "questions": len(results),
        "passed before": sum(not (each.before or {}).get("unmet") for each in results),
        "passed after": sum(each.has_passed for each in results),
        "worse": len(worse_results(run)),
        "seconds": round(seconds, 1),
        "stopped": stopped[:400],
    }


def _tell(what: str, found: dict[str, Any]) -> None:
    print(json.dumps({what: found}, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
