"""The steps that answer from stored answers: the memory before search, then validated answers and pairs from the hits;
and in the ambiguous band, where several lie close to each other and none may be given alone, the question which was meant.

What may be given is decided in `faqs.recall` and `faqs.second_key`. The offer stands beside the passages, never in their
place. Offered is a stored question in the band under the threshold of direct answers that the second key refuses for
ordinary words, or for a precision that the asked one leaves open, in the language of the question and among the first
passages (`benchmarks/clarification`). Choosing sends it as a message of its own (`was_offered`); choosing none asks
the same question again (`none_was_meant`).
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, override

from agents.database import in_database
from agents.llm.base import language_model
from chat.models import AnswerSource
from chat.telemetry import log_direct_answer
from chat.turn.dispatch import dispatch_and_search
from chat.turn.prompt import direct_text, number_sources
from chat.turn.quoting import EXTRACTIVE_PASSAGES, quoted_text
from chat.turn.values import DIRECT_MODEL, Exchange, TurnInProgress
from faqs.recall import (
    Lookup,
    MemoryMark,
    Recall,
    RecalledAnswer,
    is_known_empty,
    lookup_of,
    normalised_question,
    recall_cached,
    stored_refusal,
)
from faqs.second_key.same_question import Decision, ask_the_same, compare_questions, would_serve
from faqs.second_key.verifier import confirms
from knowledge.embeddings.base import Recipe, Vectors
from knowledge.errors import CollectionMissingError
from knowledge.language.words import LANGUAGES, fold, language_of, same_writing, word_class
from knowledge.search import Passage, SearchResult, Thresholds

#: The agent that an answer from the memory comes from (seed 000, section 1).
MEMORY_MODEL = "memory_guard"


async def answer_from_memory(turn: TurnInProgress) -> bool:
    """Answer with the memory's entry where the memory guard allows one."""
    recalled = await _recall(turn)
    if recalled is None:
        return False
    answer = turn.answer
    answer.source, answer.model = AnswerSource.MEMORY_GUARD, MEMORY_MODEL
    answer.score = recalled.score
    await turn.show_stored(recalled.sources)
    await turn.say(recalled.text)
    return True


async def _recall(turn: TurnInProgress) -> RecalledAnswer | None:
    question, recipe, mark = turn.question, turn.question.recipe, turn.context.mark
    lookup = lookup_of(
        turn.config, question.text, model=recipe.model, writes=not turn.request.is_dry_run, scope=question.scope
    )
    if lookup is not None:
        lookup = replace(lookup, forms=turn.context.forms)
    if question.asked.is_follow_up or lookup is None or mark is None or is_known_empty(mark, recipe):
        outcome = "off" if lookup is None else "empty"
        turn.trace.step(
            "memory_guard",
            "follow_up" if question.asked.is_follow_up else outcome,
            threshold=lookup.threshold if lookup else None,
        )
        return None
    found = await _look_up(mark, lookup, question.vector, recipe)
    for _reading, vector in question.by_forms:
        if found.answer is None:
            again = await _look_up(mark, lookup, vector, recipe)
            found = again if again.answer or (again.best_score or 0.0) > (found.best_score or 0.0) else found
    yields = found.answer is not None and found.answer.is_by_form and await _is_stored(turn)
    # The route of seed 000, section 2: the step is the `next_agent`, its outcome the `action`.
    outcome = "refused" if found.refused else "no_candidate"
    if found.answer is not None:
        outcome = "respond_from_memory"
    if yields:
        outcome = "yielded"
    turn.trace.step(
        "memory_guard",
        outcome,
        score=found.best_score,
        threshold=lookup.threshold if found.answer is None else found.answer.threshold,
        detail="" if found.answer is None else found.answer.question,
        refused=[each.as_stored() for each in found.refused],
    )
    if found.answer is None or yields:
        return None
    turn.trace.gave(found.answer.entry_id)
    return found.answer


