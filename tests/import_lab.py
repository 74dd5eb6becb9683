"""An import that is killed at every write, and what stands once another process has taken it up.

    python -m tests.import_lab [EVERY]

Each experiment forks a process that applies the same import, and kills itself with SIGKILL before or after its n-th
writing statement or commit (`tests.correction_lab`); another then goes on, as the page of the import does. Prints one
JSON object a line.
"""

import json
import signal
import sys
from collections import Counter
from typing import Any

# Sets Django up, on a database of its own, before anything else is imported.
from tests.correction_lab import DATABASE, boundaries, forked, keep, restore

# isort: split


from agents.history import lines_of
from faqs import previews
from faqs.answer_points import sync_learned
from faqs.csv import plan_import
from faqs.models import ImportPreview, LearnedResponse
from faqs.previews import continue_import, keep_preview, start_import
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
    previews.FAQ_IMPORT_BATCH = BATCH
    preview = ImportPreview.objects.select_related("uploaded_by").get()
    with boundaries(fatal):
        if start_import(preview, chosen=[len(ROWS) + 2]):
            preview.refresh_from_db()
            continue_import(preview, seconds=60)


def take_up() -> None:
    """As the page of the import does, and then the worker."""
    previews.FAQ_IMPORT_BATCH = BATCH
    continue_import(ImportPreview.objects.select_related("uploaded_by").get(), seconds=60)
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
        "changes": [
            line.changes["answer"]
            for line in lines_of(LearnedResponse.objects.get(question=CHANGED[0])).filter(action=1)
        ],
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
