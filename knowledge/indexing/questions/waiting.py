"""Which passages wait for questions of the model, and in which order they are worth it.

First what people's answers were taken from lately, then the beginning of each document before its end. Other apps say
how often a passage was used (`register_usage_source`, in their `AppConfig.ready()`).
"""

from collections import Counter
from collections.abc import Callable, Collection

from agents.effective import agent_setting
from agents.hooks import Hooks
from agents.llm.base import LanguageModel, language_model
from agents.models import Agent
from knowledge.indexing.questions.generation import PROMPT_VERSION
from knowledge.models import Chunk, DocumentStatus

#: How often each passage, by the key of its chunk, was shown as a source lately.
UsageSource = Callable[[], Counter[int]]

_sources: Hooks[UsageSource] = Hooks()
#: Says which passages people were answered from.
register_usage_source = _sources.register


def questions_model(agent: Agent) -> LanguageModel | None:
    """The model that writes this agent's questions; `None` where there is none, or staff want none."""
    return language_model() if agent_setting(agent, "generate_questions") else None


def waiting_passages(
    agent: Agent, model: LanguageModel, document_ids: Collection[int] | None = None
) -> list[tuple[int, int]]:
    """The chunks of indexed documents (all of the agent's, if none are named) that the model was not asked about as
    they are now, each with its document; the most useful first.
    """
    rows = Chunk.objects.served().waiting().filter(document__agent=agent)
    rows = rows.filter(document__status=DocumentStatus.INDEXED)
    if document_ids is not None:
        rows = rows.filter(document_id__in=document_ids)
    used = _usage()
    found = []
    columns = ("pk", "document_id", "index", "asked_with", "content_hash", "rejected_units")
    for pk, document_id, index, asked, content_hash, rejected in rows.values_list(*columns):
        if asked != signature(model, content_hash):
            # What could not be read last time waits for those that were never asked about.
            failed_before = bool(rejected) and not asked
            rank = (failed_before, -used[pk], index, document_id)
            found.append((rank, (pk, document_id)))
    return [passage for _rank, passage in sorted(found)]


def signature(model: LanguageModel, content_hash: str) -> str:
    """What a passage was asked with: another model, prompt or text asks again."""
    return f"{model.default_model[:200]}:{PROMPT_VERSION}:{content_hash}"


def _usage() -> Counter[int]:
    return sum((source() for source in _sources), Counter[int]())


def waiting_count(agent: Agent, document_ids: Collection[int] | None = None) -> int | None:
    """How many passages the model would be asked about; `None` where no model is asked."""
    model = questions_model(agent)
    return None if model is None else len(waiting_passages(agent, model, document_ids))
