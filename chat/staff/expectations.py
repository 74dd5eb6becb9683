"""What is expected of an answer, as a line of a file or a row of a set says it, and whether an answer meets it.

answer_source      one of the exits (`direct_qa`, `guard_rail`, `llm`, `extractive`, …), or a list of them: any
contains           a text, or a list of texts, that the answer must hold (case is ignored)
not_contains       likewise, that it must not hold
document           a text that the title of one of the sources must hold
page               the page of its document that one of the sources (of `document`, where it is given) begins on
expected_question  the stored question that a source must have
refused            `true`: the question must be refused
"""

import csv
import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.texts import storable_value
from chat.errors import UnreadableTextError
from chat.models import AnswerSource
from chat.protocol import read_json

#: Questions of one set, and real ones of one « what if »: each may be two calls of a model.
GOLDEN_MAX_QUESTIONS = 500

Row = dict[str, Any]

#: Keys whose value is a text or a list of texts, and all keys.
LISTS = ("answer_source", "contains", "not_contains")
EXPECTATIONS = (*LISTS, "document", "page", "expected_question", "refused")
#: Between the texts of a list in a cell of a CSV file.
SEPARATOR = "|"
_LONGEST = 2_000


def texts_of(value: object) -> list[str]:
    found = value if isinstance(value, list) else [value]
    return [text for text in found if isinstance(text, str) and text.strip()]


def question_key(question: str) -> str:
    return hashlib.sha256(" ".join(question.split()).casefold().encode()).hexdigest()


def fault_of(row: object) -> str:
    """What is wrong with a row, in words; empty where nothing is."""
    if not isinstance(row, dict) or not isinstance(row.get("question"), str):
        return _("la question manque")
    if storable_value(row) != row:
        return _("un caractère de cette ligne ne peut pas être enregistré")
    if not row["question"].strip() or not _is_text(row["question"]):
        return _("la question est vide ou trop longue")
    if not _is_text(row.get("note") or ""):
        return _("la valeur de « %(key)s » n’est pas valide") % {"key": "note"}
    for key in EXPECTATIONS:
        if key in row and not _is_valid(key, row[key]):
            return _("la valeur de « %(key)s » n’est pas valide") % {"key": key}
    sources = texts_of(row.get("answer_source", []))
    if unknown := [each for each in sources if each not in AnswerSource.values]:
        return _("« %(name)s » n’est pas une voie de réponse connue") % {"name": unknown[0][:40]}
    return ""


def _is_valid(key: str, value: object) -> bool:
    if key == "refused":
        return isinstance(value, bool)
    if key == "page":
        return isinstance(value, int) and not isinstance(value, bool) and value > 0
    texts = value if key in LISTS and isinstance(value, list) else [value]
    return all(map(_is_text, texts))


def _is_text(value: object) -> bool:
    """Of bounded length, and such as every database keeps."""
    return isinstance(value, str) and len(value) <= _LONGEST and "\0" not in value


def expected_of(row: Row) -> Row:
    """The expectations of a valid row, without empty ones."""
    return {key: row[key] for key in EXPECTATIONS if row.get(key) not in (None, "", [], False)}


#: Each expectation in words: what is expected, and what is missing where it is not met.
_IN_WORDS: dict[str, tuple[Any, Any]] = {
    "answer_source": (gettext_lazy("voie"), gettext_lazy("autre voie")),
    "contains": (gettext_lazy("contient"), gettext_lazy("il manque")),
    "not_contains": (gettext_lazy("ne contient pas"), gettext_lazy("contient à tort")),
    "document": (gettext_lazy("cite"), gettext_lazy("document non cité")),
    "page": (gettext_lazy("page"), gettext_lazy("autre page")),
    "expected_question": (gettext_lazy("question enregistrée"), gettext_lazy("autre question enregistrée")),
    "refused": (gettext_lazy("refusée"), gettext_lazy("non refusée")),
    "error": ("", gettext_lazy("erreur")),
}


