"""The step that reads a question as it was typed, before anything is looked up (`knowledge.language.typed`).

What was typed is what is stored and shown; how it was read stands in the trace.
"""

from agents.database import in_database, in_thread
from chat.turn.clarification import none_was_meant
from chat.turn.values import TurnInProgress
from knowledge.language.spelling import Vocabulary
from knowledge.language.typed import TypedQuestion, read_typed
from knowledge.language.words import fold, words
from knowledge.search import is_vocabulary_known, vocabulary_of
from knowledge.vectors.base import collection_alias, vector_store

#: So many words in capitals, read without, are told; fewer are a greeting, or an emphasis.
_SHOUTING = 2


async def read_question(turn: TurnInProgress) -> None:
    """Fill `turn.read`, with the words of the agents that may answer; who declines an offer asks the question before
    again.
    """
    typed = turn.request.question
    if none_was_meant(typed, turn.history):
        typed = turn.history[-1].question
    if turn.request.as_typed:
        turn.read = TypedQuestion(typed, typed)
        turn.trace.step("reading", "as_typed")
        return
    read = turn.read = read_typed(typed, await _vocabulary(turn))
    outcome = "as_typed" if read.is_as_typed else "read"
    detail = "" if read.is_as_typed else "\n".join((read.text, *read.others))
    turn.trace.step("reading", outcome, detail=detail)
    told = [each for each in (*read.others[:1], read.text) if is_otherwise(each, typed)]
    if told:
        turn.trace.shows(told[0])


def is_otherwise(read: str, typed: str) -> bool:
    """Whether a reading has other words, or the same without their shouting: to leave out a greeting is not worth a
    word.
    """
    ours, theirs = (" ".join(words(fold(text))) for text in (read, typed))
    shouted = [word for word in typed.split() if len(word) > 1 and word.isupper()]
    calmed = sum(word not in read.split() for word in shouted)
    return f" {ours} " not in f" {theirs} " or calmed >= _SHOUTING


async def _vocabulary(turn: TurnInProgress) -> Vocabulary:
    agents = turn.config.of_each_agent
    names = [collection_alias(each.agent_slug, each.indexing_method) for each in agents]
    if is_vocabulary_known(names):
        return vocabulary_of(names)
    bridge = in_database if vector_store().uses_database else in_thread
    return await bridge(vocabulary_of, names)
