"""Who may open which deployment and read which conversation. Every door of the chat asks here."""

import uuid
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.db.models import Q, QuerySet

from agents.models import Audience, Deployment
from chat.exceptions import (
    ConversationNotFoundError,
    DeploymentNotFoundError,
    TurnNotFoundError,
)
from chat.models import Conversation, Turn

SomeUser = AbstractBaseUser | AnonymousUser


def open_deployments(user: SomeUser) -> QuerySet[Deployment]:
    """The active deployments whose audience this person belongs to."""
    allowed = Q(audience=Audience.PUBLIC)
    if user.is_authenticated:
        allowed |= Q(audience=Audience.SIGNED_IN)
        allowed |= Q(audience=Audience.GROUPS, groups__user=user.pk)
    deployments = Deployment.objects.filter(allowed, is_active=True)
    return deployments.select_related("agent").distinct().order_by("name")


def open_deployment(user: SomeUser, slug: str | None) -> Deployment:
    """The deployment of that slug, or the first one where no slug is given."""
    deployments = open_deployments(user)
    if slug:
        deployments = deployments.filter(slug=slug)
    deployment = deployments.first()
    if deployment is None:
        raise DeploymentNotFoundError("no such open deployment")
    return deployment


def visitor_of(session: SessionBase) -> uuid.UUID:
    """The anonymous visitor of this browser session; drawn at the first need."""
    stored = session.get("visitor")
    if stored is None:
        stored = session["visitor"] = str(uuid.uuid4())
    return uuid.UUID(stored)


def owned_conversations(user: SomeUser, session: SessionBase) -> QuerySet[Conversation]:
    """A person's own conversations in deployments still open to them."""
    user_id: Any = user.pk if user.is_authenticated else None
    own = Conversation.objects.owned_by(
        user_id=user_id, visitor=None if user_id else visitor_of(session)
    )
    return own.filter(deployment__in=open_deployments(user).values("pk"))


def owned_conversation(
    user: SomeUser, session: SessionBase, conversation_id: uuid.UUID
) -> Conversation:
    found = (
        owned_conversations(user, session)
        .select_related("deployment")
        .filter(pk=conversation_id)
        .first()
    )
    if found is None:
        raise ConversationNotFoundError("no such conversation of this person")
    return found


def owned_turn(user: SomeUser, session: SessionBase, turn_id: uuid.UUID) -> Turn:
    own = owned_conversations(user, session)
    turn = Turn.objects.filter(pk=turn_id, conversation__in=own.values("pk")).first()
    if turn is None:
        raise TurnNotFoundError("no such turn of this person")
    return turn


def start_conversation(
    user: SomeUser, session: SessionBase, deployment: Deployment
) -> Conversation:
    if user.is_authenticated:
        return Conversation.objects.create(deployment=deployment, user_id=user.pk)
    return Conversation.objects.create(deployment=deployment, visitor=visitor_of(session))
