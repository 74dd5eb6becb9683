"""Golden questions: sets that are filled, runs that ask them, and « what if » on the last real questions.

A run is asked by a job, without writing; a result that is empty is still to be asked, so a killed run goes on.
A row expects of its answer: `answer_source` (one of these exits), `contains` and `not_contains` (case ignored),
`document` and `page` (of one of its sources), `expected_question` (a source's stored one), `refused`.
"""

import hashlib
import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.errors import ApplicationError
from agents.jobs import Held, Outcome, enqueue
from agents.models import OPEN_JOBS, Deployment, JobKind
from agents.texts import storable_value
from chat.errors import InvalidMessageError, UnreadableTextError
from chat.models import AnswerSource, GoldenQuestion, GoldenResult, GoldenRun, GoldenSet, Message, Role
from chat.protocol import read_json
from chat.runs.terminal import ask
from chat.staff.simulator import simulate
from chat.turn.values import TurnRequest

#: A worker asks for so many seconds at a time, then takes its turn again after other tasks.
GOLDEN_TURN_SECONDS = 300.0
#: Questions of one set, and real ones of one « what if »: each may be two calls of a model.
GOLDEN_MAX_QUESTIONS = 500

#: So much of an answer is kept.
_KEPT_CHARACTERS = 4_000
#: Turns looked at for each question wanted: people repeat themselves.
_REPEATS = 4

Row = dict[str, Any]

#: Keys whose value is a text or a list of texts, and all keys.
LISTS = ("answer_source", "contains", "not_contains")
EXPECTATIONS = (*LISTS, "document", "page", "expected_question", "refused")
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
    for key in ("note", *EXPECTATIONS):
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
    return isinstance(value, str) and len(value) <= _LONGEST


#: What is missing where an expectation is not met.
_UNMET = {
    "answer_source": gettext_lazy("autre voie"),
    "contains": gettext_lazy("il manque"),
    "not_contains": gettext_lazy("contient à tort"),
    "document": gettext_lazy("document non cité"),
    "page": gettext_lazy("autre page"),
    "expected_question": gettext_lazy("autre question enregistrée"),
    "refused": gettext_lazy("non refusée"),
    "error": gettext_lazy("erreur"),
}


def unmet_in_words(name: str) -> str:
    """One of `unmet`, as staff read it."""
    key, _colon, text = name.partition(": ")
    label = str(_UNMET.get(key, key))
    return _("%(label)s : %(text)s") % {"label": label, "text": text} if text else label


def unmet(row: Row, expected: Row) -> Iterator[str]:
    """Which expectations a row of an answer does not meet, by their names."""
    if row.get("error"):
        yield "error"
        return
    source, answer = row["answer_source"], str(row["answer"]).casefold()
    if (exits := texts_of(expected.get("answer_source", []))) and source not in exits:
        yield "answer_source"
    for key, is_wanted in (("contains", True), ("not_contains", False)):
        for text in texts_of(expected.get(key, [])):
            if _says(answer, text) is not is_wanted:
                yield f"{key}: {text}"
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


def _says(answer: str, text: str) -> bool:
    """Whether an answer, in small letters, holds a text; « 5 euros » does not stand in « 75 euros »."""
    whole = rf"((?<!\d)(?<!\d[,\u202f\xa0])|(?=\D)){re.escape(text.casefold())}((?![,\u202f\xa0]?\d)|(?<=\D))"
    return re.search(whole, answer) is not None


def read_lines(text: str, *, is_strict: bool = False) -> list[Row]:
    """Rows of JSON, questions, « question => text »; `is_strict`: known keys alone. Raises `InvalidMessageError`."""
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = read_json(line) if line.lstrip().startswith("{") else _row_of(line)
            fault = fault_of(row)
        except (ValueError, UnreadableTextError):
            fault = _("ce n’est pas du JSON")
        if is_strict and not fault and (unknown := row.keys() - {"question", "note", *EXPECTATIONS}):
            fault = _("« %(key)s » n’est pas une attente connue") % {"key": min(unknown)[:40]}
        if not fault and len(rows) >= GOLDEN_MAX_QUESTIONS:
            fault = _("au-delà du nombre de questions d’un jeu")
        if fault:
            message = _("Ligne %(line)d : %(fault)s.") % {"line": number, "fault": fault}
            raise InvalidMessageError(f"line {number}", public_message=message)
        rows.append(row)
    return rows


def write_questions(golden_set: GoldenSet, rows: Iterable[Row]) -> None:
    """Have the set hold these questions, each once, and no other."""
    wanted = {question_key(row["question"]): row for row in rows}
    with transaction.atomic():
        golden_set.questions.exclude(key__in=wanted).delete()
        held = {question.key: question for question in golden_set.questions.all()}
        for key, row in wanted.items():
            question = held.get(key) or GoldenQuestion(golden_set=golden_set, key=key)
            texts = {"question": row["question"].strip(), "note": str(row.get("note") or "")[:500]}
            expected = {each: row[each] for each in EXPECTATIONS if row.get(each) not in (None, "", [], False)}
            said = {**texts, "expected": expected}
            if changed := {name: value for name, value in said.items() if getattr(question, name) != value}:
                vars(question).update(changed)
                question.save()


def rows_of(golden_set: GoldenSet) -> list[Row]:
    """The questions of a set as rows of a file."""
    noted = ((each, {"note": each.note} if each.note else {}) for each in golden_set.questions.order_by("pk"))
    return [{"question": each.question, **each.expected, **note} for each, note in noted]


def as_lines(rows: Iterable[Row]) -> str:
    """The text that `read_lines` reads as these rows: without JSON where a line can say it."""
    return "\n".join(_line_of(row) or json.dumps(row, ensure_ascii=False) for row in rows)


