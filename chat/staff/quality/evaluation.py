"""Questions through the whole path without writing, against their expectations where they have any.

A line of the file is a JSON object with `question`, and any of these expectations:

    answer_source   one of the exits (`direct_qa`, `guard_rail`, `llm`, `extractive`)
    contains        a text, or a list of texts, that the answer must hold (case is ignored)
    document        a text that the title of one of the sources must hold
    expected_question  the stored question that a source must have
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agents.exceptions import ApplicationError
from agents.models import Deployment
from chat.exceptions import InvalidMessageError
from chat.runs.terminal import ask

Row = dict[str, Any]


def read_questions(path: Path) -> Iterator[Row]:
    """The file's lines; one that is not an object with a question is an error that names it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidMessageError(f"{path.name} is not UTF-8: save it as UTF-8.") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InvalidMessageError(f"{path.name}, line {number}: not JSON.") from error
        if not isinstance(row, dict) or not isinstance(row.get("question"), str):
            raise InvalidMessageError(
                f"{path.name}, line {number}: an object with a text `question` is expected."
            )
        for key in EXPECTATIONS:
            if not _is_expectation(key, row.get(key, "")):
                raise InvalidMessageError(f"{path.name}, line {number}: `{key}` is not a text.")
        yield row


def _is_expectation(key: str, value: object) -> bool:
    if key == "contains" and isinstance(value, list):
        return all(isinstance(text, str) for text in value)
    return isinstance(value, str)


def evaluate(deployment: Deployment, questions: Iterable[Row]) -> Iterator[Row]:
    """A row for each question, in order; a question that fails has `error` instead of an answer."""
    for expected in questions:
        try:
            row = ask(deployment, expected["question"], dry_run=True)
        except ApplicationError as error:
            row = {"question": expected["question"], "error": error.code, "detail": str(error)}
        failures = list(_unmet(row, expected))
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


EXPECTATIONS = ("answer_source", "contains", "document", "expected_question")


def _unmet(row: Row, expected: Row) -> Iterator[str]:
    if "error" in row:
        yield "error"
        return
    if "answer_source" in expected and row["answer_source"] != expected["answer_source"]:
        yield "answer_source"
    texts = expected.get("contains", [])
    for text in [texts] if isinstance(texts, str) else texts:
        if text.casefold() not in row["answer"].casefold():
            yield f"contains: {text}"
    if "document" in expected and not any(
        expected["document"].casefold() in source["title"].casefold() for source in row["sources"]
    ):
        yield "document"
    if "expected_question" in expected and not any(
        source["question"] == expected["expected_question"] for source in row["sources"]
    ):
        yield "expected_question"
