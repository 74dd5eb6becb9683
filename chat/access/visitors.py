"""Readers: people with a session of this site, and visitors of other sites with a token of the widget, which names
deployment, site and visitor (browsers store no cookie of a foreign frame).
"""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, ClassVar, Self

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.core import signing
from django.http import HttpRequest

from agents.models import Audience, Deployment
from chat.errors import VisitorTokenError, WidgetClosedError
from chat.models import Channel

#: How long a visitor of the widget finds their conversation again.
WIDGET_VISITOR_DAYS = 90

_SessionStore = import_module(settings.SESSION_ENGINE).SessionStore
_VISITOR_SALT = "chat.widget.visitor"

SomeUser = AbstractBaseUser | AnonymousUser


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
