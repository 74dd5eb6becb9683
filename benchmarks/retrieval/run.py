"""Measure search: for each question of a corpus, the rank of the passage it belongs to, among all passages.

    python -m benchmarks.retrieval.run --corpus piaf --model universal-sentence-encoder-multilingual-3

Reads the data folder named by REPONDANT_DATA (default: `../shared/data`); writes nothing but `--cache`; needs no
database. The index is made of the production payloads, embedded by the production embedder, held in the production
matrix, and ranked by the production search over all points. Beside it, from the same scores: the vectors alone, the
words alone (BM25), and the two fused by reciprocal rank. Progress goes to standard error, figures to standard output.
"""

import argparse
import csv
import hashlib
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import psutil
from django.utils.module_loading import import_string
from tqdm import tqdm

from knowledge.chunking import affordable_chunks
from knowledge.embeddings.base import Embedder, Purpose, Vectors
from knowledge.models import Category, Chunk, Document
from knowledge.readers.registry import parse_document
from knowledge.search import POINTS_PER_PASSAGE, SearchResult, ranked
from knowledge.thresholds import threshold_profile
from knowledge.vectors.base import Hit, Json, batches
from knowledge.vectors.bm25 import document_terms, question_terms
from knowledge.vectors.matrix import Matrix, Snapshot
from knowledge.vectors.payloads import embedded_text, passage_from_hit, qa_pair_payload, source_material_payload

MODELS = {"universal-sentence-encoder-multilingual-3": "knowledge.embeddings.local.UniversalSentenceEncoder"}
HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("REPONDANT_DATA") or HERE.parents[1].parent / "shared" / "data")
REFORMULATIONS = "cnil_reformulations.jsonl"
CUTS = (1, 5, 10)
#: The constant of reciprocal rank fusion that everybody uses.
RRF = 60
_LATENCY_SAMPLE = 200


