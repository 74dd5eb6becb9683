"""Who may open which deployment and read which conversation. Every door of the chat asks here.

People come with a session; servers come with a service token, which opens the batch endpoint and nothing else; programs
that ask come with an API key, which opens its own deployments on `/v1` and nothing else; visitors of other sites come
with a token that names deployment, site and visitor, which opens the widget's addresses and nothing else.
"""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, NoReturn

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.core import signing
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from agents.bridges import in_database
from agents.models import Audience, Deployment
from chat.exceptions import (
    ApiKeyError,
    ConversationNotFoundError,
    DeploymentClosedError,
    DeploymentNotFoundError,
    MessageNotFoundError,
    ServiceForbiddenError,
    ServiceTokenError,
    TurnNotFoundError,
    VisitorTokenError,
    WidgetClosedError,
)
from chat.models import (
    ApiKey,
    Channel,
    Conversation,
    Message,
    Role,
    ServiceToken,
    Turn,
    secret_hash,
)

_SessionStore = import_module(settings.SESSION_ENGINE).SessionStore
_VISITOR_SALT = "chat.widget.visitor"
KEY_USE_INTERVAL = timedelta(minutes=1)
_OPENED_BY_MESSAGE = uuid.UUID("5a0f2c64-6a3e-4c50-9f0e-8a6c8f6f1c1d")

SomeUser = AbstractBaseUser | AnonymousUser


def open_deployments(user: SomeUser) -> QuerySet[Deployment]:
    """The active deployments whose audience this person belongs to."""
    allowed = Q(audience=Audience.PUBLIC)
    if user.is_authenticated:
        allowed |= Q(audience=Audience.SIGNED_IN)
        allowed |= Q(audience=Audience.GROUPS, groups__user=user.pk)
    deployments = Deployment.objects.filter(allowed, is_active=True)
    return deployments.select_related("agent").distinct().order_by("name")


def named(slug: str) -> str:
    """A slug as somebody sent it; PostgreSQL takes no text with a zero byte, not even to compare it."""
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


def session_conversation(session: SessionBase, conversation_id: uuid.UUID) -> Conversation:
    """A conversation of whoever this session belongs to now: a socket may be open longer than a log-in lasts."""
    current = _SessionStore(session.session_key)
    return owned_conversation(_user_of(current), current, conversation_id)


def session_turn(session: SessionBase, turn_id: uuid.UUID) -> Turn:
    current = _SessionStore(session.session_key)
    return owned_turn(_user_of(current), current, turn_id)


class HeldRights:
    """Rights that a reader was given when a connection began, and may lose before it ends.

    `check` loads what they are about, and raises where they are gone.
    """

    def __init__(self, check: Callable[[], Any]) -> None:
        self._check = check
        self._checked_at = time.monotonic()

    async def check_again(self) -> None:
        """Raises what `check` raises; between two looks, `RIGHTS_CHECK_SECONDS` apart, it costs a reading of the clock."""
        if time.monotonic() - self._checked_at >= settings.RIGHTS_CHECK_SECONDS:
            await in_database(self._check)
            self._checked_at = time.monotonic()


def _user_of(session: SessionBase) -> SomeUser:
    request = HttpRequest()
    request.session = session
    return get_user(request)


def owned_turn(user: SomeUser, session: SessionBase, turn_id: uuid.UUID) -> Turn:
    own = owned_conversations(user, session)
    turn = Turn.objects.filter(pk=turn_id, conversation__in=own.values("pk")).first()
    if turn is None:
        raise TurnNotFoundError("no such turn of this person")
    return turn


def owned_answer(user: SomeUser, session: SessionBase, message_id: int) -> Turn:
    """The turn of an answer in a person's own conversation."""
    own = owned_conversations(user, session)
    answers = Message.objects.exchanges().filter(role=Role.ASSISTANT, pk=message_id)
    answer = answers.filter(conversation__in=own.values("pk")).select_related("turn").first()
    if answer is None or answer.turn is None:
        raise MessageNotFoundError("no such answer to this person")
    return answer.turn


def start_conversation(
    user: SomeUser,
    session: SessionBase,
    deployment: Deployment,
    *,
    client_message_id: str | None = None,
    is_temporary: bool = False,
    phase: str = "",
    project: str = "",
) -> Conversation:
    """A new conversation; opened by a message with an id, the one that the same message opened before, if it did."""
    visitor = None if user.is_authenticated else visitor_of(session)
    owner: dict[str, Any] = {"user_id": user.pk} if visitor is None else {"visitor": visitor}
    owner |= {"is_temporary": is_temporary, "phase": phase, "project": project}
    if client_message_id is None:
        return Conversation.objects.create(deployment=deployment, **owner)
    natural_key = f"{visitor or user.pk}/{deployment.pk}/{client_message_id}"
    conversation, _ = Conversation.objects.get_or_create(
        pk=uuid.uuid5(_OPENED_BY_MESSAGE, natural_key),
        defaults={"deployment": deployment, **owner},
    )
    return conversation


def api_key_of(authorization: str) -> ApiKey:
    """The key that an `Authorization` header bears; a session counts for nothing here. Raises `ApiKeyError`."""
    scheme, _space, secret = authorization.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise ApiKeyError("no key")
    key = ApiKey.objects.usable().filter(key_hash=secret_hash(secret.strip())).first()
    if key is None:
        raise ApiKeyError("unknown, revoked or expired key")
    _note_use(key)
    return key


