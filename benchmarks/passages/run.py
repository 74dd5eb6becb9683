"""What a reader gets without a model, beside the simple thing: how often the answer is in the first quote, and whole in
what is displayed.

    python -m benchmarks.passages.run FOLDER SET.jsonl --language fr [--answers OUT.jsonl]

FOLDER holds the documents of a corpus; each line of the set is a question, a dialogue (`first`, then `question`) or an
outside question, with the `facts` of its answer: strings of its page, the first one the core. Questions go through
`ask` on a site of their own; the baseline (`benchmarks/baseline.py`) reads the same documents. Counted by string; a
person judges what `--answers` writes.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

#: Passages that each of the two shows.
SHOWN = 3
_QUOTE = re.compile(r"^(?=\*\*.+\*\* \[\d+\]$)", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"[*_`>|#\\]")


def plain(text: str) -> str:
    """The text without Markdown's marks, in lower case, with single spaces."""
    text = _MARKS.sub(" ", _LINK.sub(r"\1", unicodedata.normalize("NFKC", text)))
    return " ".join(text.casefold().split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--language", choices=("fr", "en"), required=True)
    parser.add_argument("--answers", type=Path, help="writes what was displayed, for a person to judge")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _prepare(folder)
        rows = list(_asked(options.folder, options.questions, options.language))
    if options.answers:
        options.answers.write_text(
            "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8"
        )
    _report(rows)


def _prepare(folder: str) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="config.settings",
        DATA_DIR=folder,
        DATABASE_URL=f"sqlite:///{folder}/site.db",
        LOG_LEVEL="ERROR",
        OPENAI_API_KEY="",
        REDIS_URL="",
        CELERY_BROKER_URL="",
        QDRANT_URL="",
    )
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    call_command("create_agent", "desk")


def _asked(folder: Path, questions: Path, language: str) -> Iterator[dict[str, Any]]:
    from django.core.management import call_command
    from django.utils import translation

    from agents.models import Deployment
    from benchmarks.baseline import Baseline, BaselinePassage, passages_of
    from chat.runs.terminal import ask
    from knowledge.embeddings.base import embedder
    from knowledge.errors import UnreadableDocumentError
    from knowledge.readers.base import page_name
    from knowledge.readers.registry import parse_document

    call_command("add_documents", "desk", str(folder), stdout=sys.stderr)
    deployment = Deployment.objects.get(slug="desk")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    pages = frozenset(page_name(str(path.relative_to(folder))) for path in files)
    passages: list[BaselinePassage] = []
    for path in files:
        name = str(path.relative_to(folder))
        try:
            passages += passages_of(name, parse_document(path.read_bytes(), filename=path.name, pages=pages))
        except UnreadableDocumentError as error:
            print(f"{name}: {error}", file=sys.stderr)
    baseline = Baseline(passages, embedder(), {"fr": "french", "en": "english"}[language])
    with translation.override(language):
        for line in tqdm(questions.read_text(encoding="utf-8").splitlines(), unit="question"):
            row = json.loads(line)
            conversation = ask(deployment, row["first"])["conversation_id"] if row.get("first") else None
            started = time.process_time()
            answer = ask(deployment, row["question"], conversation_id=conversation, dry_run=conversation is None)
            spent = 1000 * (time.process_time() - started)
            quotes = _QUOTE.split(answer["answer"])[1:] or [answer["answer"]]
            asked = f"{row['first']}\n{row['question']}" if row.get("first") else row["question"]
            found = [f"{each.heading}\n{each.text}" for each in baseline.search(asked, SHOWN)]
            yield {
                **row,
                "source": answer["answer_source"],
                "answer": answer["answer"],
                "milliseconds": round(spent, 1),
                "desk": _holds(row.get("facts", []), quotes, answer["answer_source"]),
                "baseline": _holds(row.get("facts", []), found, "") | {"text": found[0]},
            }


def _holds(facts: Sequence[str], quotes: Sequence[str], source: str) -> dict[str, Any]:
    """Whether the core is in the first quote, the whole answer is in it, the core and the whole in all of them."""
    wanted, shown = [plain(fact) for fact in facts], [plain(quote) for quote in quotes]
    together = " ".join(shown)
    return {
        "first": bool(wanted) and wanted[0] in shown[0],
        "first whole": bool(wanted) and all(fact in shown[0] for fact in wanted),
        "core": bool(wanted) and wanted[0] in together,
        "whole": bool(wanted) and all(fact in together for fact in wanted),
        "refused": source == "guard_rail",
        "characters": sum(map(len, quotes)),
    }


def _report(rows: Sequence[dict[str, Any]]) -> None:
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind]
        for who in ("desk", "baseline"):
            counts: Counter[str] = Counter()
            for row in of_kind:
                counts.update({name: value for name, value in row[who].items() if isinstance(value, int)})
            size = counts.pop("characters") // max(1, len(of_kind))
            figures = ", ".join(
                f"{name} {counts[name]}" for name in ("first", "first whole", "core", "whole", "refused")
            )
            print(f"{kind:9} {who:9} of {len(of_kind)}: {figures}, {size} characters")
    spent = sorted(row["milliseconds"] for row in rows)
    print(f"processor time of a question: median {spent[len(spent) // 2]:.1f} ms")


if __name__ == "__main__":
    main()
