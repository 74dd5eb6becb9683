"""The organisation's OpenID provider. Authlib asks it by a code (state, PKCE, nonce) and checks the ID token: signature,
issuer, audience, age, nonce. Neither a log nor a page has the text of an error: that may be a token.
"""

import logging
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from allauth.account.adapter import get_adapter
from allauth.account.utils import filter_users_by_email, get_next_redirect_url, perform_login
from allauth.socialaccount.models import SocialAccount, SocialToken
from authlib.integrations.base_client import OAuthError
from authlib.integrations.django_client import DjangoIntegration, DjangoOAuth2App
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET
from joserfc.errors import JoseError
from requests import RequestException, Response, Timeout

from agents.roles import groups_held
from chat.access.sign_in import UnavailableError, VouchedBackend, admit, told

#: One request to the provider, whole, and its answer.
PROVIDER_SECONDS = 5.0
PROVIDER_BYTES = 512 * 1024
#: Those of the standard, of ProConnect, and of providers that hand out groups, or the means to ask again, by a scope; what
#: one lists is asked for.
SCOPES = ("openid", "profile", "email", "given_name", "usual_name", "groups", "offline_access")
#: Where providers name a person's groups, and how many are read; those of the largest organisations stay below.
GROUP_CLAIMS, MOST_GROUPS = ("groups", "roles"), 2_000
#: What a wrong answer ends in, in Authlib and below it.
WRONG = (OAuthError, JoseError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)

logger = logging.getLogger(__name__)


class BoundedSession(OAuth2Session):  # type: ignore[misc]  # the package ships no types
    """Requests that end in time; a server in trouble has not answered."""

    def request(self, method: str, url: str, **options: Any) -> Response:
        until = time.monotonic() + PROVIDER_SECONDS
        # Secrets go to the address that was published, and no further.
        options |= {"timeout": PROVIDER_SECONDS, "stream": True, "allow_redirects": method == "GET"}
        response: Response = super().request(method, url, **options)
        response._content = b""
        for part in response.iter_content(8192):
            response._content += part
            if len(response._content) > PROVIDER_BYTES or time.monotonic() > until:
                raise Timeout
        if response.status_code >= 500 or response.status_code == 429:
            response.raise_for_status()
        return response


