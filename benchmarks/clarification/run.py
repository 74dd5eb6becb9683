"""Measure "did you mean A or B?": how often it is asked, and how often the right question is among those offered.

    python -m benchmarks.clarification.run [--model universal-sentence-encoder-multilingual-3] [--cache FOLDER]

The FAQ of the CNIL, asked in the 200 other ways of `benchmarks/retrieval`, by the production search, direct answers and
options; and, with `--covid`, the covid FAQ asked by its own questions, each without its own entry, which only says how
often it is asked there. Needs the folder named by REPONDANT_DATA; writes nothing but `--cache`.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import django
import numpy as np

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.utils.module_loading import import_string  # noqa: E402

from benchmarks.retrieval.run import (  # noqa: E402
    DATA,
    MODELS,
    Corpus,
    Vectorizer,
    embed_payloads,
    fill_matrix,
    production_search,
    read_cnil,
    read_jsonl,
)
from chat.turn.stored_answers import options_for  # noqa: E402
from faqs.second_key.same_question import would_serve  # noqa: E402
from knowledge.embeddings.base import Embedder, Purpose  # noqa: E402
from knowledge.search import SearchResult, Thresholds  # noqa: E402
from knowledge.thresholds import Rate, threshold_profile  # noqa: E402

_TAGS = re.compile(r"<[^>]+>")
BANDS = (0.0, 0.05, 0.1, 0.15)
MARGINS = (0.03, 0.05, 0.1)


@dataclass(frozen=True, slots=True)
class Unserved:
    """A question that no direct answer met, what search found, and the chunks that would have been right."""

    question: str
    part: str
    found: SearchResult
    right: frozenset[int]


def read_covid(folder: Path) -> Corpus:
    corpus = Corpus()
    for chunk, row in enumerate(read_jsonl(folder / "covid_faq_fr.jsonl")):
        answer = _TAGS.sub(" ", row["answer_html"])
        corpus.add_chunk(chunk, answer, title="covid", path=row["question"], question=row["question"])
        corpus.ask(row["question"], [], "covid")
    return corpus


def unserved(corpus: Corpus, vectors: Vectorizer, weight: float, threshold: float) -> tuple[int, list[Unserved]]:
    """How many questions were asked, and those that no direct answer met."""
    matrix, _taken = fill_matrix(corpus.payloads, embed_payloads(vectors, corpus.payloads))
    rows = vectors(corpus.questions, Purpose.QUERY, "questions")
    snapshot, kept = matrix.snapshot(), []
    for question, row, right, part in zip(corpus.questions, rows, corpus.answers, corpus.parts, strict=True):
        found = production_search(snapshot, corpus.payloads, question, row, weight)
        hits = [hit for hit in found.hits if right or hit.question != question]
        found = SearchResult(tuple(hits))
        if not any(
            would_serve(stored=hit.question, asked=question, score=hit.score, threshold=threshold).served
            for hit in found.direct_candidates(threshold)
        ):
            kept.append(Unserved(question, part, found, frozenset(right)))
    return len(rows), kept


def show(name: str, total: int, part: Sequence[Unserved], thresholds: Thresholds) -> None:
    print(f"\n{name}: {total} questions, {len(part)} without a direct answer")
    print("| band | margin | asked | right one among the options | options |")
    print("| --- | --- | --- | --- | --- |")
    for band in BANDS:
        for margin in MARGINS:
            asked = [
                (each, options)
                for each in part
                if (options := options_for(each.question, each.found, thresholds=thresholds, band=band, margin=margin))
            ]
            right = sum(any(option.chunk_id in each.right for option in options) for each, options in asked)
            size = float(np.mean([len(options) for _each, options in asked])) if asked else 0.0
            known = Rate(right, len(asked)) if part and part[0].right else "–"
            print(f"| {band} | {margin} | {Rate(len(asked), total)} | {known} | {size:.1f} |")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Did you mean A or B?")
    parser.add_argument("--model", choices=MODELS, default=next(iter(MODELS)))
    parser.add_argument("--cache", type=Path, help="folder for the vectors, outside the repository")
    parser.add_argument("--covid", action="store_true", help="the covid FAQ too: minutes with e5")
    options = parser.parse_args(arguments)
    if not DATA.is_dir():
        print(f"No data at {DATA}: set REPONDANT_DATA.", file=sys.stderr)
        return 2
    profile = threshold_profile(options.model)
    if profile is None or profile.direct_answer is None:
        print(f"{options.model} has no measured thresholds.", file=sys.stderr)
        return 2
    embedder: Embedder = import_string(MODELS[options.model])()
    vectors = Vectorizer(embedder, options.cache)
    weight, threshold = profile.lexical_weight or 0.0, profile.direct_answer
    thresholds = Thresholds(threshold, profile.guard_rail, profile.guard_rail_questions, profile.coverage_weight)
    total, rows = unserved(read_cnil(DATA), vectors, weight, threshold)
    show("CNIL", total, rows, thresholds)
    held_out = [row for row in rows if row.part == "held_out"]
    show("CNIL, held out", sum(part == "held_out" for part in read_cnil(DATA).parts), held_out, thresholds)
    if options.covid:
        total, rows = unserved(read_covid(DATA), vectors, weight, threshold)
        show("covid", total, rows, thresholds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
