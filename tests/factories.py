"""Builders: plain functions that make valid rows, with what a test cares about named at the call."""

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.utils import timezone

from agents.effective import EffectiveConfig, effective_config
from agents.models import Agent, Deployment
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from knowledge.exceptions import VectorStoreUnavailableError
from knowledge.indexing.documents import index_documents, store_document
from knowledge.models import Document
from knowledge.vectors.base import Point
from knowledge.vectors.table import TableVectorStore

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


def make_user(**overrides: Any) -> User:
    defaults: dict[str, Any] = {"username": f"user-{uuid.uuid4().hex[:8]}"}
    user: User = get_user_model().objects.create_user(**{**defaults, **overrides})
    return user


def make_agent(**overrides: Any) -> Agent:
    slug = overrides.pop("slug", f"agent-{uuid.uuid4().hex[:8]}")
    return Agent.objects.create(slug=slug, **{"name": slug, **TEST_THRESHOLDS, **overrides})


def make_deployment(agent: Agent | None = None, **overrides: Any) -> Deployment:
    agent = agent or make_agent()
    return Deployment.objects.create(
        **{"slug": agent.slug, "name": agent.name, "agent": agent, **overrides}
    )


def make_config(deployment: Deployment | None = None) -> EffectiveConfig:
    return effective_config(deployment or make_deployment())


def add_document(agent: Agent, *, name: str = "faq.md", text: str = FAQ_TEXT) -> Document:
    """Store a document and index it, as `add_documents` does."""
    document = store_document(agent=agent, name=name, data=text.encode()).document
    index_documents(agent=agent, documents=[document])
    document.refresh_from_db()
    return document


def make_library(**overrides: Any) -> Deployment:
    """A deployment whose agent knows the little library."""
    deployment = make_deployment(make_agent(), **overrides)
    add_document(deployment.agent)
    return deployment


def make_conversation(deployment: Deployment | None = None, **overrides: Any) -> Conversation:
    return Conversation.objects.create(deployment=deployment or make_deployment(), **overrides)


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
    Message.objects.create(
        conversation=conversation, turn=turn, role=Role.ASSISTANT, content=answer
    )
    return turn


class FailingStore(TableVectorStore):
    """A vector store that stops: writes are refused from the `after`-th on, until `works` is set again."""

    def __init__(self, *, after: int = 0) -> None:
        self.left = after
        self.works = False

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        if not self.works and self.left <= 0:
            raise VectorStoreUnavailableError("The store has stopped.")
        self.left -= 1
        super().upsert(collection, points)
