"""An answer that was given becomes a validated one: what staff start from, and what is kept of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from django.contrib.auth.models import AbstractBaseUser
from django.utils.translation import gettext_lazy as _

from agents.models import Agent
from chat.exceptions import ChatError
from chat.models import AnswerSource, Message, Turn, TurnStatus
from chat.thread.reading import exchange_of
from faqs.answers.texts import cited_sources, without_citations
from faqs.answers.writing import learn_from_message
from faqs.models import LearnedResponse


class NothingToCorrectError(ChatError):
    """The turn has no answer that may be kept."""

    code = "nothing_to_correct"
    status = 409
    default_message = _("Cet échange n’a pas de réponse à valider.")
    #: Its reader was told so (`chat.doors.page.strings`).
    temporary = _("Rien d’une conversation temporaire n’est réutilisé.")


@dataclass(frozen=True, slots=True)
class Correction:
    """The answer of a turn, with the question and the text that staff start from."""

    turn: Turn
    given: str
    question: str
    answer: str
    #: The validated answer that was made of it before.
    known: LearnedResponse | None
    #: The numbered sources of the answer.
    sources: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, turn: Turn) -> Self:
        """Raises `NothingToCorrectError`."""
        if turn.conversation.is_temporary:
            raise NothingToCorrectError(public_message=NothingToCorrectError.temporary)
        asked, answered = exchange_of(turn)
        if turn.status != TurnStatus.DONE or answered is None or not answered.content:
            raise NothingToCorrectError
        known = LearnedResponse.objects.filter(
            agent=agent_that_answered(turn), source_message=turn.pk
        ).first()
        if known is not None:
            return cls(
                turn, answered.content, known.question, known.answer, known, answered.sources
            )
        question = asked.content if asked else ""
        text = _first_text(turn, answered)
        return cls(turn, answered.content, question, text, None, answered.sources)

    @property
    def agent(self) -> Agent:
        return agent_that_answered(self.turn)

    def keep(
        self, *, question: str, answer: str, owner: AbstractBaseUser | None
    ) -> LearnedResponse:
        return learn_from_message(
            agent=self.agent,
            message_uuid=self.turn.pk,
            question=question,
            answer=answer.strip() or self.given,
            sources=cited_sources(self.given, self.sources),
            owner=owner,
        )


def agent_that_answered(turn: Turn) -> Agent:
    """Of several agents the one that was chosen: the same question goes to it again."""
    deployment = turn.conversation.deployment
    offered = Agent.objects.filter(specialties__deployment=deployment, name=turn.answered_by)
    return (offered.first() if turn.answered_by else None) or deployment.agent


def _first_text(turn: Turn, answered: Message) -> str:
    """The answer, or the first passage where passages were only quoted."""
    quoted = answered.sources[:1] if turn.answer_source == AnswerSource.EXTRACTIVE else []
    text = str(quoted[0].get("text") or "") if quoted else ""
    return text or without_citations(answered.content)
