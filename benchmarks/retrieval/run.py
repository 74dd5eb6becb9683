"""Measure dense retrieval: for each question of a corpus, the rank of the text it belongs to, among all texts.

    python -m benchmarks.retrieval.run --corpus piaf --model universal-sentence-encoder-multilingual-3

Reads the data folder named by REPONDANT_DATA (default: `../shared/data`); writes nothing; needs no database. It calls
the production embedders and an exact cosine search. Progress goes to standard error, figures to standard output.
"""

import argparse
import csv
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
from tqdm import tqdm

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.utils.module_loading import import_string

from knowledge.embeddings.base import Embedder, Purpose, Vectors

MODELS = {
    "universal-sentence-encoder-multilingual-3": "knowledge.embeddings.local.UniversalSentenceEncoder",
    "multilingual-e5-small": "knowledge.embeddings.local.MultilingualE5Small",
}
DATA = Path(
    os.environ.get("REPONDANT_DATA")
    or Path(__file__).resolve().parents[2].parent / "shared" / "data"
)
CUTS = (1, 5, 10)
_LATENCY_SAMPLE = 200


@dataclass(frozen=True, slots=True)
class Corpus:
    """`answers[i]` is the position in `texts` of the one right text for `questions[i]`."""

    texts: list[str]
    questions: list[str]
    answers: list[int]


@dataclass(frozen=True, slots=True)
class Recall:
    found: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Report:
    corpus: str
    model: str
    texts: int
    questions: int
    recall: dict[str, Recall]
    mean_reciprocal_rank: float
    load_seconds: float
    memory_added_mb: float
    memory_mb: float
    question_p50_ms: float
    question_p95_ms: float
    texts_per_second: float
    questions_per_second: float


def read_piaf(folder: Path) -> Corpus:
    """Passages, and every native question about them."""
    corpus = Corpus([], [], [])
    with (folder / "piaf_dev.jsonl").open(encoding="utf-8") as lines:
        for position, line in enumerate(lines):
            row = json.loads(line)
            corpus.texts.append(row["context"])
            for entry in row["questions"]:
                corpus.questions.append(entry["question"])
                corpus.answers.append(position)
    return corpus


def read_cnil(folder: Path) -> Corpus:
    """Questions of the FAQ against its answers: the hard direction, as in a document that was not made into questions."""
    corpus = Corpus([], [], [])
    with (folder / "cnil_faq.csv").open(encoding="utf-8", newline="") as file:
        for position, row in enumerate(csv.DictReader(file)):
            corpus.texts.append(row["answer"])
            corpus.questions.append(row["question"])
            corpus.answers.append(position)
    return corpus


CORPORA: dict[str, Callable[[Path], Corpus]] = {"piaf": read_piaf, "cnil_faq": read_cnil}


def wilson(found: int, total: int, *, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a proportion."""
    rate = found / total
    centre = (rate + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(rate * (1 - rate) / total + (z / (2 * total)) ** 2) / (1 + z * z / total)
    return centre - half, centre + half


def ranks(texts: Vectors, questions: Vectors, answers: Sequence[int]) -> list[int]:
    """The rank of each question's right text, from 1; a tie counts against it."""
    found = []
    for row, answer in zip(questions, answers, strict=True):
        scores = texts @ row
        found.append(int(np.count_nonzero(scores >= scores[answer])))
    return found


def recalls(found: Sequence[int]) -> dict[str, Recall]:
    table = {}
    for cut in CUTS:
        hits = sum(rank <= cut for rank in found)
        low, high = wilson(hits, len(found))
        table[f"R@{cut}"] = Recall(hits, hits / len(found), low, high)
    return table


def embed_all(
    embedder: Embedder, texts: Sequence[str], purpose: Purpose, label: str
) -> tuple[Vectors, float]:
    """The vectors and the seconds they took."""
    with tqdm(total=len(texts), desc=label, unit="text", file=sys.stderr) as bar:

        def advance(done: int) -> None:
            bar.update(done - bar.n)

        started = time.perf_counter()
        rows = embedder.embed(texts, purpose=purpose, on_progress=advance)
        return rows, time.perf_counter() - started


def latencies(embedder: Embedder, questions: Sequence[str]) -> list[float]:
    """Milliseconds for each of some questions, asked one at a time."""
    taken = []
    for question in questions[:_LATENCY_SAMPLE]:
        started = time.perf_counter()
        embedder.embed([question], purpose=Purpose.QUERY)  # `embed_one` remembers
        taken.append(1000 * (time.perf_counter() - started))
    return taken


def measure(corpus_name: str, model: str, folder: Path) -> Report:
    corpus = CORPORA[corpus_name](folder)
    process = psutil.Process()
    before = process.memory_info().rss
    started = time.perf_counter()
    embedder: Embedder = import_string(MODELS[model])()
    embedder.warm_up()
    loaded, after = time.perf_counter() - started, process.memory_info().rss
    alone = latencies(embedder, corpus.questions)
    texts, text_seconds = embed_all(embedder, corpus.texts, Purpose.PASSAGE, "texts")
    questions, question_seconds = embed_all(embedder, corpus.questions, Purpose.QUERY, "questions")
    found = ranks(texts, questions, corpus.answers)
    return Report(
        corpus=corpus_name,
        model=model,
        texts=len(corpus.texts),
        questions=len(corpus.questions),
        recall=recalls(found),
        mean_reciprocal_rank=statistics.fmean(1 / rank for rank in found),
        load_seconds=loaded,
        memory_added_mb=(after - before) / 1e6,
        memory_mb=process.memory_info().rss / 1e6,
        question_p50_ms=statistics.median(alone),
        question_p95_ms=statistics.quantiles(alone, n=20)[-1],
        texts_per_second=len(corpus.texts) / text_seconds,
        questions_per_second=len(corpus.questions) / question_seconds,
    )


def show(report: Report) -> None:
    print(
        f"{report.corpus}, {report.model}: {report.questions} questions, {report.texts} texts (95 % Wilson intervals)"
    )
    for name, recall in report.recall.items():
        print(f"  {name:5} {recall.rate:.3f}  [{recall.low:.3f}, {recall.high:.3f}]")
    print(f"  MRR   {report.mean_reciprocal_rank:.3f}")
    print(
        f"  load {report.load_seconds:.2f} s, +{report.memory_added_mb:.0f} MB; at the end {report.memory_mb:.0f} MB"
    )
    print(
        f"  one question: p50 {report.question_p50_ms:.1f} ms, p95 {report.question_p95_ms:.1f} ms; "
        f"{report.texts_per_second:.1f} texts/s, {report.questions_per_second:.0f} questions/s"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Recall of dense retrieval on real questions.")
    parser.add_argument("--corpus", choices=CORPORA, default="piaf")
    parser.add_argument("--model", choices=MODELS, default=next(iter(MODELS)))
    parser.add_argument("--json", action="store_true", help="figures as one JSON object")
    options = parser.parse_args(arguments)
    if not DATA.is_dir():
        print(f"No data at {DATA}: set REPONDANT_DATA.", file=sys.stderr)
        return 2
    report = measure(options.corpus, options.model, DATA)
    if options.json:
        print(json.dumps(asdict(report), ensure_ascii=False, indent=2))
    else:
        show(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
