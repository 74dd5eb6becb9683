"""What REST framework loads for its settings, and therefore apart from its views, which this file may not import."""

from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request


class CarriedSession(SessionAuthentication):
    """A session, with Django's cross-site check for visitors too: REST framework asks it of signed-in people only."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            self.enforce_csrf(request)
        return super().authenticate(request)


class BoundedJSONParser(JSONParser):
    """JSON nested so deeply that it cannot be read is malformed, and no error of the server."""

    def parse(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().parse(*arguments, **options)
        except RecursionError as error:
            raise ParseError(_("Un objet JSON est attendu.")) from error
