"""The organisation's OpenID provider. Authlib asks it by a code (state, PKCE, nonce) and checks the ID token: signature,
issuer, audience, age, nonce. Neither a log nor a page has the text of an error: that may be a token.
"""

import logging
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from allauth.account.adapter import get_adapter
from allauth.account.utils import get_next_redirect_url, perform_login
from allauth.decorators import rate_limit
from allauth.socialaccount.models import SocialAccount, SocialToken
from authlib.integrations.base_client import OAuthError
from authlib.integrations.django_client import DjangoIntegration, DjangoOAuth2App
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET
from joserfc.errors import JoseError
from requests import RequestException, Response, Timeout

from agents.cache import TtlCache
from agents.models import ProviderGroup
from chat.access.sign_in import UnavailableError, VouchedBackend, accounts_at, admit, message_page

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

_published: TtlCache[dict[str, Any]] = TtlCache(600.0)

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
    """What the provider publishes (its addresses, then its keys) is cached; an unknown key is looked for at once."""

    client_cls = BoundedSession

    def __init__(self) -> None:
        at = f"{settings.OIDC_SERVER_URL.rstrip('/')}/.well-known/openid-configuration"
        if urlsplit(at).scheme != "https" and urlsplit(at).hostname not in ("localhost", "127.0.0.1"):
            raise OAuthError("https")
        names = {"client_id": settings.OIDC_CLIENT_ID, "client_secret": settings.OIDC_CLIENT_SECRET}
        super().__init__(DjangoIntegration("oidc"), **names, server_metadata_url=at)
        self.server_metadata = published = _published.get(self.load_server_metadata, at)
        if published["issuer"].rstrip("/") != settings.OIDC_SERVER_URL.rstrip("/"):
            raise OAuthError("issuer")
        scopes = [name for name in SCOPES if name in published.get("scopes_supported", SCOPES[:3])]
        self.client_kwargs = {"scope": " ".join(scopes), "code_challenge_method": "S256"}
        if (posted := "client_secret_post") in published.get("token_endpoint_auth_methods_supported", ()):
            self.client_kwargs |= {"token_endpoint_auth_method": posted}
        required = {"iss": published["issuer"], "aud": self.client_id}
        self.claims_options = {name: {"essential": True, "value": value} for name, value in required.items()}

    def claims(self, tokens: dict[str, Any], checked: dict[str, Any]) -> dict[str, Any]:
        """The claims of a checked token (`sub` at least), with those of the userinfo page."""
        answer = self.get(self.server_metadata["userinfo_endpoint"], token=tokens)
        userinfo = self.checked(answer.text) if "jwt" in answer.headers["Content-Type"] else answer.json()
        subject = checked["sub"]
        if answer.status_code != 200 or userinfo["sub"] != subject or len(subject) > 191 or not subject.strip():
            raise OAuthError("userinfo")
        return {**checked, **userinfo}

    def checked(self, token: str) -> dict[str, Any]:
        return dict(self.parse_id_token({"id_token": token}, None, self.claims_options, CodeIDToken))


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
            identity = provider.checked(tokens["id_token"]) if "id_token" in tokens else {}
            claims = provider.claims(tokens, {"sub": token.account.uid, **identity})
            # Some name groups in tokens of identity alone: where none came, nothing is known of them.
            names_groups = identity or not claims.keys().isdisjoint(GROUP_CLAIMS)
            held = ProviderGroup.objects.filter(group__user=token.account.user)
            return _groups(claims) if names_groups else list(held.values_list("name", flat=True))
        except RequestException as error:
            raise UnavailableError from error
        except WRONG:
            return None


@require_GET
@rate_limit(action="provider", limit_get=True)  # type: ignore[untyped-decorator]  # the package ships no types
def begin(request: HttpRequest) -> HttpResponse:
    """Send a browser to the provider."""
    request.session["provider_next"] = get_next_redirect_url(request)
    back = request.build_absolute_uri(reverse("provider-back"))
    answer, refusal = _asked(request, lambda provider: provider.authorize_redirect(request, back).url)
    return refusal or HttpResponseRedirect(answer)


@require_GET
def end(request: HttpRequest) -> HttpResponse:
    """Where the provider sends it back."""

    def ask(provider: Provider) -> tuple[dict[str, Any], dict[str, str]]:
        tokens = provider.authorize_access_token(request, claims_options=provider.claims_options)
        refresh = tokens.get("refresh_token") or ""
        # One of the two is enough to ask again.
        secrets = {"token_secret": refresh, "token": "" if refresh else tokens["access_token"]}
        return provider.claims(tokens, tokens["userinfo"]), secrets

    answer, refusal = _asked(request, ask)
    if refusal:
        return refusal
    claims, secrets = answer
    user = admit("oidc", claims["sub"], _groups(claims), lambda: _account(claims), **secrets)
    user.backend = "chat.access.provider.ProviderBackend"
    page: HttpResponse = perform_login(request, user, redirect_url=request.session.pop("provider_next", None))
    return page


def _account(claims: dict[str, Any]) -> User:
    """A new account, or the one of staff's making to which an address leads that the provider has verified: no
    superuser's, and none that somebody else comes to by the provider already.
    """
    texts = {name: text.replace("\0", "") for name, text in claims.items() if isinstance(text, str)}
    email = texts.get("email", "") if claims.get("email_verified") is True else ""
    same = accounts_at(email) if email else []
    if len(same) == 1 and not (same[0].is_superuser or SocialAccount.objects.filter(user=same[0]).exists()):
        # A password would be a door that the provider cannot close.
        same[0].set_unusable_password()
        same[0].save(update_fields=["password"])
        return same[0]
    first, _space, last = texts.get("name", "").partition(" ")
    last = texts.get("family_name", texts.get("usual_name", last))
    free = get_adapter().generate_unique_username([texts.get("preferred_username"), texts.get("email"), first, "user"])
    names = {"first_name": texts.get("given_name", first)[:150], "last_name": last[:150]}
    return User.objects.create_user(free, "" if same else email, **names)


def _groups(claims: dict[str, Any]) -> list[str]:
    lists = [claims[name] for name in GROUP_CLAIMS if isinstance(claims.get(name), list)]
    return [name for names in lists for name in names if isinstance(name, str)][:MOST_GROUPS]


def _asked(request: HttpRequest, ask: Callable[[Provider], Any]) -> tuple[Any, HttpResponse | None]:
    """The provider's answer, or a page that says why nobody was signed in; the log has the kind of the error alone."""
    try:
        return ask(Provider()), None
    except (RequestException, *WRONG) as error:
        logger.warning("provider sign-in refused reason=%s", type(error).__name__)
        is_down = isinstance(error, RequestException)
    message = _("Votre organisation a donné une réponse qui n’est pas valable, ou qui arrive trop tard.")
    if is_down:
        message = _("Le service de connexion de votre organisation ne répond pas. Réessayez dans un moment.")
    elif "error" in request.GET:
        message = _("La connexion a été annulée, ou refusée par votre organisation.")
    return None, message_page(request, message, 503 if is_down else 403, again=reverse("account_login"))
