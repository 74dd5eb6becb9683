"""Measure what becomes of follow-ups: which the rules see, what those they miss may be served, and what search finds.

    python -m benchmarks.followups.run [--model universal-sentence-encoder-multilingual-3] [--cache FOLDER] [--json]

`dialogues.jsonl` holds the question before, the question, and by hand the question that stands alone and what answers
it. Search is measured on the FAQ and the sheets of the folder named by REPONDANT_DATA, and left out where it is not
there. Four texts are searched: the follow-up as it was typed, joined to the question before it (production without a
model), as the configured model rewrote it (production with one; left out, saying so, without), and as rewritten by hand
(the ceiling).
"""

import argparse
import asyncio
import csv
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import django

from benchmarks.retrieval.run import (
    CUTS,
    DATA,
    MODELS,
    Corpus,
    Vectorizer,
    embed_payloads,
    fill_matrix,
    production_search,
)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from django.utils.module_loading import import_string  # noqa: E402

from agents.effective import EffectiveConfig  # noqa: E402
from agents.llm.base import language_model  # noqa: E402
from chat.turn.standalone import leaning_rule, rejection, rewrite, standalone_question  # noqa: E402
from chat.turn.values import TurnContext, TurnInProgress, TurnRequest  # noqa: E402
from faqs.second_key.same_question import would_serve  # noqa: E402
from knowledge.chunking import affordable_chunks  # noqa: E402
from knowledge.embeddings.base import Embedder, Purpose  # noqa: E402
from knowledge.language.spelling import NO_WORDS  # noqa: E402
from knowledge.language.typed import read_typed  # noqa: E402
from knowledge.readers.registry import parse_document  # noqa: E402
from knowledge.search import SearchResult  # noqa: E402
from knowledge.thresholds import Rate, threshold_profile  # noqa: E402

HERE = Path(__file__).resolve().parent
SPLITS = ("dev", "held_out")
#: In their order questions are near each other: the question before one is on the same ground, and asks something else.
STANDALONE = ("cnil_faq.csv", "covid_faq_fr.jsonl")


@dataclass(frozen=True, slots=True)
class Dialogue:
    language: str
    split: str
    follow_up: bool
    previous: str
    question: str
    standalone: str
    corpus: str
    right: tuple[str, ...]


def read_dialogues(path: Path = HERE / "dialogues.jsonl") -> list[Dialogue]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [Dialogue(**{**row, "right": tuple(row["right"])}) for row in rows]


def rule_rates(dialogues: Sequence[Dialogue]) -> dict[str, dict[str, Rate]]:
    """Precision and recall of "is a follow-up", by half and language."""
    table = {}
    for split in SPLITS:
        for language in ("fr", "en"):
            part = [d for d in dialogues if (d.split, d.language) == (split, language)]
            said = [d for d in part if leaning_rule(d.question, d.previous)]
            right = sum(d.follow_up for d in said)
            table[f"{split} {language}"] = {
                "precision": Rate(right, len(said)),
                "recall": Rate(right, sum(d.follow_up for d in part)),
            }
    return table


@dataclass(frozen=True, slots=True)
class SpokenMessage:
    """A message of a conversation, the exchange before it, and whether it leans on that."""

    language: str
    previous: str
    answer: str
    question: str
    leans: bool


def read_messages(path: Path = HERE / "messages.jsonl") -> list[SpokenMessage]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [SpokenMessage(**json.loads(line)) for line in lines]


def message_rates(messages: Sequence[SpokenMessage]) -> dict[str, dict[str, Rate]]:
    """By language: leaning messages that are recognised, and those that stand alone and are taken for leaning."""
    table = {}
    for language in ("fr", "en"):
        part = [m for m in messages if m.language == language]
        said = [m for m in part if leaning_rule(read_typed(m.question, NO_WORDS).text, m.previous, m.answer)]
        leaning = sum(m.leans for m in part)
        table[language] = {
            "recall": Rate(sum(m.leans for m in said), leaning),
            "mistaken": Rate(sum(not m.leans for m in said), len(part) - leaning),
        }
    return table