@dataclass(slots=True)
class Corpus:
    """Payloads, questions, and for each question the chunks that answer it and the part of the data it is from."""

    payloads: list[dict[str, Json]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    answers: list[set[int]] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    def ask(self, question: str, answers: Iterable[int], part: str) -> None:
        self.questions.append(question)
        self.answers.append(set(answers))
        self.parts.append(part)

    def add_chunk(
        self,
        chunk: int,
        content: str,
        *,
        title: str,
        path: str = "",
        question: str = "",
        category: str = "",
        document: int = 1,
    ) -> None:
        where = Document(pk=document, agent_id=1, title=title)
        row = Chunk(
            pk=chunk,
            document=where,
            index=chunk,
            parent_context=path,
            content=content,
            category=Category(name=category) if category else None,
        )
        if question:
            self.payloads.append(qa_pair_payload(row, question=question, answer=content))
        self.payloads.append(source_material_payload(row))


@dataclass(frozen=True, slots=True)
class Recall:
    found: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """How one way of ranking does on one part of the questions."""

    way: str
    part: str
    questions: int
    recall: dict[str, Recall]
    mean_reciprocal_rank: float


@dataclass(frozen=True, slots=True)
class Report:
    corpus: str
    model: str
    points: int
    rankings: list[Ranking]
    load_seconds: float
    memory_added_mb: float
    vectors_mb: float
    question_p50_ms: float
    question_p95_ms: float
    search_p50_ms: float
    search_p95_ms: float
    terms_ms_per_point: float


def read_jsonl(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_piaf(folder: Path) -> Corpus:
    """Passages, and every native question about them; the halves are drawn by lot."""
    corpus = Corpus()
    articles: dict[str, int] = {}
    chooser = random.Random(7)  # noqa: S311 - a sample, not a secret
    with (folder / "piaf_dev.jsonl").open(encoding="utf-8") as lines:
        for chunk, line in enumerate(lines):
            row = json.loads(line)
            document = articles.setdefault(row["title"], len(articles))
            corpus.add_chunk(chunk, row["context"], title=row["title"], document=document)
            for entry in row["questions"]:
                part = "dev" if chooser.random() < 0.5 else "held_out"
                corpus.ask(entry["question"], [chunk], part)
    return corpus


def _plain(text: str) -> str:
    return " ".join(text.replace("(Copie)", "").casefold().split())


def _read_faq(folder: Path) -> list[dict[str, str]]:
    with (folder / "cnil_faq.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_cnil(folder: Path) -> Corpus:
    """A FAQ as its import makes it, asked in other words; a few entries are there twice, either copy is right."""
    corpus, faq = Corpus(), _read_faq(folder)
    for chunk, row in enumerate(faq):
        corpus.add_chunk(
            chunk,
            row["answer"],
            title="cnil faq",
            path=row["question"],
            question=row["question"],
            category=row["category"],
        )
    older = read_jsonl(HERE.parent / "thresholds" / REFORMULATIONS)
    asked = [{"split": "thresholds"} | row for row in older] + read_jsonl(HERE / REFORMULATIONS)
    by_id = {row["id"]: row for row in faq}
    for row in asked:
        wanted = by_id[row["id"]]
        same = {
            chunk
            for chunk, other in enumerate(faq)
            if _plain(other["answer"]) == _plain(wanted["answer"])
            or _plain(other["question"]) == _plain(wanted["question"])
        }
        corpus.ask(row["question"], same, row["split"])
    return corpus


def read_cnil_answers(folder: Path) -> Corpus:
    """Questions of the FAQ against its answers, without their questions: passages that wait for theirs."""
    corpus = Corpus()
    for chunk, row in enumerate(_read_faq(folder)):
        corpus.add_chunk(chunk, row["answer"], title="cnil faq", category=row["category"])
        corpus.ask(row["question"], [chunk], "all")
    return corpus


def read_service_public(folder: Path) -> Corpus:
    """Long sheets, cut as documents are; any passage of the right sheet is right."""
    corpus = Corpus()
    chunks: dict[str, list[int]] = {}
    for sheet, path in enumerate(sorted((folder / "service_public").glob("*.md"))):
        parsed = parse_document(path.read_bytes(), filename=path.name)
        category = _theme(path.read_text(encoding="utf-8"))
        for draft in affordable_chunks(parsed)[0]:
            chunk = sum(len(found) for found in chunks.values())
            chunks.setdefault(path.stem, []).append(chunk)
            question = draft.units[0].question if draft.units else ""
            corpus.add_chunk(
                chunk,
                draft.content,
                title=parsed.title,
                path=draft.parent_context,
                question=question,
                category=category,
                document=sheet,
            )
    for row in read_jsonl(HERE / "service_public_questions.jsonl"):
        corpus.ask(row["question"], chunks[row["sheet"]], "all")
    return corpus


def _theme(sheet: str) -> str:
    """The first part of the line that says where a sheet stands: « > Famille / Scolarité »."""
    stands = next((line for line in sheet.splitlines() if line.startswith("> ")), "")
    return stands.removeprefix("> ").partition("/")[0].strip()


CORPORA: dict[str, Callable[[Path], Corpus]] = {
    "piaf": read_piaf,
    "cnil_faq": read_cnil,
    "cnil_answers": read_cnil_answers,
    "service_public": read_service_public,
}


def wilson(found: int, total: int, *, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a proportion."""
    rate = found / total
    centre = (rate + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(rate * (1 - rate) / total + (z / (2 * total)) ** 2) / (1 + z * z / total)
    return centre - half, centre + half


def recalls(found: Sequence[float]) -> dict[str, Recall]:
    table = {}
    for cut in CUTS:
        hits = sum(rank <= cut for rank in found)
        low, high = wilson(hits, len(found))
        table[f"R@{cut}"] = Recall(hits, hits / len(found), low, high)
    return table


def _positions(scores: dict[int, float]) -> dict[int, int]:
    order = sorted(scores, key=lambda chunk: (-scores[chunk], chunk))
    return {chunk: at + 1 for at, chunk in enumerate(order)}


def all_ranks(snapshot: Snapshot[int], corpus: Corpus, rows: Vectors, weight: float) -> dict[str, list[float]]:
    """For each way of ranking, the rank of the best right chunk of each question."""
    found: dict[str, list[float]] = {way: [] for way in ("vectors", "words", "rrf", "production")}
    for question, row, right in zip(corpus.questions, rows, corpus.answers, strict=True):
        hits = snapshot.top(row, question_terms(question), lexical_weight=weight, limit=len(corpus.payloads))
        cosine: dict[int, float] = {}
        words: dict[int, float] = {}
        for key, score, overlap in hits:
            chunk = corpus.payloads[key]["chunk_id"]
            assert isinstance(chunk, int)
            cosine[chunk] = max(score, cosine.get(chunk, -1.0))
            words[chunk] = max(overlap, words.get(chunk, 0.0))
        by_vector, by_word = _positions(cosine), _positions(words)
        fused = {c: 1 / (RRF + by_vector[c]) + 1 / (RRF + by_word[c]) for c in cosine}
        for way, positions in (("vectors", by_vector), ("words", by_word), ("rrf", _positions(fused))):
            found[way].append(min(positions[chunk] for chunk in right))
        result = production_search(snapshot, corpus.payloads, question, row, weight)
        found["production"].append(_rank_of(right, result))
    return found


def production_search(
    snapshot: Snapshot[int], payloads: Sequence[dict[str, Json]], question: str, row: Vectors, weight: float
) -> SearchResult:
    """As `search` asks the store for the longest list measured here."""
    hits = snapshot.top(row, question_terms(question), lexical_weight=weight, limit=CUTS[-1] * POINTS_PER_PASSAGE)
    passages = [passage_from_hit(Hit(str(key), score, payloads[key], overlap)) for key, score, overlap in hits]
    return ranked(passages, question, weight)


def best_relevance(
    snapshot: Snapshot[int], payloads: Sequence[dict[str, Json]], question: str, row: Vectors, weight: float
) -> float:
    return production_search(snapshot, payloads, question, row, weight).best_relevance


def _rank_of(right: set[int], found: SearchResult) -> float:
    """Infinite when it is not in the list."""
    best = found.passages(CUTS[-1])
    return next((at + 1.0 for at, p in enumerate(best) if p.chunk_id in right), math.inf)


class Vectorizer:
    """The embedder, with vectors kept on disk where a folder is given."""

    def __init__(self, embedder: Embedder, folder: Path | None) -> None:
        self._embedder, self._folder = embedder, folder

    def __call__(self, texts: Sequence[str], purpose: Purpose, label: str) -> Vectors:
        said = json.dumps([self._embedder.recipe.as_json(), purpose, list(texts)])
        name = hashlib.sha256(said.encode()).hexdigest()[:24]
        path = self._folder / f"{name}.npy" if self._folder else None
        if path and path.exists():
            stored: Vectors = np.load(path)
            return stored
        parts = tqdm(list(batches(texts, 1_024)), desc=label, unit="batch", file=sys.stderr)
        rows = np.concatenate([self._embedder.embed(part, purpose=purpose) for part in parts])
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, rows)
        return rows


def embed_payloads(
    vectors: Callable[[Sequence[str], Purpose, str], Vectors], payloads: Sequence[dict[str, Json]]
) -> Vectors:
    texts = [embedded_text(payload) for payload in payloads]
    rows: dict[int, Vectors] = {}
    for purpose in Purpose:
        places = [at for at, (_text, wanted) in enumerate(texts) if wanted is purpose]
        if places:
            made = vectors([texts[at][0] for at in places], purpose, f"points ({purpose})")
            rows.update(zip(places, made, strict=True))
    return np.stack([rows[at] for at in range(len(texts))])


def fill_matrix(payloads: Sequence[dict[str, Json]], rows: Vectors) -> tuple[Matrix[int], float]:
    """The index, and the milliseconds that the words of a point take."""
    started = time.perf_counter()
    terms = [document_terms(payload) for payload in payloads]
    taken = 1000 * (time.perf_counter() - started) / len(payloads)
    matrix: Matrix[int] = Matrix(rows.shape[1])
    matrix.apply(keys=list(range(len(payloads))), rows=rows, terms=terms)
    return matrix, taken


def _milliseconds(work: Callable[[int], object], count: int) -> list[float]:
    taken = []
    for at in range(count):
        started = time.perf_counter()
        work(at)
        taken.append(1000 * (time.perf_counter() - started))
    return taken


def measure(corpus_name: str, model: str, folder: Path, cache: Path | None) -> Report:
    corpus = CORPORA[corpus_name](folder)
    profile = threshold_profile(model)
    weight = (profile.lexical_weight if profile else None) or 0.0
    process = psutil.Process()
    before = process.memory_info().rss
    started = time.perf_counter()
    embedder: Embedder = import_string(MODELS[model])()
    embedder.warm_up()
    loaded, after = time.perf_counter() - started, process.memory_info().rss
    sample = corpus.questions[:_LATENCY_SAMPLE]
    alone = _milliseconds(lambda at: embedder.embed([sample[at]], purpose=Purpose.QUERY), len(sample))
    vectors = Vectorizer(embedder, cache)
    matrix, terms_ms = fill_matrix(corpus.payloads, embed_payloads(vectors, corpus.payloads))
    rows = vectors(corpus.questions, Purpose.QUERY, "questions")
    snapshot = matrix.snapshot()
    searching = _milliseconds(
        lambda at: production_search(snapshot, corpus.payloads, sample[at], rows[at], weight), len(sample)
    )
    found = all_ranks(snapshot, corpus, rows, weight)
    rankings = [
        Ranking(way, part, len(chosen), recalls(chosen), statistics.fmean(1 / r for r in chosen))
        for part in [*dict.fromkeys(corpus.parts), "together"]
        for way, ranks in found.items()
        for chosen in [[r for r, p in zip(ranks, corpus.parts, strict=True) if part in (p, "together")]]
    ]
    return Report(
        corpus=corpus_name,
        model=model,
        points=len(corpus.payloads),
        rankings=rankings,
        load_seconds=loaded,
        memory_added_mb=(after - before) / 1e6,
        vectors_mb=snapshot.rows.nbytes / 1e6,
        question_p50_ms=statistics.median(alone),
        question_p95_ms=statistics.quantiles(alone, n=20)[-1],
        search_p50_ms=statistics.median(searching),
        search_p95_ms=statistics.quantiles(searching, n=20)[-1],
        terms_ms_per_point=terms_ms,
    )


def show(report: Report) -> None:
    print(f"{report.corpus}, {report.model}: {report.points} points (95 % Wilson intervals)\n")
    print("| questions | ranked by | R@1 | R@5 | R@10 | MRR |\n| --- | --- | --- | --- | --- | --- |")
    for ranking in report.rankings:
        cells = " | ".join(f"{r.rate:.3f} [{r.low:.3f}, {r.high:.3f}]" for r in ranking.recall.values())
        print(
            f"| {ranking.part} ({ranking.questions}) | {ranking.way} | {cells} | {ranking.mean_reciprocal_rank:.3f} |"
        )
    print(
        f"\nModel: {report.load_seconds:.2f} s to load, +{report.memory_added_mb:.0f} MB; one question "
        f"{report.question_p50_ms:.1f} ms (p95 {report.question_p95_ms:.1f})\n"
        f"Search: {report.search_p50_ms:.2f} ms (p95 {report.search_p95_ms:.2f}); words "
        f"{report.vectors_mb:.2f} MB of vectors; "
        f"{report.terms_ms_per_point:.2f} ms for the words of a point"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Recall of search on real questions.")
    parser.add_argument("--corpus", choices=CORPORA, default="piaf")
    parser.add_argument("--model", choices=MODELS, default=next(iter(MODELS)))
    parser.add_argument("--cache", type=Path, help="folder for the vectors, outside the repository")
    parser.add_argument("--json", action="store_true", help="figures as one JSON object")
    options = parser.parse_args(arguments)
    if not DATA.is_dir():
        print(f"No data at {DATA}: set REPONDANT_DATA.", file=sys.stderr)
        return 2
    report = measure(options.corpus, options.model, DATA, options.cache)
    if options.json:
        print(json.dumps(asdict(report), ensure_ascii=False, indent=2))
    else:
        show(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
