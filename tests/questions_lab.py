"""A writing of questions that is killed at every write, and what stands once another process has taken it up.

    python -m tests.questions_lab [EVERY]

Each experiment forks a process that writes questions within a budget of a few calls, and kills itself with SIGKILL
before or after its n-th writing statement or commit (`tests.correction_lab`); another takes the job up, as the worker
does after the lease has run out, then again on the next day. The model notes each call in a file before it answers.
Prints one JSON object a line.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

# Sets Django up, on a database of its own, before anything else is imported.
from tests.correction_lab import DATABASE, boundaries, forked, keep, restore

# isort: split

from django.db.models import F
from django.utils import timezone

from agents.llm.base import GenerationOptions, PromptMessage, Reply, Usage
from agents.models import Agent, IndexingMethod, JobKind, RuntimeSettings
from knowledge.indexing import questions
from knowledge.indexing.jobs import enqueue_questions, run_build
from knowledge.indexing.points import plan_agent
from knowledge.indexing.sync import stale_documents
from knowledge.models import Chunk, IndexBuild, QuestionSpending, UnitsOrigin
from knowledge.vectors.base import collection_alias, vector_store
from tests.factories import add_document, make_agent
from tests.scripted import ScriptedLLM
from tests.servers.of_the_run import migrated_sqlite

PASSAGES, BUDGET = 6, 4
_CALLS = Path(os.environ["TEST_DATA_DIR"]) / "calls"
_QUESTION = {"question": "Combien coûte la carte ?", "answer": "La carte coûte 12 euros."}


class NotingModel(ScriptedLLM):
    """Answers everything the same, after a line in a file that outlives its process."""

    def complete(self, messages: Sequence[PromptMessage], options: GenerationOptions) -> Reply:
        with _CALLS.open("a") as file:
            file.write("call\n")
        return Reply(json.dumps({"units": [_QUESTION]}), "noting", Usage(100, 20))


def build() -> None:
    migrated_sqlite(DATABASE)
    RuntimeSettings(values={"question_calls_per_day": BUDGET}).save()
    agent = make_agent()
    sections = "\n\n".join(f"## Partie {n}\n\n" + "La carte coûte 12 euros au guichet. " * 8 for n in range(PASSAGES))
    add_document(agent, text=f"# Carte\n\n{sections}\n")
    with mock.patch.object(questions, "language_model", return_value=NotingModel()):
        assert enqueue_questions(agent=agent) is not None
    keep()


def write(fatal: int) -> None:
    questions.UNIT_GENERATION_PARALLEL = 1
    questions.QUESTIONS_WRITE_PASSAGES = 2
    job = IndexBuild.objects.get(kind=JobKind.QUESTIONS)
    model = mock.patch.object(questions, "language_model", return_value=NotingModel())
    with model, boundaries(fatal):
        run_build(job.pk, may_retry=True)


def take_up() -> None:
    """As the worker does once the lease has run out, or at the time that the job waits for."""
    IndexBuild.objects.update(lease_expires_at=timezone.now(), not_before=None)
    write(0)


def the_next_day() -> None:
    QuestionSpending.objects.update(day=F("day") - timedelta(days=1))
    take_up()


def calls() -> int:
    return len(_CALLS.read_text().splitlines()) if _CALLS.exists() else 0


def counted() -> int:
    return sum(QuestionSpending.objects.values_list("calls", flat=True))


def experiment(fatal: int) -> dict[str, Any]:
    restore()
    _CALLS.unlink(missing_ok=True)
    status = forked(lambda: write(fatal))
    row: dict[str, Any] = {"boundary": fatal, "status": status, "calls": calls(), "counted": counted()}
    row["retried"] = forked(take_up)
    row["calls_of_the_day"], row["counted_of_the_day"] = calls(), counted()
    row["days"] = 1
    while forked(the_next_day) == 0 and row["days"] < PASSAGES and _waits():
        row["days"] += 1
    agent = Agent.objects.get()
    alias = collection_alias(agent.slug, IndexingMethod.QA_ATOMIC)
    planned = {point.id for point in plan_agent(agent, IndexingMethod.QA_ATOMIC)}
    stored = [point.id for batch in vector_store().scroll(alias) for point in batch]
    return row | {
        "ended": IndexBuild.objects.get(kind=JobKind.QUESTIONS).status,
        "written": Chunk.objects.filter(units_origin=UnitsOrigin.GENERATED).count(),
        "once": sorted(stored) == sorted(planned) and not stale_documents(agent),
        "all_calls": calls(),
        "all_counted": counted(),
    }


def _waits() -> bool:
    return Chunk.objects.waiting().exists()


def main(every: int) -> None:
    build()
    fatal, status = 1, -signal.SIGKILL
    while status:
        row = experiment(fatal)
        status = row["status"]
        sys.stdout.write(f"{json.dumps(row)}\n")
        sys.stdout.flush()
        fatal += every


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
