"""What REST framework loads for its settings, and therefore apart from its views, which this file may not import."""

from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request

from chat.protocol import read_json


class CarriedSession(SessionAuthentication):
    """A session, with Django's cross-site check for visitors too: REST framework asks it of signed-in people only."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            self.enforce_csrf(request)
        return super().authenticate(request)


class StrictJSONParser(JSONParser):
    """JSON as every other door reads it, whatever encoding its header names."""

    def parse(self, stream: Any, *_arguments: Any, **_options: Any) -> Any:
        try:
            return read_json(stream.read())
        except ValueError as error:
            raise ParseError(_("Un objet JSON est attendu.")) from error