def _note_use(key: ApiKey) -> None:
    """When a key was last used, to the minute: a busy key must not mean a write for each question."""
    now = timezone.now()
    if key.last_used_at is None or now - key.last_used_at >= KEY_USE_INTERVAL:
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


@dataclass(frozen=True, slots=True)
class WidgetVisitor:
    """A visitor of another site. Their id is drawn here and signed, since browsers keep no cookie of a foreign frame."""

    deployment: Deployment
    origin: str
    visitor: uuid.UUID

    def token(self) -> str:
        said = {
            "key": self.deployment.public_key,
            "origin": self.origin,
            "visitor": self.visitor.hex,
        }
        return signing.dumps(said, salt=_VISITOR_SALT, compress=True)


def new_widget_visitor(public_key: str, origin: str) -> WidgetVisitor:
    """Raises `WidgetClosedError`."""
    return WidgetVisitor(_widget_deployment(public_key, origin), origin, uuid.uuid4())


def widget_visitor(token: str) -> WidgetVisitor:
    """Whoever bears this token. Deployment and site are looked at as they are now.

    Raises `VisitorTokenError`, or `WidgetClosedError` where staff have closed the deployment or taken the site off.
    """
    try:
        said = signing.loads(
            token, salt=_VISITOR_SALT, max_age=timedelta(days=settings.WIDGET_VISITOR_DAYS)
        )
    except signing.BadSignature as error:
        raise VisitorTokenError("no valid visitor token") from error
    deployment = _widget_deployment(said["key"], said["origin"])
    return WidgetVisitor(deployment, said["origin"], uuid.UUID(said["visitor"]))


def _widget_deployment(public_key: str, origin: str) -> Deployment:
    """An open deployment for everybody (a visitor of another site is nobody else), offered on that site."""
    found = Deployment.objects.filter(
        public_key=public_key, is_active=True, audience=Audience.PUBLIC
    ).first()
    if found is None or origin not in found.origins:
        raise WidgetClosedError("no deployment is offered there")
    return found


def widget_conversations(visitor: WidgetVisitor) -> QuerySet[Conversation]:
    """A visitor's conversations in this widget; a visitor of the page, who has a session, has none here."""
    own = Conversation.objects.owned_by(user_id=None, visitor=visitor.visitor)
    return own.filter(deployment=visitor.deployment, channel=Channel.WIDGET)


def widget_conversation(visitor: WidgetVisitor, conversation_id: uuid.UUID) -> Conversation:
    found = widget_conversations(visitor).filter(pk=conversation_id).first()
    if found is None:
        raise ConversationNotFoundError("no such conversation of this visitor")
    return found


def widget_turn(visitor: WidgetVisitor, turn_id: uuid.UUID) -> Turn:
    own = widget_conversations(visitor).values("pk")
    turn = Turn.objects.filter(pk=turn_id, conversation__in=own).first()
    if turn is None:
        raise TurnNotFoundError("no such turn of this visitor")
    return turn


def start_widget_conversation(visitor: WidgetVisitor, client_message_id: str) -> Conversation:
    """The conversation that this message opens, or opened before."""
    natural_key = f"{visitor.visitor}/{visitor.deployment.pk}/{client_message_id}"
    conversation, _new = Conversation.objects.get_or_create(
        pk=uuid.uuid5(_OPENED_BY_MESSAGE, natural_key),
        defaults={
            "deployment": visitor.deployment,
            "visitor": visitor.visitor,
            "channel": Channel.WIDGET,
        },
    )
    return conversation


class CarriedSessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its metaclass has no types
    target_class = "chat.doors.http.sessions.CarriedSession"
    name = "cookieAuth"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}


class ServiceTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer <service token>`; a session or an end user's token is no one here."""

    def authenticate(self, request: Request) -> tuple[AnonymousUser, ServiceToken]:
        scheme, _space, text = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer" or not text.strip():
            self._refuse(NotAuthenticated)
        digest = ServiceToken.hash_of(text.strip().decode("latin-1"))
        token = ServiceToken.objects.filter(token_hash=digest, is_revoked=False).first()
        if token is None:
            self._refuse(AuthenticationFailed)
        return AnonymousUser(), token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="batch"'

    @staticmethod
    def _refuse(kind: type[AuthenticationFailed | NotAuthenticated]) -> NoReturn:
        raise kind(str(ServiceTokenError().public_message), code=ServiceTokenError.code)


class ServiceTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its metaclass has no types
    target_class = ServiceTokenAuthentication
    name = "serviceToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class IsService(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        return isinstance(request.auth, ServiceToken)


def served_conversation(token: ServiceToken, conversation_id: uuid.UUID) -> Conversation:
    """The conversation that a service writes to; raises where its token is for other deployments, or that one is closed."""
    found = Conversation.objects.select_related("deployment__agent").filter(pk=conversation_id)
    conversation = found.first()
    if conversation is None:
        raise ConversationNotFoundError("no such conversation")
    if not token.may_write(conversation):
        raise ServiceForbiddenError(f"token {token.pk} is for other deployments")
    if not conversation.deployment.is_active:
        raise DeploymentClosedError(f"deployment {conversation.deployment_id} is switched off")
    return conversation
