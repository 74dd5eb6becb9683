"""The origins of an answer (passages and validated answers), and whether they have changed since.

A passage used for its text is compared by its text; one used for an answer in it, by all of its answers too
(`with_units`). The comparison is one indexed condition in SQL: a change counts from its commit on, whoever made it.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.db.models.expressions import RawSQL
from django.db.models.functions import MD5, Cast, Concat

from faqs.models import CachedResponse, LearnedResponse, LearnedResponseQuerySet, LearnedStatus, Origin
from knowledge.language.words import content_stems
from knowledge.models import Chunk

_LOST_PASSAGE = """
EXISTS (SELECT 1 FROM faqs_origin origin LEFT JOIN knowledge_chunk chunk ON chunk.id = origin.chunk_id
LEFT JOIN knowledge_document document ON document.id = chunk.document_id
WHERE origin.{owner} = {answers}.id AND origin.learned_id IS NULL AND (chunk.id IS NULL OR NOT chunk.enabled OR NOT document.enabled
OR origin.fingerprint <> MD5(chunk.content || CASE WHEN origin.with_units THEN CAST(chunk.knowledge_units AS TEXT) ELSE '' END)))"""
_LOST_ANSWER = """
EXISTS (SELECT 1 FROM faqs_origin origin LEFT JOIN faqs_learnedresponse learned ON learned.id = origin.learned_id
WHERE origin.entry_id = responses.id AND origin.learned_id IS NOT NULL AND (learned.id IS NULL OR learned.status <> 'valid'
OR origin.fingerprint <> MD5(learned.question || learned.answer)))"""
#: True for a row of `responses` that has lost an origin, or of which one was switched off, is reviewed or has changed.
STALE = f"({_LOST_PASSAGE.format(owner='entry_id', answers='responses')} OR {_LOST_ANSWER})"
#: The same for a validated answer.
STALE_ANSWER = _LOST_PASSAGE.format(owner="answer_id", answers="faqs_learnedresponse")

#: As far as a passage is shown with those beside it, in passages; a line that says something; a title put before a section.
_BESIDE, _LINE, _TITLE = 2, re.compile(r".*\w.*"), re.compile(r"\*\*.+\*\*")
#: The type of a source that is one of the answers of its passage, not the passage's text.
_QA_PAIR = "qa_pair"


def stale_entries(
    chunk_ids: Iterable[int] | None = None, learned_ids: Iterable[int] | None = None
) -> "models.QuerySet[CachedResponse]":
    """The entries with an origin that changed, was switched off or went; of all, or of these passages or answers."""
    entries = CachedResponse.objects.all()
    if chunk_ids is not None:
        origins = Origin.objects.filter(chunk_id__in=list(chunk_ids))
        entries = entries.filter(pk__in=origins.values("entry_id"))
    if learned_ids is not None:
        cited = Origin.objects.filter(learned_id__in=list(learned_ids))
        entries = entries.filter(pk__in=cited.values("entry_id"))
    return entries.filter(RawSQL(STALE, (), output_field=models.BooleanField()))  # noqa: S611  # constant text


def stale_answers(chunk_ids: Iterable[int]) -> LearnedResponseQuerySet:
    """The validated answers of which one of these passages changed, was switched off or went."""
    answers = LearnedResponse.objects.filter(pk__in=Origin.objects.filter(chunk_id__in=chunk_ids).values("answer_id"))
    return answers.filter(RawSQL(STALE_ANSWER, (), output_field=models.BooleanField()))  # noqa: S611  # constant text


#: A sentence, a line, a row.
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
#: A sentence that shares this much of what the closest one shares with an answer bears on it.
_BEARING_SHARE = 0.4


def passage_text(content: str, units: Sequence[Mapping[str, Any]]) -> str:
    """All that a passage says: its text, then its questions and their answers."""
    return "\n".join([content, *(f"{unit.get('question')} {unit.get('answer')}" for unit in units)])


def bears_on(answer: LearnedResponse, key: int, document: int, before: str, now: str | None = None) -> bool:
    """Whether a sentence that this passage gained, or that its document lost with it, is one that the answer stands on.

    Sentences are compared, by the rarer words that they share with question and answer, with the closest one of all
    passages of the answer; one with a number of the answer counts in any case. `now`: what the passage is to say.
    """
    said_by = Chunk.objects.served().filter(document=document).values_list("pk", "content", "knowledge_units")
    says = {pk: passage_text(content, units) for pk, content, units in said_by}
    found = says.pop(key, "")
    drawn_from = Chunk.objects.filter(pk__in=answer.origins.values("chunk_id")).exclude(pk=key)
    rest = ("\n".join(says.values()), "\n".join(drawn_from.values_list("content", flat=True)))
    texts = (before, found if now is None else now, *rest)
    old, new, others, beside = ({" ".join(each.split()) for each in _SENTENCES.split(text)} - {""} for text in texts)
    said, figures = content_stems(f"{answer.question} {answer.answer}"), set(re.findall(r"\d+", answer.answer))
    shared = {each: said & content_stems(each) for each in old | new | beside}
    having = Counter(stem for each in old | beside for stem in shared[each])
    weights = {each: sum(1 / (having[stem] or 1) for stem in shared[each]) for each in shared}
    least = _BEARING_SHARE * max((weights[each] for each in old | beside), default=0.0)
    return any(weights[each] >= least or figures & set(re.findall(r"\d+", each)) for each in (old ^ new) - others)


def resting_on(chunk: Chunk, content: str, units: Sequence[Mapping[str, Any]]) -> list[tuple[LearnedResponse, bool]]:
    """The valid answers drawn from a passage, each with whether this other text of the passage bears on it."""
    rows = LearnedResponse.objects.valid().filter(origins__chunk=chunk).distinct()
    before, now = passage_text(chunk.content, chunk.knowledge_units), passage_text(content, units)
    return [(row, bears_on(row, chunk.pk, chunk.document_id, before, now)) for row in rows]


def cites_unchanged(learned_id: int) -> "models.QuerySet[Any, Any]":
    """The keys of the entries that were made from this validated answer as it is now."""
    answer = LearnedResponse.objects.filter(pk=learned_id, status=LearnedStatus.VALID)
    marks = answer.annotate(mark=MD5(Concat("question", "answer", output_field=models.TextField()))).values("mark")
    return Origin.objects.filter(learned_id=learned_id, fingerprint__in=marks).values("entry_id")


def origins_of(sources: Sequence[Mapping[str, Any]]) -> list[Origin] | None:
    """The current origins of an answer's sources, not stored; `None` when one of them cannot be traced."""
    by_id = _passages(_ids("chunk_id", sources))
    answers = _answers(_ids("learned_id", sources))
    origins: dict[tuple[int | None, bool, int | None], Origin] = {}
    for source in sources:
        text, learned_id = source.get("text"), source.get("learned_id")
        if learned_id is not None:
            answer, mark = answers.get(learned_id, (None, ""))
            if text != answer:
                return None
            origins[None, False, learned_id] = Origin(fingerprint=mark, learned_id=learned_id)
            continue
        chunk = by_id.get(source.get("chunk_id", 0))
        if chunk is None:
            return None
        with_units = source.get("type") == _QA_PAIR
        used = [unit.get("answer") for unit in chunk.units]
        found = ([chunk] if text in used else []) if with_units else _shown_with(chunk, str(text))
        if not found:
            return None
        for each in found:
            mark = each.marks_units if with_units else each.marks_text
            origins[each.pk, with_units, None] = Origin(chunk_id=each.pk, with_units=with_units, fingerprint=mark)
    return list(origins.values())


