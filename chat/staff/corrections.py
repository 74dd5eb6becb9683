"""An answer that was given becomes a validated one: what staff start from, and what is kept of it."""

from dataclasses import dataclass
from typing import Self

from django.contrib.auth.models import AbstractBaseUser
from django.utils.translation import gettext_lazy as _

from agents.models import Agent
from chat.exceptions import ChatError
from chat.models import AnswerSource, Message, Turn, TurnStatus
from chat.thread.reading import exchange_of
from faqs.learning import learn_from_message, without_citations
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

    @classmethod
    def of(cls, turn: Turn) -> Self:
        """Raises `NothingToCorrectError`."""
        if turn.conversation.is_temporary:
            raise NothingToCorrectError(public_message=NothingToCorrectError.temporary)
        asked, answered = exchange_of(turn)
        if turn.status != TurnStatus.DONE or answered is None or not answered.content:
            raise NothingToCorrectError
        agent = turn.conversation.deployment.agent
        known = LearnedResponse.objects.filter(agent=agent, source_message=turn.pk).first()
        if known is not None:
            return cls(turn, answered.content, known.question, known.answer, known)
        question = asked.content if asked else ""
        return cls(turn, answered.content, question, _first_text(turn, answered), None)

    @property
    def agent(self) -> Agent:
        return self.turn.conversation.deployment.agent

    def keep(
        self, *, question: str, answer: str, owner: AbstractBaseUser | None
    ) -> LearnedResponse:
        return learn_from_message(
            agent=self.agent,
            message_uuid=self.turn.pk,
            question=question,
            answer=self.given,
            corrected_answer=answer,
            owner=owner,
        )


def _first_text(turn: Turn, answered: Message) -> str:
    """The answer, or the first passage where passages were only quoted."""
    quoted = answered.sources[:1] if turn.answer_source == AnswerSource.EXTRACTIVE else []
    text = str(quoted[0].get("text") or "") if quoted else ""
    return text or without_citations(answered.content)