async def _is_stored(turn: TurnInProgress) -> bool:
    """Whether a pair asks the same without a synonym, and may answer; searches now, the hits stay on the turn."""
    try:
        await dispatch_and_search(turn)
    except CollectionMissingError:
        return False
    threshold = turn.thresholds.direct_answer
    candidates = [] if threshold is None else turn.found.direct_candidates(threshold)
    return any(ask_the_same(each.question, turn.asked.text) for each in candidates)


async def _look_up(mark: MemoryMark, lookup: Lookup, vector: Vectors, recipe: Recipe) -> Recall:
    return await in_database(recall_cached, mark, lookup, vector=vector, recipe=recipe)


#: With a model behind the second key, only the nearest candidates are worth its call.
VERIFIED_CANDIDATES = 3

Decisions = list[tuple[Passage, Decision]]


async def answer_as_stored(turn: TurnInProgress) -> bool:
    """Give a courtesy, or the best stored answer that both keys let out; `False` where nothing stored may be given."""
    learned = turn.learned
    outcome = "courtesy" if learned.courtesy else "found" if learned.learned else "nothing"
    turn.trace.step("learned", outcome, detail=f"{learned.learned}")
    if learned.courtesy and turn.config.direct_answers:
        _take(turn, learned.courtesy)
        await turn.say(learned.courtesy.content)
        return True
    direct = await _choose_direct(turn)
    if direct is None:
        return False
    _take(turn, direct)
    log_direct_answer(turn.request.turn_id, turn.config.agent.slug, direct.question, direct.score)
    await turn.show(number_sources([direct]))
    await turn.say(direct_text(direct))
    return True


def _take(turn: TurnInProgress, passage: Passage) -> None:
    answer = turn.answer
    answer.source, answer.model, answer.score = AnswerSource.DIRECT_QA, DIRECT_MODEL, passage.score
    answer.learned_id = passage.learned_id


async def _choose_direct(turn: TurnInProgress) -> Passage | None:
    """The best stored answer that both keys let out: the similarity, then the agreement of the two questions."""
    threshold, is_follow_up = turn.thresholds.direct_answer, turn.asked.is_follow_up
    if is_follow_up or threshold is None:
        outcome = "follow_up" if is_follow_up else "off"
        turn.trace.step("direct_answer", outcome, threshold=threshold)
        return None
    candidates = turn.found.direct_candidates(threshold)
    decisions = _decisions(turn, candidates, threshold)
    verified = await _verified(turn, decisions)
    allowed = [each for each, decision in decisions if decision.served]
    passage = verified or max(allowed, key=lambda each: _rank(turn, each), default=None)
    if passage is None:
        turn.trace.step(
            "direct_answer",
            "second_key_refused" if candidates else "no_candidate",
            score=candidates[0].score if candidates else None,
            threshold=threshold,
            refused=[
                stored_refusal(each.question, each.score, "second_key", why.disagreements) for each, why in decisions
            ],
        )
        return None
    outcome, detail = "verified" if verified else "served", passage.question
    if rivals := [each for each in candidates if _contradicts(each, passage)]:
        outcome, detail = "contradicted", "\n".join(_place(each) for each in (passage, *rivals))
    turn.trace.step("direct_answer", outcome, score=passage.score, threshold=threshold, detail=detail)
    return passage if outcome in ("verified", "served") else None


def _decisions(turn: TurnInProgress, candidates: Sequence[Passage], threshold: float) -> Decisions:
    """Decide on the candidates in order; stop at a served one that no later candidate can outrank (`_rank`)."""
    decided: Decisions = []
    best: tuple[bool, bool, float] | None = None
    for position, passage in enumerate(candidates, start=1):
        stored, asked = _in_one_writing(turn, passage)
        decision = would_serve(stored=stored, asked=asked, score=passage.score, threshold=threshold)
        decided.append((passage, decision))
        if decision.served:
            rank = _rank(turn, passage)
            best = rank if best is None else max(best, rank)
        behind = ((True, each.is_faq, each.validated_at) for each in candidates[position:])
        if best is not None and best >= max(behind, default=best):
            break
    return decided