def _row_of(line: str) -> Row:
    question, arrow, text = line.partition("=>")
    return {"question": question.strip()} | ({"contains": text.strip()} if arrow else {})


def _line_of(row: Row) -> str:
    line = " => ".join(map(str, (row["question"], *([row["contains"]] if "contains" in row else []))))
    return line if _row_of(line) == row and "\n" not in line and not line.startswith("{") else ""


def last_questions(count: int, **of: Any) -> dict[str, uuid.UUID]:
    """The last different questions that were asked, newest first, each with its turn."""
    asked = Message.objects.filter(role=Role.USER, turn__isnull=False, **of).order_by("-turn__started_at")
    found: dict[str, uuid.UUID] = {}
    for text, turn in asked.values_list("content", "turn_id")[: count * _REPEATS]:
        if text.strip() and len(found) < count:
            found.setdefault(text.strip(), turn)
    return found


def enqueue_run(
    golden_set: GoldenSet, changes: Mapping[str, Any] | None = None, *, by: AbstractBaseUser | None = None
) -> GoldenRun:
    """Have a worker ask a set, also with other settings; one that is being asked with these is returned."""
    if going := golden_set.runs.filter(job__status__in=OPEN_JOBS, changes=dict(changes or {})).first():
        return going
    questions = golden_set.questions.order_by("pk")[:GOLDEN_MAX_QUESTIONS]
    run = GoldenRun(golden_set=golden_set, deployment=golden_set.deployment, language=golden_set.language)
    rows = [GoldenResult(question=each.question, expected=each.expected) for each in questions]
    return _queue(run, rows, changes, by)


def enqueue_what_if(
    deployment: Deployment, changes: Mapping[str, Any], *, count: int, by: AbstractBaseUser | None = None
) -> GoldenRun:
    """Have a worker ask the last real questions of a deployment as things are and with other settings."""
    asked = last_questions(min(count, GOLDEN_MAX_QUESTIONS), conversation__deployment=deployment)
    rows = [GoldenResult(question=text, source_turn=turn) for text, turn in asked.items()]
    return _queue(GoldenRun(deployment=deployment, language=settings.LANGUAGE_CODE[:2]), rows, changes, by)


def _queue(
    run: GoldenRun, rows: Sequence[GoldenResult], changes: Mapping[str, Any] | None, by: AbstractBaseUser | None
) -> GoldenRun:
    run.changes, run.by = dict(changes or {}), cast("User | None", by)
    with transaction.atomic():
        run.save()
        for position, row in enumerate(rows):
            row.run, row.position = run, position
        GoldenResult.objects.bulk_create(rows)
        run.job = enqueue(JobKind.GOLDEN, agent=run.deployment.agent, total=len(rows))
        run.save(update_fields=["job"])
    return run


def ask_golden_questions(held: Held) -> Outcome | None:
    """Ask what is left of a run, for `GOLDEN_TURN_SECONDS` at most, then let other jobs go first."""
    run = GoldenRun.objects.filter(job=held.job).first()
    if run is None:
        return None
    began, done = time.monotonic(), run.results.filter(after__isnull=False).count()
    for result in run.results.filter(after__isnull=True).iterator(chunk_size=50):
        if time.monotonic() - began > GOLDEN_TURN_SECONDS:
            return Outcome(again_at=timezone.now())
        before = _asked(run, result, {}) if run.changes else None
        after, done = _asked(run, result, run.changes), done + 1
        with transaction.atomic():
            # Raises where the job is lost or cancelled.
            held.progress(done, held.job.total)
            GoldenResult.objects.filter(pk=result.pk).update(before=before, after=after)
    return None


def _asked(run: GoldenRun, result: GoldenResult, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of an answer."""
    request = TurnRequest(run.deployment_id, result.question, run.language, settings=changes)
    found = simulate(request, closes_model=True)
    answer, kept = found.answer, ("title", "document_id", "chunk_id", "page", "question")
    row: dict[str, Any] = {
        "answer_source": str(answer.source),
        "answer": answer.text,
        "sources": [{key: each.get(key) for key in kept} for each in answer.sources],
        "error": found.error.code if found.error else "",
        "llm_calls": answer.llm_calls,
    }
    return {**row, "answer": answer.text[:_KEPT_CHARACTERS], "unmet": list(unmet(row, result.expected))}


def questions_named(name: str) -> list[Row] | None:
    """The questions of a set or of a file; `None` where there is neither. The first row that is none is an error."""
    if (golden_set := GoldenSet.objects.filter(name=name).first()) is not None:
        return rows_of(golden_set)
    path = Path(name)
    if not path.is_file():
        return None
    try:
        return read_lines(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidMessageError(f"{path.name} is not UTF-8.") from error


def evaluate(deployment: Deployment, questions: Iterable[Row]) -> Iterator[Row]:
    """Yield a row for each question, in order; a question that fails has `error` instead of an answer."""
    for expected in questions:
        try:
            row = ask(deployment, expected["question"], dry_run=True)
        except ApplicationError as error:
            row = {"question": expected["question"], "error": error.code, "detail": str(error)}
        failures = list(unmet(row, expected))
        wanted = {key: expected[key] for key in EXPECTATIONS if key in expected}
        yield {**row, "expected": wanted, "unmet": failures, "passed": not failures}


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    expecting = [row for row in rows if row["expected"]]
    return {
        "questions": len(rows),
        "errors": sum("error" in row for row in rows),
        "answer_sources": dict(Counter(row["answer_source"] for row in rows if "error" not in row)),
        "llm_calls": sum(row.get("llm_calls", 0) for row in rows),
        "expecting": len(expecting),
        "passed": sum(row["passed"] for row in expecting),
    }
