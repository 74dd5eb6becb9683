"""Sets are filled: from answers that were given, corrected or validated, and from rows of a file."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.models import Deployment
from chat.models import AnswerSource, Feedback, GoldenQuestion, GoldenSet, QuestionOrigin, Turn, TurnStatus, Verdict
from chat.staff.golden.expectations import Row, expected_of, question_key
from chat.thread.reading import exchange_of
from faqs.answers.texts import without_citations
from faqs.models import LearnedResponse

#: So much of an answer is expected word for word.
_EXPECTED_CHARACTERS = 200
#: Exits that give a stored answer as it is: either may, once a memory has learned it.
_STORED = [AnswerSource.DIRECT_QA.value, AnswerSource.MEMORY_GUARD.value]


def add_questions(golden_set: GoldenSet, rows: Iterable[Row], origin: QuestionOrigin) -> int:
    """Those that the set lacks, up to its bound; returns how many were added."""
    with transaction.atomic():
        # The set's row is the lock of its bound.
        locked = GoldenSet.objects.select_for_update().get(pk=golden_set.pk)
        room = settings.GOLDEN_MAX_QUESTIONS - locked.questions.count()
        known = set(locked.questions.values_list("key", flat=True))
        added: dict[str, GoldenQuestion] = {}
        for row in rows:
            text = row["question"].strip()
            key = question_key(text)
            if key not in known and key not in added and len(added) < room:
                added[key] = GoldenQuestion(
                    golden_set=locked,
                    question=text,
                    key=key,
                    expected=expected_of(row),
                    note=str(row.get("note") or "")[:500],
                    origin=origin,
                )
        GoldenQuestion.objects.bulk_create(added.values())
        if added:
            touch(GoldenSet.objects.filter(pk=golden_set.pk))
    return len(added)


def touch(sets: QuerySet[GoldenSet]) -> None:
    """What they ask has changed: what a gate knew of it counts no more."""
    sets.update(changed_at=timezone.now())


def set_for(deployment: Deployment) -> GoldenSet:
    """The deployment's oldest set, or its first one."""
    found = deployment.golden_sets.order_by("pk").first()
    if found is not None:
        return found
    name = _("Questions de référence · %(name)s") % {"name": deployment.name}
    made, _is_new = GoldenSet.objects.get_or_create(
        name=name[:100] + f" ({deployment.pk})", defaults={"deployment": deployment}
    )
    return made


def row_of_turn(turn: Turn) -> Row | None:
    """What was asked, expected to be answered as it was; `None` where nothing may be kept of it."""
    asked, answered = exchange_of(turn)
    is_kept = turn.status == TurnStatus.DONE and not turn.conversation.is_temporary
    if not is_kept or asked is None or answered is None:
        return None
    row: Row = {"question": asked.content}
    if turn.answer_source == AnswerSource.GUARD_RAIL:
        return {**row, "refused": True}
    if turn.answer_source in _STORED:
        return {**row, **_stored(answered.content)}
    titles = [source.get("title") for source in answered.sources if isinstance(source, dict)]
    return {**row, "document": titles[0]} if titles and titles[0] else row


def row_of_answer(question: str, answer: str) -> Row:
    """A question that is to be given this stored answer."""
    return {"question": question, **_stored(answer)}


def _stored(answer: str) -> dict[str, Any]:
    return {"answer_source": _STORED, "contains": without_citations(answer).strip()[:_EXPECTED_CHARACTERS]}


def rows_of_useful_answers(deployment: Deployment) -> list[Row]:
    """What readers said was useful, newest first."""
    useful = Feedback.objects.filter(
        verdict=Verdict.UP, withdrawn_at=None, turn__conversation__deployment=deployment
    ).select_related("turn__conversation")
    found = (row_of_turn(each.turn) for each in useful.order_by("-pk")[: _most()])
    return [row for row in found if row is not None]


def rows_of_validated_answers(deployment: Deployment) -> list[Row]:
    standing = LearnedResponse.objects.standing().filter(agent=deployment.agent)
    pairs = standing.order_by("-pk").values_list("question", "answer")[: _most()]
    return [row_of_answer(question, answer) for question, answer in pairs]


def _most() -> int:
    return int(settings.GOLDEN_MAX_QUESTIONS)