def mistaken_rates(folder: Path) -> dict[str, dict[str, Rate]]:
    """Questions that were written to stand alone, each after the one before it in the file: taken for leaning."""
    table = {}
    for name in STANDALONE:
        with (folder / name).open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file) if name.endswith(".csv") else map(json.loads, file)
            questions = list(dict.fromkeys(row["question"] for row in rows))
        pairs = list(zip(questions, questions[1:], strict=False))
        wrong = sum(bool(leaning_rule(asked, previous)) for previous, asked in pairs)
        table[name] = {"mistaken": Rate(wrong, len(pairs))}
    return table


def served_unresolved(
    dialogues: Sequence[Dialogue], stored: Sequence[str], embedder: Embedder, threshold: float
) -> list[tuple[str, str]]:
    """Follow-ups that a stored answer would be given to as they stand: the error that matters. Each with its answer's
    question.
    """
    leaning = [d for d in dialogues if d.follow_up]
    asked = [d.question for d in leaning]
    rows = embedder.embed([*asked, *stored], purpose=Purpose.QUERY)
    scores = rows[: len(asked)] @ rows[len(asked) :].T
    return [
        (question, other)
        for at, question in enumerate(asked)
        for place, other in enumerate(stored)
        if would_serve(
            stored=other,
            asked=question,
            score=float(scores[at, place]),
            threshold=threshold,
            is_follow_up=bool(leaning_rule(question, leaning[at].previous)),
        ).served
    ]


