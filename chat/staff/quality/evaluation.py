"""Questions through the whole path without writing, against their expectations where they have any.

They are those of a set, or of a file in the same format (`chat.staff.golden.expectations`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agents.errors import ApplicationError
from agents.models import Deployment
from chat.exceptions import InvalidMessageError
from chat.models import GoldenSet
from chat.runs.terminal import ask
from chat.staff.golden.expectations import EXPECTATIONS, read_file, unmet

Row = dict[str, Any]


def read_questions(path: Path) -> list[Row]:
    """The file's rows; the first one that is no question is an error that names it."""
    found = read_file(path.name, path.read_bytes())
    if found.faults:
        line, fault = found.faults[0]
        raise InvalidMessageError(f"{path.name}, line {line}: {fault}.")
    return found.rows


def questions_of(golden_set: GoldenSet) -> list[Row]:
    rows = golden_set.questions.order_by("pk")
    return [{"question": each.question, **each.expected} for each in rows]


def evaluate(deployment: Deployment, questions: Iterable[Row]) -> Iterator[Row]:
    """A row for each question, in order; a question that fails has `error` instead of an answer."""
    for expected in questions:
        try:
            row = ask(deployment, expected["question"], dry_run=True)
        except ApplicationError as error:
            row = {"question": expected["question"], "error": error.code, "detail": str(error)}
        failures = list(unmet(row, expected))
        yield {
            **row,
            "expected": {key: expected[key] for key in EXPECTATIONS if key in expected},
            "unmet": failures,
            "passed": not failures,
        }


def summarise(rows: list[Row]) -> dict[str, Any]:
    expecting = [row for row in rows if row["expected"]]
    return {
        "questions": len(rows),
        "errors": sum("error" in row for row in rows),
        "answer_sources": dict(Counter(row["answer_source"] for row in rows if "error" not in row)),
        "llm_calls": sum(row.get("llm_calls", 0) for row in rows),
        "expecting": len(expecting),
        "passed": sum(row["passed"] for row in expecting),
    }
