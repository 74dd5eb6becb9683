"""Who may open which deployment, and read which conversation, turn and answer: readers, and programs with a secret."""

import uuid
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from agents.database import single_write
from agents.models import Audience, Deployment
from chat.access.visitors import Reader, SomeUser, WidgetVisitor
from chat.errors import (
    ApiKeyError,
    ConversationNotFoundError,
    DeploymentClosedError,
    DeploymentNotFoundError,
    MessageNotFoundError,
    ServiceForbiddenError,
    ServiceTokenError,
    TurnNotFoundError,
)
from chat.models import ApiKey, Conversation, Message, Role, ServiceToken, Turn, secret_hash

_OPENED_BY_MESSAGE = uuid.UUID("5a0f2c64-6a3e-4c50-9f0e-8a6c8f6f1c1d")


def open_deployments(user: SomeUser) -> QuerySet[Deployment]:
    """The active deployments whose audience includes this user."""
    allowed = Q(audience=Audience.PUBLIC)
    if user.is_authenticated:
        allowed |= Q(audience=Audience.SIGNED_IN)
        allowed |= Q(audience=Audience.GROUPS, groups__user=user.pk)
    deployments = Deployment.objects.filter(allowed, is_active=True)
    return deployments.select_related("agent").distinct().order_by("name")


def named(slug: str) -> str:
    """A slug from a request, with zero bytes replaced, which PostgreSQL refuses even in comparisons."""
    return slug.replace("\0", "\ufffd")


def open_deployment(user: SomeUser, slug: str | None) -> Deployment:
    """The deployment of that slug, or the first one where no slug is given."""
    deployments = open_deployments(user)
    if slug:
        deployments = deployments.filter(slug=named(slug))
    deployment = deployments.first()
    if deployment is None:
        raise DeploymentNotFoundError("no such open deployment")
    return deployment


def kept_conversations(reader: Reader | WidgetVisitor) -> QuerySet[Conversation]:
    """All conversations of a reader, for reading, export and deletion, also of deployments now closed to them."""
    if reader.user_id is not None:
        return Conversation.objects.filter(user=reader.user_id)
    return Conversation.objects.filter(user=None, visitor=reader.visitor)


def kept_conversation(reader: Reader, conversation_id: uuid.UUID) -> Conversation:
    """One of `kept_conversations`; raises `ConversationNotFoundError`."""
    return _found(kept_conversations(reader), conversation_id)


def owned_conversations(reader: Reader | WidgetVisitor) -> QuerySet[Conversation]:
    """A reader's conversations in deployments open to them; in a widget, those of that widget."""
    own = kept_conversations(reader)
    if isinstance(reader, WidgetVisitor):
        return own.filter(deployment=reader.deployment, channel=reader.channel)
    return own.filter(deployment__in=open_deployments(reader.user).values("pk"))


def owned_conversation(reader: Reader | WidgetVisitor, conversation_id: uuid.UUID) -> Conversation:
    return _found(owned_conversations(reader), conversation_id)


def _found(own: QuerySet[Conversation], conversation_id: uuid.UUID) -> Conversation:
    found = own.select_related("deployment").filter(pk=conversation_id).first()
    if found is None:
        raise ConversationNotFoundError("no such conversation of this reader")
    return found


def owned_turn(reader: Reader | WidgetVisitor, turn_id: uuid.UUID) -> Turn:
    own = owned_conversations(reader).values("pk")
    turn = Turn.objects.filter(pk=turn_id, conversation__in=own).first()
    if turn is None:
        raise TurnNotFoundError("no such turn of this reader")
    return turn


def owned_answer(reader: Reader | WidgetVisitor, message_id: int) -> Turn:
    """The turn of an answer in a reader's own conversation."""
    own = owned_conversations(reader).values("pk")
    answers = Message.objects.exchanges().filter(role=Role.ASSISTANT, pk=message_id)
    answer = answers.filter(conversation__in=own).select_related("turn").first()
    if answer is None or answer.turn is None:
        raise MessageNotFoundError("no such answer to this reader")
    return answer.turn


def start_conversation(
    reader: Reader | WidgetVisitor,
    deployment: Deployment,
    *,
    client_message_id: str | None = None,
    is_temporary: bool = False,
    phase: str = "",
    project: str = "",
) -> Conversation:
    """Create a conversation, or return the one that the same client message created before."""
    fields: dict[str, Any] = {
        "deployment": deployment,
        "user_id": reader.user_id,
        "visitor": reader.visitor,
        "channel": reader.channel,
        "is_temporary": is_temporary,
        "phase": phase,
        "project": project,
    }
    if client_message_id is None:
        with single_write():
            return Conversation.objects.create(**fields)
    natural_key = f"{reader.visitor or reader.user_id}/{deployment.pk}/{client_message_id}"
    with single_write():
        conversation, _new = Conversation.objects.get_or_create(
            pk=uuid.uuid5(_OPENED_BY_MESSAGE, natural_key), defaults=fields
        )
    return conversation


KEY_USE_INTERVAL = timedelta(minutes=1)


def api_key_of(authorization: str) -> ApiKey:
    """The key that an `Authorization` header bears. Raises `ApiKeyError`."""
    not_expired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    usable = ApiKey.objects.filter(not_expired, is_revoked=False)
    secret = _borne(authorization)
    key = usable.filter(key_hash=secret_hash(secret)).first() if secret else None
    if key is None:
        raise ApiKeyError("no key, or one that is unknown, revoked or expired")
    _note_use(key)
    return key


def _borne(authorization: str) -> str:
    """The secret in the header; empty without one, so that nothing is looked up."""
    scheme, _space, secret = authorization.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _note_use(key: ApiKey) -> None:
    """Store when a key was last used, at most once a minute, to spare writes."""
    now = timezone.now()
    if key.last_used_at is None or now - key.last_used_at >= KEY_USE_INTERVAL:
        with single_write():
            ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)


def keyed_deployments(key: ApiKey) -> QuerySet[Deployment]:
    """The open deployments that staff assigned to this key."""
    return key.deployments.filter(is_active=True).select_related("agent").order_by("slug")


def keyed_deployment(key: ApiKey, slug: str) -> Deployment:
    """The key's deployment; `DeploymentNotFoundError` does not tell whether another one exists."""
    deployment = key.deployments.select_related("agent").filter(slug=named(slug)).first()
    if deployment is None:
        raise DeploymentNotFoundError("not a deployment of this key")
    if not deployment.is_active:
        raise DeploymentClosedError(f"deployment {deployment.pk} is switched off")
    return deployment


def service_token_of(authorization: str) -> ServiceToken:
    """The service token that an `Authorization` header bears. Raises `ServiceTokenError`."""
    secret = _borne(authorization)
    usable = ServiceToken.objects.filter(is_revoked=False)
    token = usable.filter(token_hash=secret_hash(secret)).first() if secret else None
    if token is None:
        raise ServiceTokenError("no service token, or one that is unknown or revoked")
    return token


def served_conversation(token: ServiceToken, conversation_id: uuid.UUID) -> Conversation:
    """The conversation that a service writes to; raises where its token is not for it, or it is closed."""
    found = Conversation.objects.select_related("deployment__agent").filter(pk=conversation_id)
    conversation = found.first()
    if conversation is None:
        raise ConversationNotFoundError("no such conversation")
    if not token.may_write(conversation):
        raise ServiceForbiddenError(f"token {token.pk} is for other deployments")
    if not conversation.deployment.is_active:
        raise DeploymentClosedError(f"deployment {conversation.deployment_id} is switched off")
    return conversation