def _rank(turn: TurnInProgress, passage: Passage) -> tuple[bool, bool, float]:
    """Matches as typed come before matches by a synonym, then validated answers before documents, then the newest."""
    as_typed = not turn.context.forms.unite(passage.question, turn.asked.text) or ask_the_same(
        passage.question, turn.asked.text
    )
    return as_typed, passage.is_faq, passage.validated_at


async def _verified(turn: TurnInProgress, decisions: Decisions) -> Passage | None:
    """Where the rules refuse every candidate, the one among the best few that the model confirms, if staff enable it."""
    llm = language_model()
    may_ask = turn.config.verify_answers and not turn.request.without_model
    if llm is None or not may_ask or any(decision.served for _candidate, decision in decisions):
        return None
    for passage, decision in decisions[:VERIFIED_CANDIDATES]:
        if decision.agreement.is_open_to_verification:
            turn.answer.llm_calls += 1
            if await confirms(llm, *_in_one_writing(turn, passage), model=turn.config.llm_model):
                return passage
    return None


def _in_one_writing(turn: TurnInProgress, passage: Passage) -> tuple[str, str]:
    """The stored question and the asked one, with one form of each acronym and synonym."""
    forms = turn.context.forms
    return forms.one_writing(passage.question), forms.one_writing(turn.asked.text)


def _contradicts(other: Passage, chosen: Passage) -> bool:
    """Whether another document answers the same question otherwise; never where a validated answer is chosen."""
    return (
        not chosen.is_faq
        and normalised_question(other.question) == normalised_question(chosen.question)
        and not same_writing(other.content, chosen.content)
    )


def _place(passage: Passage) -> str:
    where = passage.place(between=" › ")
    return f"{passage.question} ({where})" if where else passage.question


#: Options are among so many first passages, so that there are no more of them either.
FIRST_PASSAGES = 3
#: How far below the threshold of direct answers the first option may score, and the others below the first.
OPTIONS_BAND, OPTIONS_MARGIN = 0.0, 0.1
#: What a question may leave open: « adulte », « en 2024 ».
_OPEN_KINDS = frozenset(("scope", "number", "date", "unit", "name"))
CLARIFICATION_INTRO = gettext_noop("Votre question peut se comprendre de plusieurs façons. Vouliez-vous dire :")
#: Stands above the questions that a refusal offers (`chat.turn.guard_rail`).
REFUSAL_OFFER = gettext_noop("Vous pouvez me demander :")
#: Not the signs that only part sentences.
_WORDS_AND_SIGNS = re.compile(r"\w+|[^\w\s.,;:!?…'’\"«»()*_]")
_NONE_OF_THESE = frozenset(each.replace("_", " ") for each in word_class("none_of_these"))
_NONE = gettext_noop("Aucune : chercher dans les documents")


def options_for(
    asked: str, found: SearchResult, *, thresholds: Thresholds, band: float, margin: float
) -> list[Passage]:
    """Two or three stored questions with different answers, best first; or none. Bounds are inclusive."""
    first = [hit.chunk_key for hit in found.passages(FIRST_PASSAGES)]
    if thresholds.direct_answer is None or not first:
        return []
    options: list[Passage] = []
    for hit in found.direct_candidates(thresholds.direct_answer - band):
        if hit.chunk_key not in first or not thresholds.lets_in(hit):
            continue
        if options and hit.score < options[0].score - margin:
            continue
        if not any(_are_twins(hit, other) for other in options) and _may_be_meant(hit.question, asked):
            options.append(hit)
    has_the_first = any(option.chunk_key == first[0] for option in options)
    return options if has_the_first and len(options) > 1 else []


def _are_twins(one: Passage, other: Passage) -> bool:
    """Whether the answer or the question is the same: « Quels sont les horaires ? » may stand under each place."""
    return _bare(one.content) == _bare(other.content) or ask_the_same(one.question, other.question)


