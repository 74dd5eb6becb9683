"""Every answer carries the security headers: pages, JSON, streams, static files, refusals, errors."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import include, path, reverse
from pytest_django.fixtures import Settings

from tests.admin_pages import superuser_client
from tests.factories import make_library

pytestmark = pytest.mark.django_db


def policy_of(response: Any) -> dict[str, str]:
    policy: str = response["Content-Security-Policy"]
    return {name: rest for name, _, rest in (part.partition(" ") for part in policy.split("; "))}


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/", 404),
        ("/login/", 200),
        ("/admin/login/", 302),
        ("/admin/", 302),
        ("/admin/nothing/here/", 302),
        ("/healthz", 200),
        ("/nothing-here", 404),
        ("/api/conversations/?deployment=none", 404),
        ("/api/schema/", 403),
        ("/v1/models", 401),
        ("/widget.js", 404),
        ("/static/agents/admin.css", 200),
        ("/static/nothing.js", 404),
    ],
)
def test_every_answer_has_the_headers(address: str, status: int) -> None:
    response = Client().get(address)
    directives = policy_of(response)
    assert directives["default-src"] == "'none'"
    assert "'unsafe-inline'" not in directives["script-src"]
    assert directives["frame-ancestors"] == "'none'"
    assert directives["base-uri"] == "'none'"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] in ("same-origin", "no-referrer")
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in response["Permissions-Policy"]


def test_errors_have_them_too(settings: Settings) -> None:
    client = Client(raise_request_exception=False)
    settings.ROOT_URLCONF = __name__
    failed = client.get("/fails")
    assert failed.status_code == 500
    assert policy_of(failed)["script-src"] == "'self'"
    settings.ROOT_URLCONF = "config.urls"
    refused = client.get("/login/", headers={"host": "attacker.example"})
    assert refused.status_code == 400
    assert "default-src" in policy_of(refused)
    forged = Client(enforce_csrf_checks=True).post("/login/", {"username": "a"})
    assert forged.status_code == 403
    assert "default-src" in policy_of(forged)


def test_pages_keep_the_policy_they_set() -> None:
    make_library()
    assert "ws://testserver" in policy_of(Client().get("/"))["connect-src"]


def test_only_the_admin_may_evaluate_and_style_inline() -> None:
    index = policy_of(superuser_client().get(reverse("admin:index")))
    assert index["script-src"] == "'self' 'unsafe-eval'"
    assert index["style-src"] == "'self' 'unsafe-inline'"
    signing_in = policy_of(Client().get(reverse("account_login")))
    assert (signing_in["script-src"], signing_in["style-src"]) == ("'self'", "'self'")


def test_on_the_event_loop_too() -> None:
    response = async_to_sync(AsyncClient().get)("/healthz")
    assert policy_of(response)["script-src"] == "'none'"


def _fails(_request: object) -> HttpResponse:
    raise RuntimeError("a fault")


urlpatterns = [path("fails", _fails), path("", include("config.urls"))]
