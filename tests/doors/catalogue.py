"""The doors there are, read from what the site really serves: the URL configuration, the admin's actions, the frames."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RegexPattern

from chat.protocol import FRAMES
from chat.urls import websocket_urlpatterns

_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>|\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)")


@dataclass(frozen=True, slots=True)
class Door:
    """One URL pattern; `route` has its parameters as `{name}`."""

    route: str
    name: str
    model: type[Model] | None = None

    @property
    def is_admin(self) -> bool:
        return self.route.startswith("admin/")

    @property
    def page(self) -> str:
        """What of its model an admin page shows: `changelist`, `change`, `learn`…"""
        assert self.model is not None
        return self.name.removeprefix(f"{self.model._meta.app_label}_").removeprefix(f"{self.model._meta.model_name}_")


def http_doors() -> list[Door]:
    """Every pattern of the URL configuration that is in use, once each."""
    found = {door.route: door for door in _walk(get_resolver().url_patterns)}
    return list(found.values())


def _walk(patterns: Iterable[URLPattern | URLResolver], before: str = "") -> Iterator[Door]:
    for pattern in patterns:
        route = before + _written(pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, route)
        else:
            yield Door(route, pattern.name or "", _model_of(route))


def _written(pattern: URLPattern | URLResolver) -> str:
    text = str(pattern.pattern)
    if isinstance(pattern.pattern, RegexPattern):
        text = text.removeprefix("^").removesuffix("$").removesuffix(r"\Z")
    text = text.replace("(?:/.*)?", "/{rest}")
    return _PARAMETER.sub(lambda found: f"{{{found[1] or found[2]}}}", text)


def _model_of(route: str) -> type[Model] | None:
    parts = tuple(route.split("/")[1:3])
    for model in admin.site._registry:
        if parts == (model._meta.app_label, model._meta.model_name):
            return model
    return None


def admin_actions() -> list[tuple[type[Model], str]]:
    """Each action of each admin list, as somebody with every right is offered it."""
    request = RequestFactory().get("/")
    request.user = User(is_staff=True, is_superuser=True, is_active=True)
    return [(model, name) for model, options in admin.site._registry.items() for name in _actions(options, request)]


def _actions(options: Any, request: Any) -> list[str]:
    return sorted(options.get_actions(request))


def frame_doors() -> list[str]:
    """Each socket route with each type of frame that is read there, and one that is not."""
    routes = [_written(pattern) for pattern in websocket_urlpatterns]
    return [f"{route} {kind}" for route in routes for kind in (*sorted(FRAMES), "unknown")]
