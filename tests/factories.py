"""Builders: plain functions that make valid rows, with what a test cares about named at the call."""

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.utils import timezone

from agents.effective import EffectiveConfig, effective_config
from agents.llm.base import RequestedCall
from agents.models import Agent, Deployment, IndexingMethod
from agents.settings import KNOBS
from chat.models import ApiKey, Conversation, Message, Role, Turn, TurnStatus
from chat.thread.messages import tool_message
from chat.thread.turns import ClaimedTurn, save_exchange
from chat.turn.values import Answer, TurnResult
from faqs.answer_points import sync_learned
from faqs.answers import save_learned
from faqs.learning import Lesson
from faqs.memory import PHASE, current_audience, new_entry, write_entry
from faqs.models import CachedResponse, EntryStatus, LearnedResponse
from faqs.origins import origins_of
from faqs.recall import Lookup, Recall, recall_cached, stored_mark
from knowledge.embeddings.base import Purpose, embedder
from knowledge.indexing.path import index_documents, store_document
from knowledge.models import Chunk, Document, Synonym, SynonymState, ThresholdCalibration
from knowledge.search import SearchResult, search
from knowledge.synonyms import keys_of
from knowledge.vectors.base import Query, collection_alias
from knowledge.vectors.payloads import Passage, PointType
from tests.waiting import PATIENCE_SECONDS
from tools_registry.models import SourceKind, ToolSource
from tools_registry.tool import ToolSpec, registry

Row = TypeVar("Row", bound=Model)
#: Thresholds that suit the hashing embedder of the tests, which has no measured profile.
TEST_THRESHOLDS = {"direct_answer_threshold": 0.7, "guard_rail_threshold": 0.2}

FAQ_TEXT = """# Bibliothèque municipale

## Quels sont les horaires d'ouverture de la bibliothèque ?

La bibliothèque est ouverte du mardi au samedi, de 10 heures à 18 heures.

## Combien coûte la carte de lecteur ?

La carte de lecteur coûte 12 euros par an ; elle est gratuite avant 18 ans.

## Règlement intérieur

Les livres empruntés sont rendus sous trois semaines. Un retard bloque tout nouvel emprunt
jusqu'au retour des documents. Les salles de travail se réservent à l'accueil.
"""


def fresh(row: Row) -> Row:
    """The row as it is stored now."""
    row.refresh_from_db()
    return row


def make_user(**overrides: Any) -> User:
    defaults: dict[str, Any] = {"username": f"user-{uuid.uuid4().hex[:8]}"}
    user: User = get_user_model().objects.create_user(**{**defaults, **overrides})
    return user


def make_agent(**overrides: Any) -> Agent:
    slug = overrides.pop("slug", f"agent-{uuid.uuid4().hex[:8]}")
    settings = {name: overrides.pop(name) for name in [*overrides] if name in KNOBS}
    values = {name: value for name, value in {**TEST_THRESHOLDS, **settings}.items() if value is not None}
    return Agent.objects.create(slug=slug, **{"name": slug, "settings": values, **overrides})


def set_settings(agents: "QuerySet[Agent] | None" = None, /, **settings: Any) -> None:
    """What these agents (all, without any) set themselves; `None` inherits."""
    for agent in Agent.objects.all() if agents is None else agents:
        merged = {**agent.settings, **settings}
        Agent.objects.filter(pk=agent.pk).update(
            settings={name: value for name, value in merged.items() if value is not None}
        )


def make_deployment(agent: Agent | None = None, **overrides: Any) -> Deployment:
    agent = agent or make_agent()
    return Deployment.objects.create(**{"slug": agent.slug, "name": agent.name, "agent": agent, **overrides})


def make_config(deployment: Deployment | None = None) -> EffectiveConfig:
    return effective_config(deployment or make_deployment())


def add_document(agent: Agent, *, name: str = "faq.md", text: str = FAQ_TEXT) -> Document:
    """Store a document and index it, as `add_documents` does."""
    document = store_document(agent=agent, name=name, data=text.encode()).document
    index_documents(agent=agent, documents=[document])
    document.refresh_from_db()
    return document


def search_index(agent: Agent, question: str, *, categories: Sequence[str] = ()) -> SearchResult:
    """What an agent's index finds by the question's vector, before the database confirms it."""
    model = embedder()
    query = Query(model.embed_one(question, purpose=Purpose.QUERY), model.recipe)
    return search(collection_alias(agent.slug, IndexingMethod.QA_ATOMIC), query, limit=5, categories=categories)


