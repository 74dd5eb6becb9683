"""Measure what becomes of a question as it is typed, for both local models.

    python -m benchmarks.as_typed.run [--model M] [--cache FOLDER] [--part dev]

The FAQ of the CNIL, asked in the other ways of `benchmarks/retrieval` (all 200; `--part` for some), each typed as
`typing` does, then read, embedded, searched and judged by the production steps. Needs the folder named by
REPONDANT_DATA; writes nothing but `--cache`.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.utils.module_loading import import_string  # noqa: E402

from benchmarks.as_typed.typing import WAYS, typed  # noqa: E402
from benchmarks.retrieval.run import (  # noqa: E402
    DATA,
    MODELS,
    Corpus,
    Vectorizer,
    embed_payloads,
    fill_matrix,
    production_search,
    read_cnil,
)
from chat.turn.stored_answers import options_for  # noqa: E402
from faqs.second_key.same_question import would_serve  # noqa: E402
from knowledge.embeddings.base import Embedder, Purpose, Vectors  # noqa: E402
from knowledge.language.spelling import Vocabulary  # noqa: E402
from knowledge.language.typed import read_typed  # noqa: E402
from knowledge.search import SearchResult, Thresholds, best_of, texts_of  # noqa: E402
from knowledge.thresholds import ThresholdProfile, threshold_profile  # noqa: E402
from knowledge.vectors.matrix import Snapshot  # noqa: E402

#: Those of a new agent (`RuntimeSettings`).
BAND, MARGIN = 0.0, 0.10


@dataclass(slots=True)
class Row:
    asked: int = 0
    found_first: int = 0
    refused: int = 0
    direct: int = 0
    direct_wrong: int = 0
    did_you_mean: int = 0


@dataclass(frozen=True, slots=True)
class Bench:
    corpus: Corpus
    snapshot: Snapshot[int]
    vectors: Vectorizer
    profile: ThresholdProfile
    words: Vocabulary

    def search(self, text: str, vector: Vectors) -> SearchResult:
        weight = self.profile.lexical_weight or 0.0
        return production_search(self.snapshot, self.corpus.payloads, text, vector, weight)

    def row(self, way: str, places: Sequence[int]) -> Row:
        texts = [typed(self.corpus.questions[at], way) for at in places]
        readings = [read_typed(text, self.words) for text in texts]
        rows = [[each.text, *each.others] for each in readings]
        vectors = iter(self.vectors([text for row in rows for text in row], Purpose.QUERY, way))
        row = Row(len(places))
        for place, each in zip(places, readings, strict=True):
            whole, *others = [self.search(text, next(vectors)) for text in (each.text, *each.others)]
            found = best_of([whole, *others])
            self._judge(row, each.text, found, self.corpus.answers[place])
        return row

    def _judge(self, row: Row, asked: str, found: SearchResult, right: set[int]) -> None:
        profile = self.profile
        first = found.passages(1)
        row.found_first += bool(first) and first[0].chunk_id in right
        rails = Thresholds(
            profile.direct_answer, profile.guard_rail, profile.guard_rail_questions, profile.coverage_weight
        )
        row.refused += found.is_out_of_domain(rails)
        threshold = profile.direct_answer
        if threshold is None:
            return
        for hit in found.direct_candidates(threshold):
            decision = would_serve(stored=hit.question, asked=asked, score=hit.score, threshold=threshold)
            if decision.served:
                row.direct += 1
                row.direct_wrong += hit.chunk_id not in right
                return
        options = options_for(asked, found, thresholds=rails, band=BAND, margin=MARGIN)
        row.did_you_mean += bool(options)


def measure(model: str, cache: Path | None, part: str) -> dict[str, Row]:
    profile = threshold_profile(model)
    if profile is None:
        raise SystemExit(f"{model} has no measured thresholds.")
    embedder: Embedder = import_string(MODELS[model])()
    corpus, vectors = read_cnil(DATA), Vectorizer(embedder, cache)
    matrix, _taken = fill_matrix(corpus.payloads, embed_payloads(vectors, corpus.payloads))
    places = [at for at, name in enumerate(corpus.parts) if part in ("all", name)]
    words = Vocabulary.of(texts_of(corpus.payloads))
    bench = Bench(corpus, matrix.snapshot(), vectors, profile, words)
    return {way: bench.row(way, places) for way in WAYS}


def show(model: str, rows: dict[str, Row]) -> None:
    print(f"\n{model}: {next(iter(rows.values())).asked} questions\n")
    print("| as typed | found first | refused | direct answers | of them wrong | did you mean |")
    print("| --- | --- | --- | --- | --- | --- |")
    for way, row in rows.items():
        print(
            f"| {way} | {row.found_first / row.asked:.3f} | {row.refused} | {row.direct} "
            f"| {row.direct_wrong} | {row.did_you_mean} |"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Questions as people type them.")
    parser.add_argument("--model", choices=MODELS, action="append", help="default: all")
    parser.add_argument("--part", default="all", help="one part of the questions")
    parser.add_argument("--cache", type=Path, help="folder for the vectors, outside the repository")
    options = parser.parse_args(arguments)
    if not DATA.is_dir():
        print(f"No data at {DATA}: set REPONDANT_DATA.", file=sys.stderr)
        return 2
    for model in options.model or MODELS:
        show(model, measure(model, options.cache, options.part))
    return 0


if __name__ == "__main__":
    sys.exit(main())
