"""Sign-in, for the page and the admin: what this site decides of django-allauth's.

Nobody signs up: staff make the accounts.
"""

import logging
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chat.access.rate_limits import address_of

logger = logging.getLogger(__name__)

#: What everybody sees happen.
_OBVIOUS = {"account/messages/logged_in.txt", "account/messages/logged_out.txt"}


class Accounts(DefaultAccountAdapter):  # type: ignore[misc]  # the package ships no types
    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": gettext_lazy("Ce nom et ce mot de passe ne vont pas ensemble.")
    }

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        """Log each failure in a line for fail2ban (`docs/operations.md`), without the name: that may be a password."""
        try:
            if user := super().authenticate(request, **credentials):
                return user
        except ValidationError:
            logger.warning("sign-in failed address=%s outcome=limited", address_of(request))
            raise
        logger.warning("sign-in failed address=%s outcome=refused", address_of(request))
        return None

    def get_client_ip(self, request: HttpRequest) -> str:
        return address_of(request)

    def add_message(self, request: HttpRequest, level: int, message_template: str = "", *args: Any, **kw: Any) -> None:
        if message_template not in _OBVIOUS:
            super().add_message(request, level, message_template, *args, **kw)


def told(request: HttpRequest, message: str, status: int = 200, again: str = "") -> HttpResponse:
    """A page in the look of the sign-in that says one thing."""
    return render(request, "account/message.html", {"message": message, "again": again}, status=status)


def too_many(request: HttpRequest) -> HttpResponse:
    return told(request, _("Trop d’essais. Réessayez dans quelques minutes."), 429, again=request.get_full_path())


def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """The sign-in of the page; an account without access to the admin is told so."""
    if request.user.is_authenticated and not admin.site.has_permission(request):
        return told(request, _("Ce compte n’a pas accès à l’administration."), 403)
    return redirect_to_login(request.GET.get("next") or reverse("admin:index"))


@login_required
def no_password(request: HttpRequest) -> HttpResponse:
    """Where an account without a password of this site would change it."""
    return told(request, _("Ce compte n’a pas de mot de passe ici : vous le changez là où vous vous connectez."))
