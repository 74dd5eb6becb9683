"""The ambiguous band: two different curated answers lie close to each other, and neither may be given. Ask which was meant.

What may be offered is a stored question no further under the threshold of direct answers than the band, that the second key
refuses for ordinary words, or for a precision that the asked one leaves open: "How much is the card?" may mean the adult's
card, but a question about 2024 is never met with "did you mean 2023?". The best of each answer is kept; those further behind
the first than the margin are not close to it. Fewer than two, and nothing is asked.

Choosing sends the stored question as a message of its own. It is given its answer as any question in the same words is, and
is no follow-up, whatever its words: `was_offered`. What was chosen is kept for staff (`faqs.choices`), and answers nothing before
they accept it.
"""

from collections.abc import Sequence
from dataclasses import replace

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, override

from agents.models import MemoryLearning
from chat.models import AnswerSource
from chat.turn.follow_ups import follow_up_rule
from chat.turn.prompt import number_sources
from chat.turn.values import Exchange, TurnInProgress
from faqs.choices import Choice
from faqs.recall import normalised_question
from faqs.second_key.agreement import compare_questions
from knowledge.search import Passage, SearchResult

MOST_OPTIONS = 4
#: What a question may leave open: « adulte », « en 2024 ».
_OPEN_KINDS = frozenset(("scope", "number", "date", "unit", "name"))
_INTRO = gettext_noop("Votre question peut se comprendre de plusieurs façons. Vouliez-vous dire :")
_OUTRO = gettext_noop("Sinon, posez-la de nouveau : la recherche continuera.")
_LANGUAGES = ("fr", "en")


def options_for(
    asked: str, found: SearchResult, *, threshold: float, band: float, margin: float
) -> list[Passage]:
    """Two to four stored questions with different answers, best first; or none. Bounds are inclusive."""
    options: list[Passage] = []
    answers: set[str] = set()
    questions: set[str] = set()
    for hit in found.direct_candidates(threshold - band):
        text, question = " ".join(hit.content.split()), normalised_question(hit.question)
        if text in answers or (options and hit.score < options[0].score - margin):
            continue
        # The same words twice are no choice: each place of a document has its « Quels sont les horaires ? ».
        if question not in questions and _may_be_meant(hit.question, asked):
            options.append(hit)
            answers.add(text)
            questions.add(question)
        if len(options) == MOST_OPTIONS:
            break
    return options if len(options) > 1 else []


def _may_be_meant(stored: str, asked: str) -> bool:
    """Whether the stored question differs by ordinary words, or says more precisely what the asked one leaves open."""
    return all(
        each.kind == "content" or (each.kind in _OPEN_KINDS and not each.asked)
        for each in compare_questions(stored, asked).disagreements
    )


async def ask_which(turn: TurnInProgress) -> bool:
    """Offer the questions to choose from, as sources, from which pages make buttons, and as text for other readers."""
    options = _options(turn)
    if not options:
        return False
    turn.answer.source, turn.answer.score = AnswerSource.CLARIFICATION, options[0].score
    await turn.show([replace(source, text="") for source in number_sources(options)])
    await turn.say(_asking(options))
    return True


def _options(turn: TurnInProgress) -> list[Passage]:
    """What to offer for this question; never for a follow-up that was not resolved.

    Asked once: the same question again, after the choice was offered, goes on along its path.
    """
    config, asked, threshold = turn.config, turn.asked, turn.thresholds.direct_answer
    if not config.clarification or threshold is None or asked.is_follow_up:
        return []
    last = turn.history[-1] if turn.history else None
    if last is not None and last.question == asked.question and _is_asking(last.answer):
        turn.trace.step("clarification", "asked_before")
        return []
    options = options_for(
        asked.text,
        turn.found,
        threshold=threshold,
        band=config.clarification_band,
        margin=config.clarification_margin,
    )
    outcome = "shadow" if config.shadow_mode else "asked"
    turn.trace.step(
        "clarification",
        outcome if options else "not_ambiguous",
        score=options[0].score if options else None,
        threshold=round(threshold - config.clarification_band, 4),
        detail="\n".join(option.question for option in options),
    )
    return [] if config.shadow_mode else options


def _asking(options: Sequence[Passage]) -> str:
    choices = [f"- {_one_line(each.question)}" for each in options]
    return "\n".join([_(_INTRO), "", *choices, "", _(_OUTRO)])


def was_offered(question: str, history: Sequence[Exchange]) -> bool:
    """Whether this is one of the questions that the last answer offered."""
    line = f"- {_one_line(question)}"
    if not history or line not in history[-1].answer:
        return False
    return _is_asking(history[-1].answer) and line in history[-1].answer.split("\n")


def choice_made(turn: TurnInProgress, option: Passage) -> Choice | None:
    """What picking this option says of the question before it; `None` where it was not offered, or says nothing.

    Called once the option has its answer. A question that leaned on another one is no question by itself.
    """
    question, history = turn.asked.question, turn.history
    is_off = turn.config.memory_learning == MemoryLearning.OFF
    if is_off or not was_offered(question, history):
        return None
    is_picked = normalised_question(question) == normalised_question(option.question)
    before = history[-1].question
    if not is_picked or follow_up_rule(before):
        return None
    return Choice(
        deployment_id=turn.config.deployment_id,
        question=before,
        option=option.question,
        answer=turn.answer.text,
        sources=turn.answer.sources,
        language=turn.request.language,
        learned_id=option.learned_id,
        chunk_id=None if option.learned_id is not None else option.chunk_id,
    )


def _is_asking(answer: str) -> bool:
    return answer.partition("\n")[0] in _intros()


def _intros() -> set[str]:
    """In every language of the site: a conversation may have been answered in another than this turn's."""
    texts = set()
    for language in _LANGUAGES:
        with override(language):
            texts.add(_(_INTRO))
    return texts


def _one_line(question: str) -> str:
    return " ".join(question.split())
