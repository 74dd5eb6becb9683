"""Bodies at the doors of REST framework, which loads this file for its settings: nothing of its views may be imported."""

from typing import Any

from django.utils.translation import gettext as _
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class BoundedJSONParser(JSONParser):
    """JSON nested so deeply that it cannot be read is malformed, and no error of the server."""

    def parse(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().parse(*arguments, **options)
        except RecursionError as error:
            raise ParseError(_("Un objet JSON est attendu.")) from error
