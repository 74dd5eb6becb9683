"""Signing in, on the site and in the admin, with a limit on failures."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from chat.access.rate_limits import SignInTry, address_of
from chat.exceptions import RateLimitedError

View = Callable[..., HttpResponseBase]


def limited_sign_in(view: View) -> View:
    """The view, but for tries beyond the limit: those get 429 and a page that says when to come back."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method != "POST":
            return view(request, *args, **kwargs)
        try:
            attempt = SignInTry(request.POST.get("username", ""), address_of(request))
        except RateLimitedError as error:
            page = render(
                request, "registration/limited.html", {"message": error.public_message}, status=429
            )
            page["Retry-After"] = str(error.retry_after)
            return page
        response = view(request, *args, **kwargs)
        if request.user.is_authenticated:
            attempt.succeeded()
        return response

    return wrapped
