"""How often somebody may read their conversations: one rule for the views that show them."""

from typing import Any

from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.views import APIView

from chat.access.rate_limits import address_of, limit_reading
from chat.access.visitors import Reader


class CountedReading(APIView):
    """A view whose reading is counted for its caller; beyond the limit it answers 429 (`rate_limited`)."""

    #: What is counted: exports cost a hundred times a list, and have a limit of their own.
    reads_what = "read"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in SAFE_METHODS:
            limit_reading(self.reads_what, Reader.of(request).person, address_of(request))