def expected_in_words(expected: Row) -> list[str]:
    found = []
    for key, value in expected.items():
        values = value if isinstance(value, list) else [value]
        if key == "answer_source":
            values = [AnswerSource(each).label for each in values if each in AnswerSource.values]
        said = gettext_lazy(" ou ") if key == "answer_source" else " ; "
        text = str(said).join(map(str, values))
        label = str(_IN_WORDS[key][0])
        found.append(label if value is True else _("%(label)s : %(text)s") % {"label": label, "text": text})
    return found


def unmet_in_words(name: str) -> str:
    """One of `unmet`, as staff read it."""
    key, _colon, text = name.partition(": ")
    label = str(_IN_WORDS[key][1]) if key in _IN_WORDS else key
    return _("%(label)s : %(text)s") % {"label": label, "text": text} if text else label


def unmet(row: Row, expected: Row) -> Iterator[str]:
    """Which expectations a row of an answer does not meet, by their names."""
    if row.get("error"):
        yield "error"
        return
    source, answer = row["answer_source"], str(row["answer"]).casefold()
    if (exits := texts_of(expected.get("answer_source", []))) and source not in exits:
        yield "answer_source"
    for text in texts_of(expected.get("contains", [])):
        if text.casefold() not in answer:
            yield f"contains: {text}"
    for text in texts_of(expected.get("not_contains", [])):
        if text.casefold() in answer:
            yield f"not_contains: {text}"
    sources = row["sources"]
    if title := expected.get("document"):
        sources = [each for each in sources if title.casefold() in each["title"].casefold()]
        if not sources:
            yield "document"
    if (page := expected.get("page")) and all(each.get("page") != page for each in sources):
        yield "page"
    if (wanted := expected.get("expected_question")) and all(each["question"] != wanted for each in row["sources"]):
        yield "expected_question"
    if expected.get("refused") and source != AnswerSource.GUARD_RAIL:
        yield "refused"


@dataclass(slots=True)
class ReadFile:
    """The good rows of a file, and what is wrong with the others, each with its line."""

    rows: list[Row] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)

    def take(self, line: int, row: object, fault: str = "") -> None:
        fault = fault or fault_of(row)
        if not fault and len(self.rows) >= GOLDEN_MAX_QUESTIONS:
            fault = _("au-delà du nombre de questions d’un jeu")
        if fault or not isinstance(row, dict):
            self.faults.append((line, fault))
        else:
            self.rows.append(row)


def read_file(name: str, data: bytes) -> ReadFile:
    """Rows of a JSONL or CSV file (by its name), in UTF-8."""
    found = ReadFile()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        found.faults.append((1, _("ce fichier n’est pas en UTF-8")))
        return found
    if name.lower().endswith(".csv"):
        _read_csv(text, found)
        return found
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                found.take(number, read_json(line))
            except (ValueError, UnreadableTextError):
                found.take(number, None, _("ce n’est pas du JSON"))
    return found


def _read_csv(text: str, found: ReadFile) -> None:
    """Columns have the names of the keys; a spreadsheet's French export separates them by semicolons."""
    head = text.partition("\n")[0]
    lines = csv.DictReader(io.StringIO(text), delimiter=";" if ";" in head else ",")
    try:
        if "question" not in (lines.fieldnames or ()):
            found.faults.append((1, _("la colonne `question` manque")))
            return
        for row in lines:
            found.take(lines.line_num, _from_cells(row))
    except csv.Error as error:
        found.faults.append((max(1, lines.line_num), str(error)))


def _from_cells(cells: dict[Any, Any]) -> Row:
    row: Row = {}
    for key, cell in cells.items():
        value = cell.strip() if isinstance(cell, str) else ""
        if not value or key not in ("question", "note", *EXPECTATIONS):
            continue
        if key in LISTS:
            row[key] = [part.strip() for part in value.split(SEPARATOR) if part.strip()]
        elif key == "page":
            row[key] = int(value) if value.isdecimal() and len(value) < 9 else value
        elif key == "refused":
            row[key] = value.casefold() in ("1", "true", "vrai", "oui", "yes")
        else:
            row[key] = value
    return row
