"""Programs and their secrets: an API key opens its own deployments on `/v1`, a service token the batch endpoint, and
nothing else.
"""

import uuid
from datetime import timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from agents.database import single_write
from agents.models import Deployment
from chat.access.permissions import named
from chat.exceptions import (
    ApiKeyError,
    ConversationNotFoundError,
    DeploymentClosedError,
    DeploymentNotFoundError,
    ServiceForbiddenError,
    ServiceTokenError,
)
from chat.models import ApiKey, Conversation, ServiceToken, secret_hash

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
    """The secret that the header bears; empty where it bears none, and then nothing is looked up."""
    scheme, _space, secret = authorization.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _note_use(key: ApiKey) -> None:
    """When a key was last used, to the minute: a busy key must not mean a write for each question."""
    now = timezone.now()
    if key.last_used_at is None or now - key.last_used_at >= KEY_USE_INTERVAL:
        with single_write():
            ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)


def keyed_deployments(key: ApiKey) -> QuerySet[Deployment]:
    """The deployments that staff gave to this key, and that are open."""
    return key.deployments.filter(is_active=True).select_related("agent").order_by("slug")


def keyed_deployment(key: ApiKey, slug: str) -> Deployment:
    """Raises `DeploymentNotFoundError` for one that is not the key's, without saying whether it exists."""
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
    """The conversation that a service writes to; raises where its token is for other deployments, or that one is
    closed.
    """
    found = Conversation.objects.select_related("deployment__agent").filter(pk=conversation_id)
    conversation = found.first()
    if conversation is None:
        raise ConversationNotFoundError("no such conversation")
    if not token.may_write(conversation):
        raise ServiceForbiddenError(f"token {token.pk} is for other deployments")
    if not conversation.deployment.is_active:
        raise DeploymentClosedError(f"deployment {conversation.deployment_id} is switched off")
    return conversation