def keep_origins(response_id: int, origins: Iterable[Origin]) -> None:
    """Store the origins of an entry that has none, in the caller's transaction."""
    _store(origins, entry_id=response_id)


def keep_passages(response: LearnedResponse, origins: Iterable[Origin]) -> None:
    """Replace the passages of a validated answer, in the caller's transaction."""
    Origin.objects.filter(answer=response).delete()
    _store((origin for origin in origins if origin.chunk_id is not None), answer_id=response.pk)


def _store(origins: Iterable[Origin], **owner: int) -> None:
    Origin.objects.bulk_create(
        Origin(
            chunk_id=o.chunk_id, learned_id=o.learned_id, with_units=o.with_units, fingerprint=o.fingerprint, **owner
        )
        for o in origins
    )


def accept_origins(*, entries: Sequence[int] = (), answers: Sequence[int] = ()) -> None:
    """Accept origins of these as they are now; what is deleted or switched off is none any more."""
    origins = list(Origin.objects.filter(models.Q(entry__in=entries) | models.Q(answer__in=answers)))
    chunks = _passages({origin.chunk_id for origin in origins if origin.chunk_id is not None})
    learned = _answers({origin.learned_id for origin in origins if origin.learned_id is not None})
    present, missing = list[Origin](), list[Origin]()
    for origin in origins:
        chunk, answer = chunks.get(origin.chunk_id or 0), learned.get(origin.learned_id or 0)
        if chunk is not None:
            origin.fingerprint = chunk.marks_units if origin.with_units else chunk.marks_text
        elif answer is not None:
            origin.fingerprint = answer[1]
        (missing if chunk is None and answer is None else present).append(origin)
    Origin.objects.filter(pk__in=[origin.pk for origin in missing]).delete()
    Origin.objects.bulk_update(present, ["fingerprint"], batch_size=500)


