"""Sessions at the doors of REST framework, which loads this file for its settings: nothing of its views may be imported."""

from typing import Any

from django.conf import settings
from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request


class CarriedSession(SessionAuthentication):
    """A session, with Django's cross-site check for visitors too: REST framework asks it of signed-in people only."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            self.enforce_csrf(request)
        return super().authenticate(request)