def _bare(text: str) -> str:
    """The text's words and signs, without punctuation: « ≥ 18 ans » and « ≤ 18 ans » stay two answers."""
    return " ".join(_WORDS_AND_SIGNS.findall(fold(text)))


def _may_be_meant(stored: str, asked: str) -> bool:
    """Whether both are in one language and differ by ordinary words, or by a detail that the asked one omits."""
    languages = {language_of(stored), language_of(asked)} - {""}
    return len(languages) < 2 and all(
        each.kind == "content" or (each.kind in _OPEN_KINDS and not each.asked)
        for each in compare_questions(stored, asked).disagreements
    )


async def ask_which(turn: TurnInProgress) -> bool:
    """Offer similar stored questions beside the passages, as text and as marked sources (pages: buttons)."""
    options = _options(turn)
    if not options:
        return False
    turn.answer.source, turn.answer.score = AnswerSource.CLARIFICATION, options[0].score
    quoted, further = _shown(turn, options)
    await turn.show(number_sources([*quoted, *further], options))
    await turn.say(f"{_asking(options)}\n\n{quoted_text(quoted, turn.asked.text)}")
    return True


def _shown(turn: TurnInProgress, options: Sequence[Passage]) -> tuple[list[Passage], list[Passage]]:
    """The passages quoted without a model, each replaced by the option of the same chunk, and the remaining options."""
    left = list(options)
    quoted = []
    for passage in turn.found.in_domain(turn.thresholds).passages(EXTRACTIVE_PASSAGES):
        own = next((each for each in left if each.chunk_key == passage.chunk_key), None)
        if own is not None:
            left.remove(own)
        quoted.append(own or passage)
    return quoted, left


def _options(turn: TurnInProgress) -> list[Passage]:
    """The stored questions to offer, once; none for a follow-up that was not resolved."""
    config, asked, thresholds = turn.config, turn.asked, turn.thresholds
    threshold = thresholds.direct_answer
    if not config.clarification or threshold is None or asked.is_follow_up:
        return []
    last = turn.history[-1] if turn.history else None
    if last is not None and last.question == asked.question and _is_asking(last.answer):
        turn.trace.step("clarification", "asked_before")
        return []
    options = options_for(asked.text, turn.found, thresholds=thresholds, band=OPTIONS_BAND, margin=OPTIONS_MARGIN)
    turn.trace.step(
        "clarification",
        "asked" if options else "not_ambiguous",
        score=options[0].score if options else None,
        threshold=round(threshold - OPTIONS_BAND, 4),
        detail="\n".join(option.question for option in options),
    )
    return options


def _asking(options: Sequence[Passage]) -> str:
    choices = [f"- {_one_line(each.question)}" for each in options]
    return "\n".join([_(CLARIFICATION_INTRO), "", *choices, f"- {_(_NONE)}"])


def was_offered(question: str, history: Sequence[Exchange]) -> bool:
    """Whether the question is one of those that the last answer (a clarification or a refusal) offered."""
    line = f"- {_one_line(question)}"
    if not history or line not in history[-1].answer:
        return False
    lines = history[-1].answer.split("\n")
    return line in lines and (
        _is_asking(lines[0]) or not _in_each_language(REFUSAL_OFFER).isdisjoint(lines[: lines.index(line)])
    )


def none_was_meant(question: str, history: Sequence[Exchange]) -> bool:
    """Whether the message declines every option of the last answer, by the button or in a word or two."""
    if not history or not _is_asking(history[-1].answer):
        return False
    said = _bare(question)
    return said in _NONE_OF_THESE or said in map(_bare, _in_each_language(_NONE))


def _is_asking(answer: str) -> bool:
    return answer.partition("\n")[0] in _in_each_language(CLARIFICATION_INTRO)


def _in_each_language(text: str) -> set[str]:
    """The text in every language, because an earlier answer may be in another language than this turn's."""
    texts = set()
    for language in LANGUAGES:
        with override(language):
            texts.add(_(text))
    return texts


def _one_line(question: str) -> str:
    return " ".join(question.split())
