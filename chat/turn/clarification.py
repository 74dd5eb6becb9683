"""The ambiguous band: two different curated answers lie close to each other, and neither may be given alone. Ask which
was meant.

The offer stands beside the passages, never in their place. Offered is a stored question in the band under the threshold
of direct answers that the second key refuses for ordinary words, or for a precision that the asked one leaves open, in
the language of the question and close to the first passage (`benchmarks/clarification`). Choosing sends it as a message
of its own (`was_offered`); choosing none asks the same question again (`none_was_meant`).
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, override

from chat.models import AnswerSource
from chat.protocol import Source
from chat.turn.prompt import number_sources
from chat.turn.quoting import EXTRACTIVE_PASSAGES, quoted_text
from chat.turn.values import Exchange, TurnInProgress
from faqs.second_key.same_question import ask_the_same, compare_questions
from knowledge.language.words import LANGUAGES, fold, language_of, word_class
from knowledge.search import Passage, SearchResult, Thresholds

#: Options are among so many first passages, so that there are no more of them either.
FIRST_PASSAGES = 3
#: How far behind the first passage an option may lie, of the distance to the last hit, or to the guard rail where that
#: is farther (`benchmarks/clarification`).
BEHIND_THE_FIRST = 0.25
#: What a question may leave open: « adulte », « en 2024 ».
_OPEN_KINDS = frozenset(("scope", "number", "date", "unit", "name"))
CLARIFICATION_INTRO = gettext_noop("Votre question peut se comprendre de plusieurs façons. Vouliez-vous dire :")
#: Stands above the questions that a refusal offers (`chat.turn.generation`).
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
    least = _least_relevance(found, thresholds)
    options: list[Passage] = []
    for hit in found.direct_candidates(thresholds.direct_answer - band):
        if hit.chunk_key not in first or hit.relevance < least or not thresholds.lets_in(hit):
            continue
        if options and hit.score < options[0].score - margin:
            continue
        if not any(_are_twins(hit, other) for other in options) and _may_be_meant(hit.question, asked):
            options.append(hit)
    has_the_first = any(option.chunk_key == first[0] for option in options)
    return options if has_the_first and len(options) > 1 else []


def _least_relevance(found: SearchResult, thresholds: Thresholds) -> float:
    best = found.best_relevance
    floors = [hit.relevance for hit in found.hits]
    if thresholds.guard_rail_questions is not None:
        floors.append(thresholds.guard_rail_questions)
    return best - BEHIND_THE_FIRST * (best - min(floors))


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
    await turn.show(_numbered([*quoted, *further], options))
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


def _numbered(passages: Sequence[Passage], options: Sequence[Passage]) -> list[Source]:
    places = {id(option): place for place, option in enumerate(options, start=1)}
    return [
        replace(source, option=places.get(id(passage)))
        for passage, source in zip(passages, number_sources(passages), strict=True)
    ]


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
    options = options_for(
        asked.text,
        turn.found,
        thresholds=thresholds,
        band=config.clarification_band,
        margin=config.clarification_margin,
    )
    turn.trace.step(
        "clarification",
        "asked" if options else "not_ambiguous",
        score=options[0].score if options else None,
        threshold=round(threshold - config.clarification_band, 4),
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
    return line in lines and (_is_asking(lines[0]) or _is_announced(lines[: lines.index(line)]))


def none_was_meant(question: str, history: Sequence[Exchange]) -> bool:
    """Whether the message declines every option of the last answer, by the button or in a word or two."""
    if not history or not _is_asking(history[-1].answer):
        return False
    said = _bare(question)
    return said in _NONE_OF_THESE or said in map(_bare, _in_each_language(_NONE))


def _is_asking(answer: str) -> bool:
    return answer.partition("\n")[0] in _in_each_language(CLARIFICATION_INTRO)


def _is_announced(lines: Sequence[str]) -> bool:
    return not _in_each_language(REFUSAL_OFFER).isdisjoint(lines)


def _in_each_language(text: str) -> set[str]:
    """The text in every language, because an earlier answer may be in another language than this turn's."""
    texts = set()
    for language in LANGUAGES:
        with override(language):
            texts.add(_(text))
    return texts


def _one_line(question: str) -> str:
    return " ".join(question.split())
