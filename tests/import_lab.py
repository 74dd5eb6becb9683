"""An import that is killed at every write, and what stands once another process has taken it up.

    python -m tests.import_lab [EVERY]

Each experiment forks a process that applies the same import, and kills itself with SIGKILL before or after its n-th
writing statement or commit (`tests.correction_lab`); another then looks for what was left, as the worker does, after
the lease has run out. Prints one JSON object a line.
"""

import json
import signal
import sys
from collections import Counter
from typing import Any
from unittest import mock

# Sets Django up, on a database of its own, before anything else is imported.
from tests.correction_lab import DATABASE, boundaries, forked, keep, restore

# isort: split

from django.conf import settings  # the lab above sets Django up
from django.utils import timezone

from faqs.answers.indexing import sync_learned
from faqs.files import applying
from faqs.files.applying import reap_imports, run_import, start_import
from faqs.files.importing import plan_import
from faqs.files.previews import keep_preview
from faqs.models import ImportPreview, LearnedResponse
from tests.factories import add_document, make_agent, make_learned, make_user
from tests.servers.of_the_run import migrated_sqlite

ROWS = [(f"Comment s’inscrire à l’activité {n} ?", f"Au guichet {n}.") for n in range(6)]
CHANGED = ("Quels sont les horaires de la piscine ?", "De 7 heures à 22 heures.")
BATCH = 3


def build() -> None:
    migrated_sqlite(DATABASE)
    agent = make_agent()
    add_document(agent)
    make_learned(agent, question=CHANGED[0], answer="De 9 heures à 20 heures.")
    lines = ["question,answer", *(f'"{q}","{a}"' for q, a in (*ROWS, CHANGED))]
    keep_preview(plan_import(agent, "\n".join(lines).encode()), by=make_user())
    keep()


def apply(fatal: int) -> None:
    applying.FAQ_IMPORT_BATCH = BATCH
    preview = ImportPreview.objects.get()
    with boundaries(fatal):
        start_import(preview, chosen=[len(ROWS) + 2])


def take_up() -> None:
    """As the worker does once the lease has run out."""
    applying.FAQ_IMPORT_BATCH = BATCH
    ImportPreview.objects.exclude(lease_expires_at=None).update(lease_expires_at=timezone.now())
    settings.JOB_REAP_SECONDS = 0.0
    found: list[Any] = []
    with mock.patch("faqs.files.applying._nudge", found.append):
        reap_imports()
    for key in found:
        run_import(key)
    sync_learned()


def experiment(fatal: int) -> dict[str, Any]:
    restore()
    status = forked(lambda: apply(fatal))
    begun = ImportPreview.objects.get()
    retried = forked(take_up)
    ended = ImportPreview.objects.get()
    stored = Counter(LearnedResponse.objects.values_list("question", "answer"))
    return {
        "boundary": fatal,
        "status": status,
        "state": begun.state,
        "done": begun.done,
        "retried": retried,
        "ended": ended.state,
        "counts": [ended.done, ended.created, ended.updated, len(ended.refused)],
        "once": stored == Counter([*ROWS, CHANGED]),
        "versions": sorted(LearnedResponse.objects.get(question=CHANGED[0]).versions.values_list("answer", flat=True)),
        "settled": not LearnedResponse.objects.unsettled().exists(),
    }


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
