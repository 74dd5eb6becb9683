"""The step that reads a question as it was typed, before anything is looked up (`knowledge.language.typed`).

What was typed is what is stored and shown; how it was read stands in the trace.
"""

from agents.database import in_database, in_thread
from chat.turn.clarification import none_was_meant
from chat.turn.values import TurnInProgress
from knowledge.language.typed.question import read_typed
from knowledge.language.typed.vocabulary import Vocabulary
from knowledge.vectors.base import collection_alias, vector_store
from knowledge.vocabularies import is_vocabulary_known, vocabulary_of


async def read_question(turn: TurnInProgress) -> None:
    """Fill `turn.read`, with the words of the agents that may answer; who declines an offer asks the question before again."""
    typed = turn.request.question
    if none_was_meant(typed, turn.history):
        typed = turn.history[-1].question
    read = turn.read = read_typed(typed, await _vocabulary(turn))
    outcome = "as_typed" if read.is_as_typed else "read"
    detail = "" if read.is_as_typed else "\n".join((read.text, *read.others))
    turn.trace.step("reading", outcome, detail=detail)


async def _vocabulary(turn: TurnInProgress) -> Vocabulary:
    agents = turn.config.of_each_agent
    names = [collection_alias(each.agent_slug, each.indexing_method) for each in agents]
    if is_vocabulary_known(names):
        return vocabulary_of(names)
    bridge = in_database if vector_store().uses_database else in_thread
    return await bridge(vocabulary_of, names)
