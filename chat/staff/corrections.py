"""Turns a given answer into a validated one: the draft for staff, and what is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q
from django.utils.translation import gettext, override
from django.utils.translation import gettext_lazy as _

from agents.effective import default_guard_rail_message, effective_config
from agents.errors import ApplicationError
from agents.models import Agent
from chat.errors import ChatError
from chat.models import NO_ANSWER, AnswerSource, Feedback, Turn, TurnStatus
from chat.staff.simulator import Simulated, ask_again
from chat.thread.messages import exchange_of
from chat.thread.verdicts import settle_verdicts
from chat.turn.prompt import number_sources
from chat.turn.quoting import QUOTES_INTRO
from chat.turn.stored_answers import CLARIFICATION_INTRO
from faqs.answers import AnswerRejectedError, cited_sources, learn_from_message, without_citations
from faqs.models import LearnedResponse, UnansweredQuestion
from faqs.second_key.same_question import ask_the_same
from faqs.unanswered import close_questions
from knowledge.language.words import fold, words
from knowledge.models import Chunk
from knowledge.search import search_as
from knowledge.synonyms import forms_of

#: Passages looked up for an answer that stood on none.
_PASSAGES = 5


class NothingToCorrectError(ChatError):
    """The turn has no answer that may be kept."""

    code = "nothing_to_correct"
    status = 409
    default_message = _("Cet échange n’a pas de réponse à valider.")


@dataclass(frozen=True, slots=True)
class Correction:
    """The answer of a turn, with the question and the text that staff start from."""

    turn: Turn
    given: str
    question: str
    answer: str
    #: The validated answer that was made of it before, while it stands: one that was replaced is no start.
    known: LearnedResponse | None
    #: The numbered sources of the answer, with the texts that their passages have now.
    sources: Sequence[Mapping[str, Any]] = ()
    #: The words of the reader.
    asked: str = ""

    @classmethod
    def of(cls, turn: Turn) -> Self:
        """Raises `NothingToCorrectError`."""
        asked, answered = exchange_of(turn)
        if turn.status != TurnStatus.DONE or answered is None or not answered.content:
            raise NothingToCorrectError
        made = LearnedResponse.objects.valid().filter(source_message=turn.pk)
        known = made.filter(agent=agent_that_answered(turn)).first()
        own = asked.content if asked else ""
        question = known.question if known else own
        sources = _as_they_read(answered.sources)
        text = known.answer if known else _first_text(turn, answered.content, _as_they_read(answered.sources[:1]))
        return cls(turn, answered.content, question, text, known, sources, own)

    @property
    def agent(self) -> Agent:
        return agent_that_answered(self.turn)

    def keep(
        self, *, question: str, answer: str, owner: AbstractBaseUser | None, taken: Mapping[str, Any] | None = None
    ) -> LearnedResponse:
        """Keep it as a validated answer, with the passage it was `taken` from. Raises `AnswerRejectedError`."""
        said = words(fold(answer))
        if any(said[: len(each)] == each for each in self._texts_without_answer()):
            raise AnswerRejectedError(
                gettext("Ce texte dit que rien n’a été trouvé : écrivez la réponse à la question.")
            )
        sources = cited_sources(self.given, self.sources) if taken is None else [taken]
        key, agent = self.turn.pk, self.agent
        return learn_from_message(
            agent=agent, message_uuid=key, question=question, answer=answer, sources=sources, owner=owner
        )

    def _texts_without_answer(self) -> list[list[str]]:
        """The words with which what the product writes in the place of an answer begins, in every language."""
        texts = {without_citations(self.given)} if self.turn.answer_source in NO_ANSWER else set()
        for language, _name in settings.LANGUAGES:
            with override(language):
                config = effective_config(self.turn.conversation.deployment)
                own = default_guard_rail_message("\0").partition("\0")[0]
                texts |= {config.guard_rail_message, own, gettext(QUOTES_INTRO), gettext(CLARIFICATION_INTRO)}
        return [found for text in texts if (found := words(fold(text)))]

    def passages(self) -> list[dict[str, Any]]:
        """What the answer stood on, else what is found for its question now; numbered."""
        if self.sources:
            return [dict(source) for source in self.sources]
        config = effective_config(self.turn.conversation.deployment)
        try:
            found = search_as(config, self.question, limit=_PASSAGES)
        except ApplicationError:
            return []
        return [source.as_json() for source in number_sources(found.passages(_PASSAGES))]


def prove(turn: Turn, row: LearnedResponse) -> tuple[Simulated, bool]:
    """Ask the reader's question again, in its standalone form, as a dry run: what it is given, and whether it is `row`."""
    own, _answered = exchange_of(turn)
    given = ask_again(turn.conversation, row.question if own is None or turn.is_follow_up else own.content)
    return given, given.learned_id == row.pk


def close_what_it_answers(turn: Turn, row: LearnedResponse, owner: AbstractBaseUser | None) -> None:
    """Close the turn's report and unanswered question, and questions of its group that ask the same."""
    own = UnansweredQuestion.objects.filter(source_turn=turn.pk)
    related = UnansweredQuestion.objects.filter(Q(pk__in=own) | Q(group__in=own.values("group")), answered_by=None)
    forms, phrasings = forms_of([row.agent_id]), [text for _point, text in row.points()]
    answered = [
        each
        for each in related
        if each.source_turn == turn.pk or any(ask_the_same(text, each.question, forms) for text in phrasings)
    ]
    reports = Feedback.objects.open().filter(turn__in={turn.pk, *(each.source_turn for each in answered)})
    settle_verdicts(reports, row.pk, owner)
    close_questions([each.pk for each in answered], row)


def agent_that_answered(turn: Turn) -> Agent:
    """The agent that answered the turn, to which the same question goes again."""
    deployment = turn.conversation.deployment
    offered = Agent.objects.filter(specialties__deployment=deployment, name=turn.answered_by)
    return (offered.first() if turn.answered_by else None) or deployment.agent


def _as_they_read(sources: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The sources of an answer: an edited passage with its text of now, and none that was replaced or switched off."""
    known = [source for source in sources if isinstance(source, Mapping)]
    chunks = Chunk.objects.served().in_bulk([source["chunk_id"] for source in known if source.get("chunk_id")])
    return [
        {**source, "text": chunks[source["chunk_id"]].content}
        if source.get("chunk_id") and source.get("type") == "source_material"
        else source
        for source in known
        if not source.get("chunk_id") or source["chunk_id"] in chunks
    ]


def _first_text(turn: Turn, given: str, sources: Sequence[Mapping[str, Any]]) -> str:
    """The answer, or the first passage where passages were only quoted; nothing where there was no answer."""
    if turn.answer_source in NO_ANSWER:
        return ""
    if turn.answer_source == AnswerSource.EXTRACTIVE:
        return str(sources[0].get("text") or "") if sources else ""
    return without_citations(given)
