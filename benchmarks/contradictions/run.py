"""Does staff's warning about contradictions warn where it should? `python -m benchmarks.contradictions.run [SET …]
[--faqs]`.

Each row of a set is a stored and a new question with their answers, and whether the two contradict each other.
*Before*: a warning where the second key takes both questions for the same and the answers are written differently.
*After*: `faqs.contradiction`, as `faqs.answers.duplicates` asks it. With `--faqs`, real lists of questions and answers:
how many entries, saved last, would be warned about one of their ten nearest. Data folder: REPONDANT_DATA, as in
`benchmarks/thresholds`.
"""

import argparse
import csv
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.thresholds.run import DATA, Vectorizer, present, read_jsonl
from faqs.answers.neighbours import NEIGHBOURS
from faqs.contradiction.warning import Entry, Warning, warning_about
from faqs.memory.keys import normalised_question
from faqs.second_key.agreement import compare_questions
from knowledge.calibration.profiles import Rate, threshold_profile
from knowledge.embeddings.base import Purpose
from knowledge.language.folding import same_writing

PAIRS = Path(__file__).resolve().parents[2] / "tests" / "pairs"
MODELS = ("universal-sentence-encoder-multilingual-3", "multilingual-e5-small")
SETS = ("contradictions_dev",)
LANGUAGES = ("fr", "en", "fr-en")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--faqs", action="store_true", help="count false alarms in real lists")
    parser.add_argument("--errors", action="store_true", help="name the rows that are judged wrongly")
    options = parser.parse_args()
    for model in options.model or MODELS:
        vectors = Vectorizer(options.cache, model)
        for name in options.sets:
            measure(name, vectors, errors=options.errors)
        if options.faqs:
            for name, entries in read_faqs():
                count_alarms(name, entries, vectors)


def measure(name: str, vectors: Vectorizer, *, errors: bool) -> None:
    """Recall and precision of the warning, by language."""
    rows = read_jsonl(PAIRS / f"{name}.jsonl")
    stored, new = ([(r[side]["question"], r[side]["answer"]) for r in rows] for side in ("stored", "new"))
    first, second = (vectors([question for question, _answer in side], Purpose.QUERY, name) for side in (stored, new))
    scores = (first * second).sum(axis=1).tolist()
    triples = list(zip(stored, new, scores, strict=True))
    is_wrong = [row["label"] == "contradiction" for row in rows]
    print(f"\n{name}, {vectors.model}: {len(rows)} pairs, {sum(is_wrong)} contradictions")
    for label, warned in (
        ("before", [_warned_before(*each, model=vectors.model) for each in triples]),
        ("after", [_is_contradiction(_warning(*each, model=vectors.model)) for each in triples]),
    ):
        for language in (*LANGUAGES, ""):
            chosen = [i for i, row in enumerate(rows) if language in ("", row["language"])]
            right = sum(warned[i] and is_wrong[i] for i in chosen)
            recall = Rate(right, sum(is_wrong[i] for i in chosen))
            precision = Rate(right, sum(warned[i] for i in chosen))
            print(f"  {label:6} {language or 'all':6} recall {recall}  precision {precision}")
    if errors:
        for row, warns, wrong in zip(rows, warned, is_wrong, strict=True):
            if warns != wrong:
                print("  ", "missed" if wrong else "false ", row["id"], row["kind"], row["why"])


def _asks_the_same(stored: Entry, new: Entry, score: float, *, model: str) -> bool:
    if normalised_question(stored[0]) == normalised_question(new[0]):
        return True
    profile = threshold_profile(model)
    least = profile.memory if profile else None
    return score >= (least or -1.0) and compare_questions(stored[0], new[0]).agrees


def _warned_before(stored: Entry, new: Entry, score: float, *, model: str) -> bool:
    same = _asks_the_same(stored, new, score, model=model)
    return same and not same_writing(stored[1], new[1])


def _warning(stored: Entry, new: Entry, score: float, *, model: str) -> Warning | None:
    same = _asks_the_same(stored, new, score, model=model)
    profile = threshold_profile(model)
    if not same and profile and profile.same_situation and score < profile.same_situation:
        return None
    return warning_about(stored, new, asks_the_same=same)


def _is_contradiction(warning: Warning | None) -> bool:
    return warning is not None and warning.kind == "contradiction"


def read_faqs() -> Iterator[tuple[str, list[Entry]]]:
    cnil, covid = DATA / "cnil_faq.csv", DATA / "covid_faq_fr.jsonl"
    if present(cnil):
        with cnil.open(encoding="utf-8", newline="") as file:
            rows = [(row["question"], row["answer"]) for row in csv.DictReader(file)]
        yield "cnil_faq", [row for row in rows if row[1].strip()]
    if present(covid):
        tags = re.compile(r"<[^>]+>")
        found = read_jsonl(covid)
        yield "covid_faq_fr", [(r["question"], tags.sub(" ", r["answer_html"])) for r in found]


def count_alarms(name: str, entries: Sequence[Entry], vectors: Vectorizer) -> None:
    """How many entries would be warned about another of their list, and what a pair costs."""
    rows = vectors([question for question, _answer in entries], Purpose.QUERY, name)
    scores = rows @ rows.T
    np.fill_diagonal(scores, -1.0)
    compared, warned = 0, {"before": set[int](), "after": set[int]()}
    started = time.process_time()
    for i, new in enumerate(entries):
        for j in np.argsort(-scores[i])[:NEIGHBOURS].tolist():
            stored, score = entries[j], float(scores[i, j])
            compared += 1
            if _is_contradiction(_warning(stored, new, score, model=vectors.model)):
                warned["after"].add(i)
            if _warned_before(stored, new, score, model=vectors.model):
                warned["before"].add(i)
    spent = (time.process_time() - started) * 1_000 / max(1, compared)
    for label, found in warned.items():
        print(f"  {name} {label:6} warned {Rate(len(found), len(entries))}")
    print(f"  {name} {spent:.2f} ms a pair, both rules")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings_test")
    sys.path.insert(0, str(Path.cwd()))
    import django

    django.setup()
    main()
