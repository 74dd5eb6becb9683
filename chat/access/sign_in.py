"""Sign-in, for the page and the admin: what this site decides of django-allauth's.

Nobody signs up: staff make the accounts, or the organisation's provider or directory vouches for somebody, whose groups
then follow theirs. It is asked again every `RECHECK` of whoever is here; while it does not answer, they stay for `VOUCHED`.
A process asks about one account at a time, so that a provider in trouble holds up one thread.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter, get_adapter
from allauth.account.forms import ResetPasswordForm
from allauth.core import context, ratelimit
from allauth.mfa.base.forms import AuthenticateForm
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.roles import follow_provider
from chat.access.rate_limits import address_of

#: Sooner than this a group taken away at the provider closes its doors, and an account that is gone there ends here.
RECHECK = timedelta(minutes=10)
#: How long the last word of a provider holds that does not answer.
VOUCHED = timedelta(hours=1)
#: Between two tries to ask it, longer than one takes; an answer that takes longer than `SLOW_SECONDS` counts as one more.
RETRY = timedelta(minutes=1)
SLOW_SECONDS = 2.0

logger = logging.getLogger(__name__)

#: Of the session, during a sign-in: the backend that let somebody in. A second factor comes between and forgets it.
_WAY = "sign_in_way"


class UnavailableError(Exception):
    """The provider, or the directory, does not answer."""


class Accounts(DefaultAccountAdapter):  # type: ignore[misc]  # the package ships no types
    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": gettext_lazy("Ce nom et ce mot de passe ne vont pas ensemble.")
    }

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        """Log each failure in a line for fail2ban (`docs/operations.md`), without the name: that may be a password."""
        try:
            if user := super().authenticate(request, **credentials):
                return user
        except UnavailableError:
            reason = _("L’annuaire de votre organisation ne répond pas. Réessayez dans un moment.")
            raise ValidationError(reason) from None
        except ValidationError:
            logger.warning("sign-in failed address=%s outcome=limited", address_of(request))
            raise
        logger.warning("sign-in failed address=%s outcome=refused", address_of(request))
        return None

    def pre_login(self, request: HttpRequest, user: User, **options: Any) -> Any:
        request.session[_WAY] = user.backend
        return super().pre_login(request, user, **options)

    def login(self, request: HttpRequest, user: User) -> None:
        user.backend = request.session.pop(_WAY)
        super().login(request, user)

    def send_password_reset_mail(self, user: User, email: str, context: dict[str, Any]) -> None:
        """Send an invitation at once, so that staff see it fail. Whoever asks for a new password learns neither by the time
        nor by a failure whether somebody has this address.
        """
        mail = self.render_mail("account/email/password_reset_key", user.email, context)
        if user.has_usable_password():
            threading.Thread(target=_send, args=[mail]).start()
        else:
            mail.send()

    def get_client_ip(self, request: HttpRequest) -> str:
        return address_of(request)


def _send(mail: EmailMessage) -> None:
    try:
        mail.send()
    except (OSError, ValueError) as error:
        logger.warning("mail not sent reason=%s", type(error).__name__)


class VouchedBackend:
    """Sessions of accounts that a provider vouches for: `SocialAccount.last_login` is its last word, `expires_at` of the
    token when it is asked again. Without a token it vouches no longer.
    """

    provider = ""

    def groups_now(self, token: SocialToken) -> list[str] | None:
        """The names of the account's groups; `None`: it is gone. Raises `UnavailableError`."""
        raise NotImplementedError

    def get_user(self, user_id: int) -> User | None:
        user = User.objects.filter(pk=user_id, is_active=True).first()
        return user if user and self._vouches(user) else None

    def _vouches(self, user: User) -> bool:
        tokens, now = SocialToken.objects.filter(account__user=user, account__provider=self.provider), timezone.now()
        token = tokens.select_related("account").first()
        if token is None or token.expires_at > now:
            return token is not None
        is_recent, key = now - token.account.last_login <= VOUCHED, f"asked:{self.provider}"
        # One request of the process asks, and of all processes one about this account; meanwhile the last word holds.
        is_first, due = cache.add(key, "asking", RETRY.total_seconds()), tokens.filter(pk=token.pk, expires_at__lte=now)
        if (is_recent and not is_first) or not due.update(expires_at=now + RETRY):
            return True
        # Whoever signs in anew meanwhile has tokens that are none of these.
        asked, started = SocialToken.objects.filter(pk=token.pk, expires_at=now + RETRY), time.monotonic()
        try:
            if cache.get(key) == "silent":
                raise UnavailableError
            groups = self.groups_now(token)
            if time.monotonic() - started < SLOW_SECONDS:
                cache.delete(key)
        except UnavailableError:
            cache.set(key, "silent", RETRY.total_seconds())
            logger.warning("no answer about a session provider=%s", self.provider)
            if is_recent:
                return bool(asked.update(token_secret=token.token_secret)) or True
            groups = None
        token.account.user = user
        follow_provider(token.account, groups or [])
        if groups is None:
            return not asked.delete()[0]
        asked.update(token_secret=token.token_secret, expires_at=now + RECHECK)
        return True


@transaction.atomic
def admit(provider: str, uid: str, groups: list[str], find: Callable[[], User], **secrets: str) -> User:
    """The user whom a provider vouches for under this name, with their groups; `find` says who it is the first time."""
    account = SocialAccount.objects.select_related("user").filter(provider=provider, uid=uid).first()
    account = account or SocialAccount(provider=provider, uid=uid, user=find())
    follow_provider(account, groups)
    kept = {**secrets, "expires_at": timezone.now() + RECHECK}
    SocialToken.objects.update_or_create(account=account, app=None, defaults=kept)
    user: User = account.user
    return user


def accounts_at(email: str, **fields: Any) -> list[User]:
    """The accounts with this address, in whatever case. The database alone may take other letters for these."""
    found = User.objects.filter(email__iexact=email, **fields)
    return [user for user in found if user.email.lower() == email.lower()]


class ResetForm(ResetPasswordForm):  # type: ignore[misc]  # the package ships no types
    """A new password, for accounts that have one here."""

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"]
        accounts = accounts_at(email, is_active=True, socialaccount=None)
        self.users = [user for user in accounts if user.has_usable_password()]
        return email


class CodeForm(AuthenticateForm):  # type: ignore[misc]  # the package ships no types
    """The codes of an account's second factor are counted by themselves, from wherever they are tried."""

    def clean_code(self) -> str:
        counted = {"action": "second_factor", "key": str(self.user.pk)}
        if not ratelimit.consume(context.request, **counted):
            raise get_adapter().validation_error("too_many_login_attempts")
        code: str = super().clean_code()
        ratelimit.clear(context.request, **counted)
        return code


def message_page(request: HttpRequest, message: str, status: int = 200, again: str = "") -> HttpResponse:
    """A page in the look of the sign-in that says one thing."""
    return render(request, "account/message.html", {"message": message, "again": again}, status=status)


def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """The sign-in of the page; an account without access to the admin is told so."""
    if request.user.is_authenticated and not admin.site.has_permission(request):
        return message_page(request, _("Ce compte n’a pas accès à l’administration."), 403)
    return redirect_to_login(request.GET.get("next") or reverse("admin:index"))
