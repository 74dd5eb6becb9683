"""Readers, and who may open which deployment, and read which conversation, turn, answer and cited passage.

Readers are people with a session of this site, and visitors of other sites with a token of the widget, which names
deployment, site and visitor (browsers store no cookie of a foreign frame). Programs have a secret.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, ClassVar, Self, TypeVar

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.core import signing
from django.core.signing import BadSignature, Signer
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from agents.database import single_write
from agents.models import Audience, Deployment
from chat.errors import (
    ApiKeyError,
    ChatError,
    ConversationNotFoundError,
    DeploymentClosedError,
    DeploymentNotFoundError,
    LinkNotFoundError,
    MessageNotFoundError,
    ServiceForbiddenError,
    ServiceTokenError,
    TurnNotFoundError,
    VisitorTokenError,
    WidgetClosedError,
)
from chat.models import ApiKey, Channel, Conversation, Message, Role, Turn, secret_hash

#: How long a visitor of the widget finds their conversation again.
WIDGET_VISITOR_DAYS = 90

_SessionStore = import_module(settings.SESSION_ENGINE).SessionStore
_VISITOR_SALT = "chat.widget.visitor"

SomeUser = AbstractBaseUser | AnonymousUser
Row = TypeVar("Row", bound=Model)


def visitor_of(session: SessionBase) -> uuid.UUID:
    """The id of the session's anonymous visitor, created at first use."""
    stored = session.get("visitor")
    if stored is None:
        stored = session["visitor"] = str(uuid.uuid4())
    return uuid.UUID(stored)


@dataclass(frozen=True, slots=True)
class Reader:
    """The user or anonymous visitor of a session of this site."""

    channel: ClassVar[Channel] = Channel.PAGE
    user: SomeUser
    session: SessionBase

    @classmethod
    def of(cls, request: Any) -> Self:
        """The reader who sent this request (of Django or REST framework)."""
        return cls(request.user, request.session)

    @classmethod
    def now(cls, session: SessionBase) -> Self:
        """The session's current reader: a connection may outlast a log-in."""
        request = HttpRequest()
        request.session = _SessionStore(session.session_key)
        return cls(get_user(request), request.session)

    @property
    def user_id(self) -> Any:
        return self.user.pk if self.user.is_authenticated else None

    @property
    def visitor(self) -> uuid.UUID | None:
        """The anonymous visitor's id; `None` for a signed-in user."""
        return None if self.user.is_authenticated else visitor_of(self.session)

    @property
    def person(self) -> Any:
        """The person whom the rate limits count."""
        return self.user_id or visitor_of(self.session)


@dataclass(frozen=True, slots=True)
class WidgetVisitor:
    """A visitor of another site."""

    channel: ClassVar[Channel] = Channel.WIDGET
    user_id: ClassVar[None] = None
    deployment: Deployment
    origin: str
    visitor: uuid.UUID

    def token(self) -> str:
        said = {"key": self.deployment.public_key, "origin": self.origin, "visitor": self.visitor.hex}
        return signing.dumps(said, salt=_VISITOR_SALT, compress=True)


def new_widget_visitor(public_key: str, origin: str) -> WidgetVisitor:
    """Raises `WidgetClosedError`."""
    return WidgetVisitor(_widget_deployment(public_key, origin), origin, uuid.uuid4())


def widget_visitor(token: str) -> WidgetVisitor:
    """The visitor of a token, checked as things are now. Raises `VisitorTokenError`, or `WidgetClosedError`."""
    try:
        said = signing.loads(token, salt=_VISITOR_SALT, max_age=timedelta(days=WIDGET_VISITOR_DAYS))
    except signing.BadSignature as error:
        raise VisitorTokenError("no valid visitor token") from error
    deployment = _widget_deployment(said["key"], said["origin"])
    return WidgetVisitor(deployment, said["origin"], uuid.UUID(said["visitor"]))


def _widget_deployment(public_key: str, origin: str) -> Deployment:
    """The active public deployment with this key that allows this site (all visitors of a widget are public)."""
    found = Deployment.objects.filter(public_key=public_key, is_active=True, audience=Audience.PUBLIC).first()
    if found is None or origin not in found.origins:
        raise WidgetClosedError("no deployment is offered there")
    return found


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
    return _first(deployments, DeploymentNotFoundError("no such open deployment"))


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
    rows = own.select_related("deployment").filter(pk=conversation_id)
    return _first(rows, ConversationNotFoundError("no such conversation of this reader"))