def read_faq(folder: Path) -> tuple[Corpus, dict[str, set[int]]]:
    corpus = Corpus()
    by_id: dict[str, set[int]] = {}
    with (folder / "cnil_faq.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for chunk, row in enumerate(rows):
        corpus.add_chunk(chunk, row["answer"], title="cnil faq", path=row["question"], question=row["question"])
        by_id.setdefault(row["id"], set()).add(chunk)
    return corpus, by_id


def read_sheets(folder: Path) -> tuple[Corpus, dict[str, set[int]]]:
    corpus, chunk = Corpus(), 0
    by_sheet: dict[str, set[int]] = {}
    for path in sorted((folder / "service_public").glob("*.md")):
        parsed = parse_document(path.read_bytes(), filename=path.name)
        for draft in affordable_chunks(parsed)[0]:
            question = draft.units[0].question if draft.units else ""
            corpus.add_chunk(chunk, draft.content, title=parsed.title, path=draft.parent_context, question=question)
            by_sheet.setdefault(path.stem, set()).add(chunk)
            chunk += 1
    return corpus, by_sheet


def turn_after(dialogue: Dialogue) -> TurnInProgress:
    """A turn that has come as far as its follow-up, with the question before it and no answer."""
    turn = TurnInProgress(TurnRequest(0, dialogue.question, "fr"), _ignore)
    config = cast(EffectiveConfig, SimpleNamespace(llm_model=""))
    turn.context = TurnContext(config, (), dialogue.previous, None, None)
    return turn


async def _ignore(_event: object) -> None:
    """Nobody follows this turn."""


def rewritten_by_model(dialogues: Sequence[Dialogue]) -> list[str] | None:
    """What production would search with the configured model; `None` where there is none."""
    llm = language_model()
    if llm is None:
        return None

    async def written() -> list[str]:
        texts = []
        for dialogue in dialogues:
            asked = standalone_question(dialogue.question, dialogue.previous)
            if asked.is_follow_up:
                asked = await rewrite(llm, asked, turn_after(dialogue))
            texts.append(asked.text)
        await llm.aclose()
        return texts

    return asyncio.run(written())


def recall_at_5(
    dialogues: Sequence[Dialogue], vectors: Vectorizer, weight: float, folder: Path
) -> dict[str, dict[str, Rate]]:
    """By corpus and language, for each text that may be searched: how often a right passage is among the first five."""
    table: dict[str, dict[str, Rate]] = {}
    for name, read in (("cnil_faq", read_faq), ("service_public", read_sheets)):
        corpus, places = read(folder)
        matrix, _taken = fill_matrix(corpus.payloads, embed_payloads(vectors, corpus.payloads))
        for language in ("fr", "en"):
            part = [d for d in dialogues if d.follow_up and (d.corpus, d.language) == (name, language)]
            texts = {
                "raw": [d.question for d in part],
                "joined": [f"{d.previous}\n{d.question}" for d in part],
                "rewritten by hand": [d.standalone for d in part],
            }
            if (written := rewritten_by_model(part)) is not None:
                texts["rewritten by the model"] = written
            right = [{chunk for wanted in d.right for chunk in places[wanted]} for d in part]
            rates = table[f"{name} {language}"] = {}
            for way, asked in texts.items():
                rows = vectors(asked, Purpose.QUERY, way)
                results = [
                    production_search(matrix.snapshot(), corpus.payloads, text, row, weight)
                    for text, row in zip(asked, rows, strict=True)
                ]
                rates[way] = Rate(sum(map(_holds, results, right)), len(part))
    return table


def _holds(result: SearchResult, right: set[int]) -> bool:
    return any(passage.chunk_id in right for passage in result.passages(CUTS[1]))


def stored_questions(dialogues: Sequence[Dialogue], folder: Path) -> list[str]:
    """Everything that might be stored: the FAQ where it is there, and every question of the dialogues that stands
    alone.
    """
    own = {d.standalone for d in dialogues} | {d.previous for d in dialogues}
    faq = folder / "cnil_faq.csv"
    if faq.exists():
        with faq.open(encoding="utf-8", newline="") as file:
            own |= {row["question"] for row in csv.DictReader(file)}
    return sorted(own)


def show(title: str, rates: Iterable[tuple[str, dict[str, Rate]]]) -> None:
    print(f"\n{title}")
    for name, row in rates:
        print(f"  {name}: " + "; ".join(f"{way} {rate}" for way, rate in row.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Rules, rewriting and search of follow-ups.")
    parser.add_argument("--model", choices=MODELS, default=next(iter(MODELS)))
    parser.add_argument("--cache", type=Path, help="folder for the vectors, outside the repository")
    options = parser.parse_args(arguments)
    dialogues = read_dialogues()
    show("Rules", rule_rates(dialogues).items())
    show("Messages", message_rates(read_messages()).items())
    if DATA.is_dir():
        show("Questions that stand alone", mistaken_rates(DATA).items())
    profile = threshold_profile(options.model)
    if profile is None or profile.direct_answer is None:
        print(f"{options.model} has no measured thresholds.", file=sys.stderr)
        return 2
    embedder: Embedder = import_string(MODELS[options.model])()
    stored = stored_questions(dialogues, DATA)
    follow_ups = [d for d in dialogues if d.follow_up]
    served = served_unresolved(dialogues, stored, embedder, profile.direct_answer)
    print(f"\nServed as they stand: {len(served)} of {len(follow_ups)}, {len(stored)} questions stored")
    for question, other in served:
        print(f"  {question} <- {other}")
    taken = sum(not rejection(d.standalone, d.question, d.previous) for d in follow_ups)
    print(f"\nRewritings by hand that production would take: {Rate(taken, len(follow_ups))}")
    if not DATA.is_dir():
        print(f"Search is left out: no data at {DATA}, set REPONDANT_DATA.", file=sys.stderr)
        return 0
    if language_model() is None:
        print("Rewriting by the model is left out: none is configured.", file=sys.stderr)
    vectors = Vectorizer(embedder, options.cache)
    show("R@5", recall_at_5(dialogues, vectors, profile.lexical_weight or 0.0, DATA).items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
