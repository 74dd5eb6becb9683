"""What to ask next, without a model: stored questions near one that was answered, each sure of its answer.

They come from the indexes of the deployment's agents and from the answer's own passages. Each is put to the path itself
in its conversation, dry and without a model: what is withdrawn, disputed, or of another desk answers nothing there, and
is not offered.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from agents.database import in_database
from agents.effective import EffectiveConfig, effective_config
from chat.models import AnswerSource, Message, Role, Turn, TurnStatus
from chat.protocol import Event
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest
from faqs.answers import without_citations
from faqs.recall import normalised_question
from faqs.second_key.agreement import ask_the_same
from knowledge.embeddings.base import embedder
from knowledge.language.words import language_of
from knowledge.models import Chunk
from knowledge.search import Passage, search_as, thresholds_for

MOST = 3
#: Two lines of a button on a phone.
MOST_CHARACTERS = 100
#: Passages that are looked at of each agent, and questions that are put to the path.
_PASSAGES, _TRIED = 20, 6
_STORED = (AnswerSource.DIRECT_QA, AnswerSource.MEMORY_GUARD)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A turn that ended: what was asked and said, and the questions near it, the nearest first."""

    answer: str
    request: TurnRequest
    near: list[str]


async def suggest_next(turn: Turn) -> list[str]:
    """At most `MOST` questions in the language of the turn's own; none where its answer offers some itself."""
    asked = await in_database(_asked, turn)
    if asked is None:
        return []
    found: dict[str, str] = {}
    for question in asked.near[:_TRIED]:
        result = await run_turn(_instead(asked.request, question), _ignore)
        text = without_citations(result.answer.text)
        is_sure = result.status is TurnStatus.DONE and result.answer.source in _STORED
        if is_sure and text not in (asked.answer, *found.values()):
            found[question] = text
        if len(found) == MOST:
            break
    return list(found)


def _instead(request: TurnRequest, question: str) -> TurnRequest:
    return TurnRequest(
        deployment_id=request.deployment_id,
        question=question,
        language=request.language,
        conversation_id=request.conversation_id,
        user_id=request.user_id,
        phase=request.phase,
        project=request.project,
        without_model=True,
    )


def _asked(turn: Turn) -> _Asked | None:
    said = {message.role: message for message in turn.messages.filter(tool_calls=[])}
    question, answer = said.get(Role.USER), said.get(Role.ASSISTANT)
    if turn.status != TurnStatus.DONE or question is None or answer is None:
        return None
    if turn.answer_source == AnswerSource.CLARIFICATION or _offers_some(turn, answer.content):
        return None
    request = TurnRequest.of(turn.conversation, question.content, turn.language)
    return _Asked(without_citations(answer.content), request, list(_near(turn, question.content, answer)))


def _offers_some(turn: Turn, text: str) -> bool:
    lines = text.splitlines()
    is_refusal = turn.answer_source == AnswerSource.GUARD_RAIL
    return is_refusal and any(each.startswith("- ") and each.endswith("?") for each in lines)


def _near(turn: Turn, question: str, answer: Message) -> Iterator[str]:
    language = language_of(question) or turn.language
    asked = Message.objects.filter(conversation=turn.conversation, role=Role.USER)
    seen = {normalised_question(text) for text in asked.values_list("content", flat=True)}
    for each in _stored(turn, question, answer):
        key = normalised_question(each)
        is_new = key not in seen and not ask_the_same(each, question)
        seen.add(key)
        if is_new and len(each) <= MOST_CHARACTERS and language_of(each) == language:
            yield each


def _stored(turn: Turn, question: str, answer: Message) -> Iterator[str]:
    configs = effective_config(turn.conversation.deployment).of_each_agent
    hits = [hit for each in configs for hit in _found(turn, each, question)]
    near = sorted(hits, key=lambda hit: hit.score, reverse=True)
    yield from (hit.question for hit in near if hit.question and not hit.is_courtesy)
    given = [source["chunk_id"] for source in answer.sources if source.get("chunk_id")]
    agents = [each.agent_id for each in configs]
    chunks = Chunk.objects.served().filter(pk__in=given, document__agent__in=agents)
    for units in chunks.values_list("knowledge_units", flat=True):
        yield from (unit["question"] for unit in units)


def _found(turn: Turn, config: EffectiveConfig, question: str) -> tuple[Passage, ...]:
    """After a refusal whatever is nearest: nothing is near enough there."""
    found = search_as(config, question, limit=_PASSAGES)
    if turn.answer_source == AnswerSource.GUARD_RAIL:
        return found.hits
    return found.in_domain(thresholds_for(config, model=embedder().recipe.model)).hits


async def _ignore(event: Event) -> None:
    """Nobody follows a try."""