def _first(rows: QuerySet[Row], missing: ChatError) -> Row:
    """The first of the rows; raises the error where there is none."""
    if (row := rows.first()) is None:
        raise missing
    return row


def owned_turn(reader: Reader | WidgetVisitor, turn_id: uuid.UUID) -> Turn:
    own = owned_conversations(reader).values("pk")
    turns = Turn.objects.filter(pk=turn_id, conversation__in=own)
    return _first(turns, TurnNotFoundError("no such turn of this reader"))


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
    phase: str = "",
    project: str = "",
) -> Conversation:
    """Create a conversation, or return the one that the same client message created before."""
    fields: dict[str, Any] = {
        "deployment": deployment,
        "user_id": reader.user_id,
        "visitor": reader.visitor,
        "channel": reader.channel,
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
    """The key of `/v1` that an `Authorization` header bears. Raises `ApiKeyError`."""
    missing = ApiKeyError("no key, or one that is unknown, revoked or expired")
    return _borne(authorization, missing, is_service=False)


def service_token_of(authorization: str) -> ApiKey:
    """The service token that an `Authorization` header bears. Raises `ServiceTokenError`."""
    missing = ServiceTokenError("no service token, or one that is unknown, revoked or expired")
    return _borne(authorization, missing, is_service=True)


def _borne(authorization: str, missing: ChatError, *, is_service: bool) -> ApiKey:
    """The key whose secret the header bears; its use is stored, at most once a minute to spare writes."""
    scheme, _space, secret = authorization.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise missing
    unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    usable = ApiKey.objects.filter(unexpired, is_revoked=False, is_service=is_service)
    key = _first(usable.filter(key_hash=secret_hash(secret.strip())), missing)
    now = timezone.now()
    if key.last_used_at is None or now - key.last_used_at >= KEY_USE_INTERVAL:
        with single_write():
            ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
    return key


def keyed_deployments(key: ApiKey) -> QuerySet[Deployment]:
    """The open deployments that staff assigned to this key."""
    return key.deployments.filter(is_active=True).select_related("agent").order_by("slug")


def keyed_deployment(key: ApiKey, slug: str) -> Deployment:
    """The key's deployment; `DeploymentNotFoundError` does not tell whether another one exists."""
    own = key.deployments.select_related("agent").filter(slug=named(slug))
    deployment = _first(own, DeploymentNotFoundError("not a deployment of this key"))
    if not deployment.is_active:
        raise DeploymentClosedError(f"deployment {deployment.pk} is switched off")
    return deployment


def served_conversation(token: ApiKey, conversation_id: uuid.UUID) -> Conversation:
    """The conversation that a service writes to; raises where its token is not for it, or it is closed."""
    found = Conversation.objects.select_related("deployment__agent").filter(pk=conversation_id)
    conversation = _first(found, ConversationNotFoundError("no such conversation"))
    if not (token.all_deployments or token.deployments.filter(pk=conversation.deployment_id).exists()):
        raise ServiceForbiddenError(f"token {token.pk} is for other deployments")
    if not conversation.deployment.is_active:
        raise DeploymentClosedError(f"deployment {conversation.deployment_id} is switched off")
    return conversation


_SIGNER = Signer(salt="chat.cited_passages")


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A source as the answer had it, with the keys of `chat.protocol.Source`."""

    deployment: Deployment
    source: Mapping[str, Any]


def passage_token(turn_id: uuid.UUID, number: int) -> str:
    return _SIGNER.sign_object([turn_id.hex, number])


def cited_passage(user: SomeUser, token: str) -> CitedPassage:
    """Return the source that a signed token names, as stored with its answer. Raises `LinkNotFoundError` for any fault."""
    try:
        turn_id, number = _SIGNER.unsign_object(token)
    except BadSignature as error:
        raise LinkNotFoundError("no address of a passage") from error
    answers = Message.objects.filter(
        turn=turn_id, role="assistant", conversation__deployment__in=open_deployments(user).values("pk")
    ).select_related("conversation__deployment")
    for answer in answers:
        for source in answer.sources:
            if source.get("n") == number:
                return CitedPassage(answer.conversation.deployment, source)
    raise LinkNotFoundError("no such passage for this person")