def make_library(**overrides: Any) -> Deployment:
    """A deployment whose agent knows the little library."""
    deployment = make_deployment(make_agent(), **overrides)
    add_document(deployment.agent)
    return deployment


def make_conversation(deployment: Deployment | None = None, **overrides: Any) -> Conversation:
    return Conversation.objects.create(deployment=deployment or make_deployment(), **overrides)


def make_api_key(*deployments: Deployment, **overrides: Any) -> str:
    """A key for these deployments; returns its secret."""
    key = ApiKey(**{"name": f"key-{uuid.uuid4().hex[:8]}", **overrides})
    secret = key.draw_secret()
    key.save()
    key.deployments.set(deployments)
    return secret


def make_turn(conversation: Conversation, **overrides: Any) -> Turn:
    defaults = {
        "client_message_id": str(uuid.uuid4()),
        "status": TurnStatus.DONE,
        "lease_expires_at": timezone.now() + timedelta(seconds=30),
    }
    return Turn.objects.create(conversation=conversation, **{**defaults, **overrides})


def make_exchange(conversation: Conversation, question: str, answer: str, **overrides: Any) -> Turn:
    """A finished turn with both of its messages, in a conversation that has its title."""
    Conversation.objects.filter(pk=conversation.pk, title="").update(title=question[:50])
    turn = make_turn(conversation, **overrides)
    Message.objects.create(conversation=conversation, turn=turn, role=Role.USER, content=question)
    Message.objects.create(conversation=conversation, turn=turn, role=Role.ASSISTANT, content=answer)
    return turn


def make_calibration(**overrides: Any) -> ThresholdCalibration:
    defaults: dict[str, Any] = {
        "model": f"model-{uuid.uuid4().hex[:8]}",
        "direct_answer": 0.7,
        "memory": 0.7,
        "budget": 0.02,
        "hits": 60,
        "same_pairs": 100,
        "false_hits": 1,
        "different_pairs": 100,
        "source": "pairs.jsonl",
    }
    return ThresholdCalibration.objects.create(**{**defaults, **overrides})


# The memory.


def make_lesson(deployment: Deployment, question: str, answer: str, **overrides: Any) -> Lesson:
    """What a turn gives the memory. Its source is the deployment's first passage, where there is one."""
    model = embedder()
    chunk = Chunk.objects.filter(document__agent=deployment.agent).order_by("pk").first()
    defaults: dict[str, Any] = {
        "deployment_id": deployment.pk,
        "question": question,
        "answer": answer,
        "vector": model.embed_one(question, purpose=Purpose.QUERY),
        "recipe": model.recipe,
        "sources": [source_of(chunk)] if chunk else [],
        "language": "fr",
        "author": "model",
    }
    return Lesson(**{**defaults, **overrides})


def make_entry(
    deployment: Deployment | None = None,
    question: str = "Quels sont les horaires de la piscine ?",
    answer: str = "De 9 heures à 20 heures.",
    **overrides: Any,
) -> CachedResponse:
    """A valid entry of the memory, without passages unless `sources` names some."""
    deployment = deployment or make_deployment()
    model = embedder()
    sources = overrides.pop("sources", [])
    defaults: dict[str, Any] = {
        "deployment_id": deployment.pk,
        "audience": current_audience(deployment),
        "question": question,
        "answer": answer,
        "vector": model.embed_one(question, purpose=Purpose.QUERY),
        "recipe": model.recipe,
        "phase": PHASE,
        "project": deployment.slug,
        "status": EntryStatus.VALID,
        "sources": sources,
    }
    origins = overrides.pop("origins", None) or origins_of(sources) or []
    return write_entry(new_entry(**{**defaults, **overrides}), origins)


def recall(deployment: Deployment, question: str, **overrides: Any) -> Recall:
    """One lookup, as a turn does it, from the hashing embedder's vector."""
    model = embedder()
    mark = stored_mark(deployment.pk)
    if mark is None:
        return Recall()
    lookup = Lookup(**{"question": question, "threshold": 0.7, "max_age_days": 180, **overrides})
    vector = model.embed_one(question, purpose=Purpose.QUERY)
    return recall_cached(mark, lookup, vector=vector, recipe=model.recipe)