class Provider(DjangoOAuth2App):  # type: ignore[misc]  # the package ships no types
    """Made for one question, so that the provider's addresses and keys are read anew each time."""

    client_cls = BoundedSession

    def __init__(self) -> None:
        at = f"{settings.OIDC_SERVER_URL.rstrip('/')}/.well-known/openid-configuration"
        if urlsplit(at).scheme != "https" and urlsplit(at).hostname not in ("localhost", "127.0.0.1"):
            raise OAuthError("https")
        names = {"client_id": settings.OIDC_CLIENT_ID, "client_secret": settings.OIDC_CLIENT_SECRET}
        super().__init__(DjangoIntegration("oidc"), **names, server_metadata_url=at)
        published = self.load_server_metadata()
        if published["issuer"].rstrip("/") != settings.OIDC_SERVER_URL.rstrip("/"):
            raise OAuthError("issuer")
        scopes = [name for name in SCOPES if name in published.get("scopes_supported", SCOPES[:3])]
        self.client_kwargs = {"scope": " ".join(scopes), "code_challenge_method": "S256"}
        if (posted := "client_secret_post") in published.get("token_endpoint_auth_methods_supported", ()):
            self.client_kwargs |= {"token_endpoint_auth_method": posted}
        whose = {"iss": published["issuer"], "aud": self.client_id}
        self.whose = {name: {"essential": True, "value": value} for name, value in whose.items()}

    def claims(self, tokens: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
        """What a checked token said (`sub` at least), with the page about the person."""
        answer = self.get(self.server_metadata["userinfo_endpoint"], token=tokens)
        about = self.checked(answer.text) if "jwt" in answer.headers["Content-Type"] else answer.json()
        if answer.status_code != 200 or about["sub"] != said["sub"] or len(said["sub"]) > 191:
            raise OAuthError("userinfo")
        return {**said, **about}

    def checked(self, token: str) -> dict[str, Any]:
        return dict(self.parse_id_token({"id_token": token}, None, self.whose, CodeIDToken))


class ProviderBackend(VouchedBackend, ModelBackend):
    """Sessions that the provider began."""

    provider = "oidc"

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> None:  # type: ignore[override]
        """Nobody has a password here: the provider asks for it."""

    def groups_now(self, token: SocialToken) -> list[str] | None:
        try:
            provider, tokens = Provider(), {"access_token": token.token, "token_type": "Bearer"}
            if refresh := token.token_secret:
                tokens = provider.fetch_access_token(grant_type="refresh_token", refresh_token=refresh)
                # A provider that hands out a new one takes the old one back.
                token.token_secret = tokens.get("refresh_token") or refresh
            said = provider.checked(tokens["id_token"]) if "id_token" in tokens else {}
            claims = provider.claims(tokens, {"sub": token.account.uid, **said})
            # Some say groups in tokens of identity alone: where none came, nothing was said of them.
            is_told = said or not claims.keys().isdisjoint(GROUP_CLAIMS)
            return _groups(claims) if is_told else groups_held(token.account.user)
        except RequestException as error:
            raise UnavailableError from error
        except WRONG:
            return None


@require_GET
def begin(request: HttpRequest) -> HttpResponse:
    """Send a browser to the provider."""
    request.session["provider_next"] = get_next_redirect_url(request)
    back = request.build_absolute_uri(reverse("provider-back"))
    return _or_refused(request, lambda: Provider().authorize_redirect(request, back))


@require_GET
def end(request: HttpRequest) -> HttpResponse:
    """Where the provider sends it back."""
    return _or_refused(request, lambda: _signed_in(request, Provider()))


def _signed_in(request: HttpRequest, provider: Provider) -> HttpResponse:
    tokens = provider.authorize_access_token(request, claims_options=provider.whose)
    claims = provider.claims(tokens, tokens["userinfo"])
    refresh = tokens.get("refresh_token") or ""
    # One of the two is enough to ask again.
    secrets = {"token_secret": refresh, "token": "" if refresh else tokens["access_token"]}
    user = admit("oidc", claims["sub"], _groups(claims), lambda: _account(claims), **secrets)
    user.backend = "chat.access.provider.ProviderBackend"
    page: HttpResponse = perform_login(request, user, redirect_url=request.session.pop("provider_next", None))
    return page


def _account(claims: dict[str, Any]) -> User:
    """A new account, or the one of staff's making to which an address leads that the provider has verified: no
    superuser's, and none that somebody else comes to by the provider already.
    """
    said = {name: text.replace("\0", "") for name, text in claims.items() if isinstance(text, str)}
    email = said.get("email", "") if claims.get("email_verified") is True else ""
    same: list[User] = filter_users_by_email(email) if email else []
    if len(same) == 1 and not (same[0].is_superuser or SocialAccount.objects.filter(user=same[0]).exists()):
        # A password would be a door that the provider cannot close.
        same[0].set_unusable_password()
        same[0].save(update_fields=["password"])
        return same[0]
    first, _space, last = said.get("name", "").partition(" ")
    last = said.get("family_name", said.get("usual_name", last))
    free = get_adapter().generate_unique_username([said.get("preferred_username"), said.get("email"), first, "user"])
    names = {"first_name": said.get("given_name", first)[:150], "last_name": last[:150]}
    return User.objects.create_user(free, "" if same else email, **names)


def _groups(claims: dict[str, Any]) -> list[str]:
    said = [claims[name] for name in GROUP_CLAIMS if isinstance(claims.get(name), list)]
    return [name for names in said for name in names if isinstance(name, str)][:MOST_GROUPS]


def _or_refused(request: HttpRequest, view: Callable[[], HttpResponse]) -> HttpResponse:
    """The view, or a page that says why nobody was signed in; the log has the kind of the error alone."""
    try:
        return view()
    except (RequestException, *WRONG) as error:
        logger.warning("provider sign-in refused reason=%s", type(error).__name__)
        is_down = isinstance(error, RequestException)
    message = _("Votre organisation a donné une réponse qui n’est pas valable, ou qui arrive trop tard.")
    if is_down:
        message = _("Le service de connexion de votre organisation ne répond pas. Réessayez dans un moment.")
    elif "error" in request.GET:
        message = _("La connexion a été annulée, ou refusée par votre organisation.")
    return told(request, message, 503 if is_down else 403, again=reverse("account_login"))
