"""Measures, for one embedding model, what each threshold lets through: `python -m benchmarks.thresholds.run --model …`.

Four parts. Pairs: how often cosine ≥ t serves a right and a wrong stored answer, with and without the second key.
Look-alikes: all pairs of questions of a set of intents at the direct threshold, by whether they share their label. FAQ:
reformulations of a real FAQ against all its questions, and each of its questions against the others. Guard rail: the
relevance of questions inside and outside the subject, on an index of questions and answers and on one of passages.

The vectors come from the site's own embedder and are kept in `--cache`, because the larger model needs minutes. Data
that this repository may not contain are read from `REPONDANT_DATA`; an absent file skips its part, saying so.
"""

import argparse
import csv
import hashlib
import json
import os
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from django.utils.module_loading import import_string
from tqdm import tqdm

from benchmarks.retrieval.run import MODELS, Corpus, embed_payloads, fill_matrix, production_search, read_cnil
from faqs.second_key.same_question import compare_questions
from knowledge.embeddings.base import Embedder, Purpose, Vectors, embedder
from knowledge.search import PointType, SearchResult, Thresholds
from knowledge.thresholds import Rate, threshold_profile

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("REPONDANT_DATA", ROOT.parent / "shared" / "data"))
REFORMULATIONS = Path(__file__).with_name("cnil_reformulations.jsonl")
PAIR_FILES = {
    "pairs_en_dev": DATA / "pairs_en_dev.jsonl",
    "checklist_pairs_dev": DATA / "checklist_pairs_dev.jsonl",
    "everyday_fr": ROOT / "tests" / "pairs" / "everyday_fr.jsonl",
    "fr_dev": ROOT / "tests" / "pairs" / "fr_dev.jsonl",
    "en_dev": ROOT / "tests" / "pairs" / "en_dev.jsonl",
    "fr_heldout": ROOT / "tests" / "pairs" / "fr_heldout.jsonl",
    "en_heldout": ROOT / "tests" / "pairs" / "en_heldout.jsonl",
    **{
        name: ROOT / "tests" / "pairs" / f"{name}.jsonl"
        for name in (
            "fr_operators_dev",
            "en_operators_dev",
            "fr_operators_heldout",
            "en_operators_heldout",
            "adversarial_first",
            "adversarial_second",
            "independent_fr",
            "independent_en",
            "independent_heldout_fr",
            "independent_heldout_en",
        )
    },
}
PAIR_STEPS = (0.0, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.88, 0.9, 0.92, 0.94, 0.95, 0.96, 0.98)
GUARD_STEPS = tuple(round(0.05 + step / 1_000, 3) for step in range(950))
INTENT_FILES = ("banking77_train_sample", "clinc_val")
#: CLINC's label for questions of no intent: two of them have nothing in common.
NO_INTENT = "oos"
IN_DOMAIN_PASS = 0.95
QUESTIONS = "questions and answers (CNIL)"
PASSAGES = "passages (PIAF)"
Json = dict[str, Any]