def source_of(chunk: Chunk, **overrides: Any) -> dict[str, Any]:
    """A passage as an answer's source names it."""
    return {
        "n": 1,
        "title": "Source",
        "document_id": chunk.document_id,
        "chunk_id": chunk.pk,
        "type": "source_material",
        "question": "",
        "score": 0.9,
        "text": chunk.content,
        **overrides,
    }


def make_passage(content: str, **overrides: Any) -> Passage:
    """A hit of a search as it is read from any format of points; its id is its text."""
    defaults: dict[str, Any] = {
        "point_id": content,
        "type": PointType.SOURCE_MATERIAL,
        "score": 0.7,
        **dict.fromkeys(("question", "title", "parent_context", "category", "summary"), ""),
        "document_id": 1,
        "chunk_id": 1,
    }
    return Passage(content=content, **{**defaults, **overrides})


def make_synonym(agent: Agent, short: str, long: str) -> Synonym:
    """A pair that staff confirmed."""
    short_key, long_key = keys_of(short, long)
    return Synonym.objects.create(
        agent=agent, short=short, long=long, short_key=short_key, long_key=long_key, state=SynonymState.CONFIRMED
    )


def make_learned(agent: Agent | None = None, *, phrasings: Sequence[str] = (), **overrides: Any) -> LearnedResponse:
    """A validated answer whose points are written."""
    defaults: dict[str, Any] = {
        "question": f"Où se trouve la salle {uuid.uuid4().hex[:8]} ?",
        "answer": "Au premier étage.",
    }
    row = LearnedResponse(agent=agent or make_agent(), **{**defaults, **overrides})
    save_learned(row, phrasings=phrasings)
    sync_learned([row.pk])
    row.refresh_from_db()
    return row


def store_answer(*, phrasings: Sequence[str] = (), **values: Any) -> LearnedResponse:
    """An answer as staff write it; its points follow after the commit."""
    row = LearnedResponse(**values)
    save_learned(row, phrasings=phrasings)
    return row


def make_batch(conversation: Conversation, *calls: str) -> list[Message]:
    """A block to be written: the request, and a tool message for each call."""
    asked = [RequestedCall(call, "lookup", "{}") for call in calls]
    request = Message(
        conversation_id=conversation.pk,
        role=Role.ASSISTANT,
        tool_calls=[call.as_json() for call in asked],
        operation_id=uuid.uuid4(),
        relance_index=0,
    )
    return [
        request,
        *(tool_message(request, call, content=json.dumps({"call": call.id}), success=True) for call in asked),
    ]


def make_service_token(name: str = "") -> tuple[ApiKey, str]:
    """A token, and the text that opens the endpoint."""
    return ApiKey.issue_service(name or f"service-{uuid.uuid4().hex[:8]}")


def make_tool(name: str, description: str = "A tool of the tests.", **overrides: Any) -> ToolSpec:
    """A tool that is in no registry; it answers with its arguments."""
    defaults: dict[str, Any] = {
        "parameters": {"type": "object", "properties": {}},
        "invoke": lambda arguments, _context: dict(arguments),
    }
    return ToolSpec(name=name, description=description, **{**defaults, **overrides})


def make_source(**overrides: Any) -> ToolSource:
    """A source of tools, of which none is read yet; a server may take its time to start."""
    defaults: dict[str, Any] = {
        "slug": "lib",
        "name": "Library",
        "kind": SourceKind.MCP_STDIO,
        "timeout_seconds": PATIENCE_SECONDS,
    }
    return ToolSource.objects.create(**{**defaults, **overrides})


@contextmanager
def declared_tools(*specs: ToolSpec) -> Iterator[None]:
    """Tools of the code, for the time of a test."""
    for spec in specs:
        registry.register(spec)
    try:
        yield
    finally:
        for spec in specs:
            registry.remove(spec.name)


def save_answer(claimed: ClaimedTurn, text: str, *, run: int | None = None, **columns: Any) -> int | None:
    """End a claimed turn with an answer; `columns` of its row are in the place of those of a plain one."""
    columns = {**TurnResult(Answer(text=text)).columns(), "status": TurnStatus.DONE, **columns}
    return save_exchange(
        turn_id=claimed.turn.pk,
        conversation_id=claimed.turn.conversation_id,
        run=claimed.turn.run if run is None else run,
        status=columns.pop("status"),
        text=text,
        sources=[],
        columns=columns,
    )
