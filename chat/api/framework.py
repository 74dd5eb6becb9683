"""What REST framework loads for its settings, and therefore apart from its views, which this file may not import."""

from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.utils.translation import gettext as _
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import ParseError, PermissionDenied
from rest_framework.parsers import JSONParser
from rest_framework.request import Request

from agents.logs import log_foreign_origin
from chat.protocol import read_json


class CarriedSession(SessionAuthentication):
    """A session, with Django's cross-site check for visitors too: REST framework asks it of signed-in people only."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        hand_out_token(request._request)
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            self.enforce_csrf(request)
        return super().authenticate(request)

    def enforce_csrf(self, request: Any) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied:
            log_foreign_origin(request.headers.get("Origin", ""), request.headers.get("Host", ""))
            raise


def hand_out_token(request: HttpRequest) -> None:
    """Set the cookie of the token with the first answer, as the session's is: a program that keeps both may go on."""
    if settings.CSRF_COOKIE_NAME not in request.COOKIES:
        get_token(request)


class StrictJSONParser(JSONParser):
    """JSON as every other door reads it, whatever encoding its header names, and no more than Django reads of a form."""

    def parse(self, stream: Any, *_arguments: Any, **_options: Any) -> Any:
        # REST framework reads the stream, past Django's own look at its length.
        body = stream.read(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        if len(body) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise RequestDataTooBig
        try:
            return read_json(body)
        except ValueError as error:
            raise ParseError(_("Un objet JSON est attendu.")) from error
