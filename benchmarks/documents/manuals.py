"""Is the right page of a manual first? Natural questions over all pages of two manuals, read, cut, embedded and ranked
as production does.

    python -m benchmarks.documents.manuals postgresql /usr/share/doc/postgresql-doc-15/html --cache /tmp/vectors
    python -m benchmarks.documents.manuals handbook /usr/share/doc/debian-handbook/html/fr-FR --misses

`manual_questions.jsonl`: questions with the pages that answer them, written before a passage was looked at. Any passage
of a right page is right.
"""

import argparse
from pathlib import Path

import django
from django.utils.module_loading import import_string

from benchmarks.retrieval.run import (
    MODELS,
    Corpus,
    Vectorizer,
    embed_payloads,
    fill_matrix,
    production_search,
    read_jsonl,
)
from knowledge.chunking import affordable_chunks
from knowledge.embeddings.base import Embedder, Purpose
from knowledge.readers.base import page_name
from knowledge.readers.registry import parse_document
from knowledge.thresholds import threshold_profile

QUESTIONS = Path(__file__).with_name("manual_questions.jsonl")
FIRST = 5


def read_manual(folder: Path) -> tuple[Corpus, list[str]]:
    """Its passages, and the page of each."""
    pages = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.html"))}
    names = list(pages)
    site = frozenset(map(page_name, names))
    corpus, page_of = Corpus(), list[str]()
    for page, (name, path) in enumerate(pages.items()):
        parsed = parse_document(path.read_bytes(), filename=name, pages=site)
        for draft in affordable_chunks(parsed)[0]:
            question = draft.units[0].question if draft.units else ""
            where = {"title": parsed.title, "path": draft.parent_context, "question": question}
            corpus.add_chunk(len(page_of), draft.content, **where, document=page)
            page_of.append(name)
    return corpus, page_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manual", choices=("postgresql", "handbook"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=MODELS, default=next(iter(MODELS)))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    parser.add_argument("--misses", action="store_true", help="name what came first instead")
    options = parser.parse_args()
    corpus, page_of = read_manual(options.folder.resolve())
    profile = threshold_profile(options.model)
    weight = (profile.lexical_weight if profile else None) or 0.0
    embedder: Embedder = import_string(MODELS[options.model])()
    vectors = Vectorizer(embedder, options.cache)
    snapshot = fill_matrix(corpus.payloads, embed_payloads(vectors, corpus.payloads))[0].snapshot()
    asked = [row for row in read_jsonl(options.questions) if row["manual"] == options.manual]
    rows = vectors([row["question"] for row in asked], Purpose.QUERY, "questions")
    print(f"{len(set(page_of))} pages, {len(page_of)} passages, {options.model}")
    found: dict[str, list[list[bool]]] = {}
    for row, vector in zip(asked, rows, strict=True):
        result = production_search(snapshot, corpus.payloads, row["question"], vector, weight)
        got = [page_of[passage.chunk_id or 0] for passage in result.passages(FIRST)]
        found.setdefault(row["set"], []).append([page in row["pages"] for page in got])
        if options.misses and not found[row["set"]][-1][:1] == [True]:
            print(f"- {row['question']}\n    wanted {row['pages']}, got {got}")
    for name, right in found.items():
        first, among = sum(each[0] for each in right), sum(map(any, right))
        print(f"{name}: first {first} of {len(right)}, among the first {FIRST} {among}")


if __name__ == "__main__":
    django.setup()
    main()