class Vectorizer:
    """An embedder, the site's where none is named, with a memory on disk."""

    def __init__(self, folder: Path | None, model: str = "") -> None:
        self._embedder: Embedder = import_string(MODELS[model])() if model else embedder()
        self.model = self._embedder.recipe.model
        self._file = folder / f"{self.model}.npz" if folder else None
        self._known: dict[str, Vectors] = {}
        if self._file and self._file.exists():
            with np.load(self._file) as stored:
                rows = stored["rows"]
                self._known = dict(zip(stored["keys"].tolist(), rows, strict=True))

    def __call__(self, texts: Sequence[str], purpose: Purpose, label: str) -> Vectors:
        keys = [hashlib.sha256(f"{purpose}\n{text}".encode()).hexdigest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        batch = 16
        pending = list(missing.items())
        for start in tqdm(range(0, len(pending), batch), desc=label, disable=not pending):
            part = pending[start : start + batch]
            rows = self._embedder.embed([text for _key, text in part], purpose=purpose)
            self._known.update(zip((key for key, _text in part), rows, strict=True))
        if pending:
            self._save()
        return np.stack([self._known[key] for key in keys])

    def _save(self) -> None:
        if self._file:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            np.savez(self._file, keys=np.array(list(self._known)), rows=np.stack([*self._known.values()]))


def read_jsonl(path: Path) -> list[Json]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def present(*paths: Path) -> bool:
    absent = [path.name for path in paths if not path.exists()]
    if absent:
        print(f"Skipped, not in REPONDANT_DATA: {', '.join(absent)}", file=sys.stderr)
    return not absent


def rate(flags: Iterable[bool]) -> Json:
    values = list(flags)
    result = Rate(sum(values), len(values))
    return {"hits": result.hits, "total": result.total, "text": str(result)}


def measure_pairs(vectors: Vectorizer, path: Path) -> list[Json]:
    rows = read_jsonl(path)
    first = vectors([row["a"] for row in rows], Purpose.QUERY, path.stem)
    second = vectors([row["b"] for row in rows], Purpose.QUERY, path.stem)
    cosines = (first * second).sum(axis=1)
    agrees = [compare_questions(row["a"], row["b"]).agrees for row in rows]
    same = [bool(row["same_answer"]) for row in rows]
    return [_pair_step(t, cosines, agrees, same) for t in PAIR_STEPS]


def _pair_step(t: float, cosines: Vectors, agrees: list[bool], same: list[bool]) -> Json:
    passed = [bool(c >= t) for c in cosines]
    both = [p and a for p, a in zip(passed, agrees, strict=True)]
    return {
        "threshold": t,
        "hit": rate(b for b, s in zip(both, same, strict=True) if s),
        "false": rate(b for b, s in zip(both, same, strict=True) if not s),
        "hit_cosine_only": rate(p for p, s in zip(passed, same, strict=True) if s),
        "false_cosine_only": rate(p for p, s in zip(passed, same, strict=True) if not s),
    }


def measure_lookalikes(vectors: Vectorizer, path: Path) -> Json:
    """Pairs at the model's direct threshold, of two intents and of one, that the second key lets through."""
    profile = threshold_profile(vectors.model)
    threshold = (profile.direct_answer if profile else None) or 1.0
    rows = [row for row in read_jsonl(path) if row["intent"] != NO_INTENT]
    found = vectors([row["question"] for row in rows], Purpose.QUERY, path.stem)
    near = np.argwhere(np.triu(found @ found.T, 1) >= threshold).tolist()
    agrees: dict[bool, list[bool]] = {True: [], False: []}
    for i, j in tqdm(near, desc=path.stem):
        same = rows[i]["intent"] == rows[j]["intent"]
        agrees[same].append(compare_questions(rows[i]["question"], rows[j]["question"]).agrees)
    return {"threshold": threshold, "hit": rate(agrees[True]), "false": rate(agrees[False])}


def read_faq() -> list[Json]:
    with (DATA / "cnil_faq.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _plain(text: str) -> str:
    return " ".join(text.replace("(Copie)", "").casefold().split())


def same_entry(one: Json, two: Json) -> bool:
    """The FAQ has a few entries twice; serving the other copy is right."""
    return bool(
        one["id"] == two["id"]
        or _plain(one["answer"]) == _plain(two["answer"])
        or _plain(one["question"]) == _plain(two["question"])
    )


def measure_faq(vectors: Vectorizer) -> Json:
    faq = read_faq()
    by_id = {row["id"]: row for row in faq}
    asked = read_jsonl(REFORMULATIONS)
    stored = vectors([row["question"] for row in faq], Purpose.QUERY, "FAQ questions")
    queries = vectors([row["question"] for row in asked], Purpose.QUERY, "reformulations")
    best = _best(queries @ stored.T, faq, [by_id[row["id"]] for row in asked], asked)
    others = stored @ stored.T
    np.fill_diagonal(others, -1.0)
    alone = _best(others, faq, faq, faq)
    return {
        "reformulations": [_faq_step(t, best) for t in PAIR_STEPS],
        "leave_one_out": [_faq_step(t, alone) for t in PAIR_STEPS],
    }


def _best(scores: Vectors, faq: list[Json], wanted: list[Json], asked: list[Json]) -> list[tuple[float, bool, bool]]:
    """For each question: the best cosine, whether that entry is right, whether the second key turns."""
    found = []
    for row, target, question in zip(scores, wanted, asked, strict=True):
        entry = faq[int(row.argmax())]
        agrees = compare_questions(entry["question"], question["question"]).agrees
        found.append((float(row.max()), same_entry(entry, target), agrees))
    return found


def _faq_step(t: float, best: list[tuple[float, bool, bool]]) -> Json:
    return {
        "threshold": t,
        "right": rate(score >= t and right and agrees for score, right, agrees in best),
        "wrong": rate(score >= t and not right and agrees for score, right, agrees in best),
        "right_cosine_only": rate(score >= t and right for score, right, _agrees in best),
        "wrong_cosine_only": rate(score >= t and not right for score, right, _agrees in best),
    }


def measure_guard(vectors: Vectorizer, *, passages: int, sample: int) -> Json:
    """What the guard rail looks at, as production computes it, for questions inside and outside two kinds of index."""
    chooser = random.Random(20_261)  # noqa: S311 - a sample, not a secret
    english = _english(chooser, sample)
    covid = [row["question"] for row in read_jsonl(DATA / "covid_faq_fr.jsonl")]
    covid = chooser.sample(covid, min(sample, len(covid)))
    faq = read_cnil(DATA)
    inside, near, titled = _piaf(chooser, passages, sample)
    sheets = Corpus()
    for chunk, (title, context) in enumerate(titled):
        sheets.add_chunk(chunk, context, title=title)
    sets = {
        QUESTIONS: (faq, {"inside": faq.questions, "near": covid, "far": english, "other": near}),
        PASSAGES: (sheets, {"inside": inside, "near": near, "far": english, "other": covid + faq.questions}),
    }
    return {name: _relevances(vectors, corpus.payloads, groups) for name, (corpus, groups) in sets.items()}


def _relevances(vectors: Vectorizer, payloads: list[dict[str, Any]], groups: dict[str, list[str]]) -> Json:
    profile = threshold_profile(vectors.model)
    weight = (profile.lexical_weight if profile else None) or 0.0
    matrix, _taken = fill_matrix(payloads, embed_payloads(vectors, payloads))
    snapshot = matrix.snapshot()
    asks = any(payload.get("question") for payload in payloads)
    rails = Thresholds(None, None, coverage_weight=profile.coverage_weight if profile else 0.0)
    return {
        kind: [
            _best_closeness(production_search(snapshot, payloads, question, row, weight), rails, asks=asks)
            for question, row in zip(asked, vectors(asked, Purpose.QUERY, f"guard: {kind}"), strict=True)
        ]
        for kind, asked in groups.items()
    }


def _best_closeness(found: SearchResult, rails: Thresholds, *, asks: bool) -> float:
    """The highest closeness of a stored question, or of a passage where no chunk of the index has one."""
    hits = (hit for hit in found.hits if (hit.type is PointType.QA_PAIR) == asks)
    return max(map(rails.closeness, hits), default=0.0)


def _english(chooser: random.Random, sample: int) -> list[str]:
    rows = read_jsonl(DATA / "clinc_val.jsonl") + read_jsonl(DATA / "banking77_train_sample.jsonl")
    return [row["question"] for row in chooser.sample(rows, sample)]


def _piaf(chooser: random.Random, passages: int, sample: int) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Questions on indexed passages, questions on articles left out, and the indexed titles and texts."""
    rows = read_jsonl(DATA / "piaf_dev.jsonl")
    titles = sorted({row["title"] for row in rows})
    chooser.shuffle(titles)
    kept: list[Json] = []
    for title in titles:
        if len(kept) < passages:
            kept += [row for row in rows if row["title"] == title]
    indexed = {row["title"] for row in kept}
    left_out = [row for row in rows if row["title"] not in indexed]
    inside, outside = ([item["question"] for row in part for item in row["questions"]] for part in (kept, left_out))
    titled = [(row["title"], row["context"]) for row in kept]
    return (
        chooser.sample(inside, min(sample, len(inside))),
        chooser.sample(outside, min(sample, len(outside))),
        titled,
    )


def guard_table(scores: Json) -> Json:
    """At each step the share that passes; and for each kind of index the highest step that lets enough inside through."""
    table: dict[str, list[Json]] = {
        name: [
            {"threshold": t, **{kind: rate(s >= t for s in group) for kind, group in sets.items()}} for t in GUARD_STEPS
        ]
        for name, sets in scores.items()
    }
    chosen = {name: _highest_good(rows) for name, rows in table.items()}
    return {"chosen": chosen, "tables": table}


def _highest_good(rows: list[Json]) -> float:
    good = (row["threshold"] for row in rows if row["inside"]["hits"] >= IN_DOMAIN_PASS * row["inside"]["total"])
    return max(good, default=GUARD_STEPS[0])


def measure(vectors: Vectorizer, *, passages: int, sample: int) -> Json:
    result: Json = {"model": vectors.model, "pairs": {}}
    for name, path in PAIR_FILES.items():
        if present(path):
            result["pairs"][name] = measure_pairs(vectors, path)
    intents = [DATA / f"{name}.jsonl" for name in INTENT_FILES]
    result["lookalikes"] = {path.stem: measure_lookalikes(vectors, path) for path in intents if present(path)}
    if present(DATA / "cnil_faq.csv"):
        result["faq"] = measure_faq(vectors)
    needed = ("cnil_faq.csv", "piaf_dev.jsonl", "covid_faq_fr.jsonl", "clinc_val.jsonl")
    if present(*(DATA / name for name in needed), DATA / "banking77_train_sample.jsonl"):
        scores = measure_guard(vectors, passages=passages, sample=sample)
        result["guard"] = guard_table(scores)
    return result


def _print_rows(title: str, rows: list[Json], columns: Sequence[str]) -> None:
    print(f"\n### {title}\n\n| threshold | {' | '.join(columns)} |")
    print("|" + " --- |" * (len(columns) + 1))
    for row in rows:
        cells = " | ".join(str(row[column]["text"]) for column in columns)
        print(f"| {row['threshold']:.3f} | {cells} |")


def print_tables(result: Json) -> None:
    print(f"## {result['model']}")
    pair = ("hit", "false", "hit_cosine_only", "false_cosine_only")
    for name, rows in result["pairs"].items():
        _print_rows(f"Pairs: {name}", rows, pair)
    for name, row in result["lookalikes"].items():
        _print_rows(f"Look-alikes: {name}", [row], pair[:2])
    faq = ("right", "wrong", "right_cosine_only", "wrong_cosine_only")
    for name, rows in result.get("faq", {}).items():
        _print_rows(f"FAQ (CNIL): {name}", rows, faq)
    guard = result.get("guard")
    if guard:
        for name, rows in guard["tables"].items():
            chosen = guard["chosen"][name]
            print(f"\nGuard rail, {name}: {chosen:.3f} passes at least {IN_DOMAIN_PASS:.0%} inside.")
            around = [row for row in rows if abs(row["threshold"] - chosen) < 0.0105]
            _print_rows(f"Guard: {name}", around, ("inside", "near", "far", "other"))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="", choices=MODELS, help="a local model; the site's by default")
    parser.add_argument("--cache", type=Path, help="folder for the vectors, outside the repository")
    parser.add_argument("--passages", type=int, default=240, help="PIAF passages in the index")
    parser.add_argument("--sample", type=int, default=300, help="questions of each guard-rail set")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    vectors = Vectorizer(options.cache, options.model)
    result = measure(vectors, passages=options.passages, sample=options.sample)
    if options.json:
        print(json.dumps(result, ensure_ascii=False, indent=1))
    else:
        print_tables(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
