"""Passwords that are tried, to sign in or to set another, on the site and in the admin: with a limit on failures."""

import logging
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from chat.access.rate_limits import SignInTry, address_of
from chat.exceptions import RateLimitedError

logger = logging.getLogger(__name__)

View = Callable[..., HttpResponseBase]


def limited_sign_in(view: View) -> View:
    """The view, but for tries beyond the limit: those get 429 and a page that says when to come back."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        before = request.user
        # Whoever tries may be signed in already, under another name: only a new user on the request is a success.
        return _tried(
            request,
            request.POST.get("username", ""),
            partial(view, request, *args, **kwargs),
            lambda _response: request.user is not before,
        )

    return wrapped


def limited_password_change(view: View) -> View:
    """The same for the form that asks for the old password: a session that was left open is not to tell it."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return _tried(
            request,
            request.user.get_username(),
            partial(view, request, *args, **kwargs),
            _knew_password,
        )

    return wrapped


def _knew_password(response: HttpResponseBase) -> bool:
    """Also where the new one was refused, or nobody was signed in."""
    form = (getattr(response, "context_data", None) or {}).get("form")
    return response.status_code < 400 and (form is None or "old_password" not in form.errors)


def _tried(
    request: HttpRequest,
    name: str,
    answer: Callable[[], HttpResponseBase],
    has_succeeded: Callable[[HttpResponseBase], bool],
) -> HttpResponseBase:
    if request.method != "POST":
        return answer()
    try:
        attempt = SignInTry(name, address_of(request))
    except RateLimitedError as error:
        _log_failure(request, "limited")
        page = render(
            request, "registration/limited.html", {"message": error.public_message}, status=429
        )
        page["Retry-After"] = str(error.retry_after)
        return page
    response = answer()
    if has_succeeded(response):
        attempt.succeeded()
    else:
        _log_failure(request, "refused")
    return response


def _log_failure(request: HttpRequest, outcome: str) -> None:
    """The line that fail2ban reads (`docs/operations.md`): who tried is not in it, since a name may be a password."""
    logger.warning("sign-in failed address=%s outcome=%s", address_of(request), outcome)
