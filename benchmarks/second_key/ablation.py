"""Which rules of the second key change nothing: `python -m benchmarks.second_key.ablation FILE.jsonl ...`.

Takes each rewrite rule, sign, veto, group of synonyms and pair of opposites away in turn, compares all pairs again and
counts the decisions that change: agreed or not, and of which kinds the differences are. Reads rows with `a` and `b`;
without a file, all of `tests/pairs`. What changes nothing on any set is dead. Only questions that read otherwise are
compared again; it takes some minutes.
"""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()

from faqs.second_key import same_question  # noqa: E402
from faqs.second_key.comparison import Comparison  # noqa: E402
from faqs.second_key.lexicon import Lexicon, lexicon_of  # noqa: E402
from faqs.second_key.reading import Reading, read_question  # noqa: E402
from knowledge.language.words import language_of  # noqa: E402

PAIRS = Path(__file__).resolve().parents[2] / "tests" / "pairs"
RULES = ("accents", "contractions", "rewrites")
SIGNS = ("kinds", "loose_kinds", "modalities", "spans", "acts", "question_words")
GROUPS = ("synonyms", "antonyms")

Question = tuple[str, str]
Kinds = tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=sorted(PAIRS.glob("*.jsonl")))
    parser.add_argument("--only", nargs="*", default=["rules", "signs", "vetoes", "groups"])
    options = parser.parse_args()
    study = Study(list(read_pairs(options.files)))
    print(f"{len(study.pairs)} pairs of {len(study.readings)} questions")
    for part in options.only:
        for name, changed in getattr(study, part)():
            print(f"{changed:>6}  {name}", flush=True)


def read_pairs(files: Iterable[Path]) -> Iterator[tuple[Question, Question]]:
    for file in files:
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            one, two = language_of(row["a"]), language_of(row["b"])
            yield (row["a"], one or two or "fr"), (row["b"], two or one or "fr")


class Study:
    def __init__(self, pairs: list[tuple[Question, Question]]) -> None:
        self.pairs = pairs
        self.pairs_of: dict[Question, list[int]] = defaultdict(list)
        for number, pair in enumerate(pairs):
            for question in pair:
                self.pairs_of[question].append(number)
        self.readings = {question: read(question) for question in self.pairs_of}
        self.decisions = [self.decide(pair, {}) for pair in pairs]

    def decide(self, pair: tuple[Question, Question], changed: dict[Question, Reading]) -> Kinds:
        first, second = (changed.get(each) or self.readings[each] for each in pair)
        if not first.items and not second.items:
            return ("content",)
        return tuple(each.kind for each in same_question.disagreements_of(Comparison(first, second)))

    def changes(self, lexicon: Lexicon, words: Iterable[str] = ()) -> int:
        """Decisions that change now; `words`: only questions with one of them can read otherwise."""
        beginnings = tuple(word[:4] for word in words)
        candidates = [
            question
            for question in self.readings
            if question[1] == lexicon.language
            and (not beginnings or any(word in question[0].casefold() for word in beginnings))
        ]
        now = {question: read(question) for question in candidates}
        # Opposites change no reading.
        changed = {q: after for q, after in now.items() if beginnings or after != self.readings[q]}
        touched = {number for question in changed for number in self.pairs_of[question]}
        return sum(self.decide(self.pairs[n], changed) != self.decisions[n] for n in touched)

    def rules(self) -> Iterator[tuple[str, int]]:
        yield from self.rows(RULES)

    def signs(self) -> Iterator[tuple[str, int]]:
        yield from self.rows(SIGNS)

    def rows(self, tables: Iterable[str]) -> Iterator[tuple[str, int]]:
        for lexicon in map(lexicon_of, ("fr", "en")):
            for table in tables:
                rows = getattr(lexicon, table)
                for place, row in enumerate(rows):
                    with replaced(lexicon, table, [*rows[:place], *rows[place + 1 :]]):
                        name = getattr(row, "id", f"{place} {row[1]}")
                        yield f"{lexicon.language} {table} {name}", self.changes(lexicon)

    def vetoes(self) -> Iterator[tuple[str, int]]:
        for table in ("OF_THE_QUESTION", "OF_ACTORS", "OF_PLACES", "BETWEEN_WORDS", "OF_A_WORD"):
            rows = getattr(same_question, table)
            for place, row in enumerate(rows):
                with replaced(same_question, table, (*rows[:place], *rows[place + 1 :])):
                    yield f"veto {table.lower()} {place} {row.__name__.strip('_')}", self.verdicts_changed()

    def verdicts_changed(self) -> int:
        after = (self.decide(pair, {}) for pair in self.pairs)
        return sum(a != b for a, b in zip(after, self.decisions, strict=True))

    def groups(self) -> Iterator[tuple[str, int]]:
        for lexicon in map(lexicon_of, ("fr", "en")):
            for table in GROUPS:
                groups = lexicon.data[table].split(";")
                for place, group in enumerate(groups):
                    rest = ";".join(groups[:place] + groups[place + 1 :])
                    other = Lexicon(lexicon.language, {**lexicon.data, table: rest})
                    with replaced(lexicon, "__dict__", other.__dict__):
                        words = group.replace("|", " ").replace("_", " ").split()
                        yield (f"{lexicon.language} {table} {group.strip()}", self.changes(lexicon, words))


def read(question: Question) -> Reading:
    return read_question.__wrapped__(*question)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    kept = getattr(owner, name)
    setattr(owner, name, value)
    yield
    setattr(owner, name, kept)


if __name__ == "__main__":
    main()
