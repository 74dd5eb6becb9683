"""Password attempts, at sign-in or password change, on the site and in the admin: limits their failures.

Failures count by user name, so anybody could lock an owner out. A browser in which the password was given before is
therefore recognised by a cookie, signed for that name only, and counted apart: OWASP's device cookies
(https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies).
"""

import logging
import secrets
from collections.abc import Callable
from datetime import timedelta
from functools import partial, wraps
from typing import Any

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from chat.access.rate_limits import SignInTry, address_of, digest_of
from chat.errors import RateLimitedError

#: How long a browser is known as one in which somebody signed in: wrong tries of others at that name count apart from
#: its own.
KNOWN_BROWSER_DAYS = 90

logger = logging.getLogger(__name__)

#: The cookie of a browser in which somebody signed in: the last of its names, which it does not tell.
KNOWN_BROWSER = "known_browser"

View = Callable[..., HttpResponseBase]


def limited_sign_in(view: View) -> View:
    """The view with a limit on attempts: beyond it, 429 and a page that says when to retry."""

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
    """The password-change view with the same limit, so that an open session does not reveal the old password."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return _tried(request, request.user.get_username(), partial(view, request, *args, **kwargs), _knew_password)

    return wrapped


def _knew_password(response: HttpResponseBase) -> bool:
    """Whether the old password was right (the new one may be refused), or nobody was signed in."""
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
    browser = _known_browser(request, name)
    try:
        attempt = SignInTry(name, address_of(request), browser=browser)
    except RateLimitedError as error:
        _log_failure(request, "limited")
        page = render(request, "registration/limited.html", {"message": error.public_message}, status=429)
        page["Retry-After"] = str(error.retry_after)
        return page
    response = answer()
    if has_succeeded(response):
        attempt.succeeded()
        _know_browser(response, name, browser or secrets.token_urlsafe(16))
    else:
        _log_failure(request, "refused")
    return response


def _known_browser(request: HttpRequest, name: str) -> str:
    """The browser's id, if this name's password was given in it before; else empty."""
    mark = request.COOKIES.get(KNOWN_BROWSER, "")
    try:
        return _signer(name).unsign(mark, max_age=timedelta(days=KNOWN_BROWSER_DAYS))
    except BadSignature:
        return ""


def _know_browser(response: HttpResponseBase, name: str, browser: str) -> None:
    response.set_cookie(
        KNOWN_BROWSER,
        _signer(name).sign(browser),
        max_age=timedelta(days=KNOWN_BROWSER_DAYS),
        path=settings.SESSION_COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _signer(name: str) -> TimestampSigner:
    return TimestampSigner(salt=f"{KNOWN_BROWSER}:{digest_of(name)}")


def _log_failure(request: HttpRequest, outcome: str) -> None:
    """The line that fail2ban reads (`docs/operations.md`): who tried is not in it, since a name may be a password."""
    logger.warning("sign-in failed address=%s outcome=%s", address_of(request), outcome)