def _ids(name: str, sources: Iterable[Mapping[str, Any]]) -> set[int]:
    return {pk for source in sources if isinstance(pk := source.get(name), int)}


@dataclass(frozen=True, slots=True)
class _Passage:
    """A passage now, with the fingerprints of its text and of its answers."""

    pk: int
    document: int
    index: int
    content: str
    units: list[dict[str, Any]]
    marks_text: str
    marks_units: str


def _passages(chunk_ids: "Collection[int] | models.QuerySet[Chunk, Any]") -> dict[int, _Passage]:
    marks_units = MD5(Concat("content", Cast("knowledge_units", models.TextField())))
    chunks = Chunk.objects.served().filter(pk__in=chunk_ids).order_by()
    rows = chunks.annotate(marks_text=MD5("content"), marks_units=marks_units)
    columns = ("pk", "document", "index", "content", "knowledge_units", "marks_text", "marks_units")
    return {row[0]: _Passage(*row) for row in rows.values_list(*columns)}


def _shown_with(chunk: _Passage, text: str) -> list[_Passage]:
    """The passages that a text shown of one was put together from (`widened`); none where one has changed since."""
    if text == chunk.content:
        return [chunk]
    beside = range(chunk.index - _BESIDE, chunk.index + _BESIDE + 1)
    near = _passages(Chunk.objects.filter(document=chunk.document, index__in=beside).values("pk"))
    found = {pk: each for pk, each in near.items() if any(line in text for line in _LINE.findall(each.content))}
    held = {line for each in found.values() for line in _LINE.findall(each.content)}
    is_whole = all(line in held or _TITLE.fullmatch(line) for line in _LINE.findall(text))
    return list(found.values()) if is_whole and chunk.pk in found and chunk.content in text else []


def _answers(learned_ids: Collection[int]) -> dict[int, tuple[str, str]]:
    """By key, the text of each answer that is still valid, and a fingerprint of its question and text."""
    mark = MD5(Concat("question", "answer", output_field=models.TextField()))
    valid = LearnedResponse.objects.filter(pk__in=learned_ids, status=LearnedStatus.VALID).order_by()
    return {pk: (answer, told) for pk, answer, told in valid.annotate(mark=mark).values_list("pk", "answer", "mark")}
