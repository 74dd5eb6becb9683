"""Which origins may open a socket: the site's own by scheme, host and port, and those that forms are accepted from."""

from typing import Any

import pytest
from pytest_django.fixtures import Settings

from chat.api.asgi import is_allowed


def scope(host: str, *origins: str, scheme: str = "ws", **headers: str) -> dict[str, Any]:
    sent = [("host", host), *(("origin", origin) for origin in origins), *headers.items()]
    return {
        "type": "websocket",
        "path": "/ws/",
        "scheme": scheme,
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in sent],
    }


@pytest.mark.parametrize(
    ("host", "origins", "allowed"),
    [
        ("localhost:8000", ("http://localhost:8000",), True),
        ("localhost", ("http://localhost:80",), True),
        # The fault: another program of the same machine.
        ("localhost:8000", ("http://localhost:9999",), False),
        ("localhost:8000", ("http://localhost",), False),
        ("localhost:8000", ("https://localhost:8000",), False),
        ("localhost:8000", ("http://127.0.0.1:8000",), False),
        ("localhost:8000", ("http://localhost:8000.attacker.example",), False),
        ("localhost:8000", ("http://localhost:99999999",), False),
        ("localhost:8000", ("HTTP://LOCALHOST:8000",), True),
        # What no browser writes: more than an origin.
        ("localhost:8000", ("http://user@localhost:8000",), False),
        ("localhost:8000", ("http://:word@localhost:8000",), False),
        ("localhost:8000", ("http://@localhost:8000",), False),
        ("localhost:8000", ("http://localhost:8000/",), False),
        ("localhost:8000", ("http://localhost:8000/x",), False),
        ("localhost:8000", ("http://localhost:8000?x",), False),
        ("localhost:8000", ("http://localhost:8000?",), False),
        ("localhost:8000", ("http://localhost:8000#",), False),
        ("localhost:8000", ("http://localhost:8000\t",), False),
        ("localhost", ("http://localhost:",), False),
        ("localhost:8000", ("null",), False),
        ("localhost:8000", ("",), False),
        ("localhost:8000", (), False),
        ("localhost:8000", ("http://localhost:8000", "http://attacker.example"), False),
        # Both headers may be the attacker's (a name that leads here): the host must be one of ours.
        ("attacker.example", ("http://attacker.example",), False),
    ],
)
def test_a_page_of_this_site_only(host: str, origins: tuple[str, ...], allowed: bool) -> None:
    assert is_allowed(scope(host, *origins)) is allowed


def test_behind_tls_the_proxys_scheme_counts(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["desk.example.org"]
    behind = scope("desk.example.org", "https://desk.example.org", x_forwarded_proto="https")
    assert not is_allowed(behind)
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert is_allowed(behind)
    assert not is_allowed(scope("desk.example.org", "http://desk.example.org", x_forwarded_proto="https"))
    assert is_allowed(scope("desk.example.org", "https://desk.example.org", scheme="wss"))


@pytest.mark.parametrize(
    ("trusted", "origin", "allowed"),
    [
        ("https://desk.example.org", "https://desk.example.org", True),
        ("https://desk.example.org", "https://desk.example.org:8443", False),
        ("https://desk.example.org", "http://desk.example.org", False),
        ("https://*.example.org", "https://desk.example.org", True),
        ("https://*.example.org", "https://notexample.org", False),
        ("https://*.example.org:8443", "https://desk.example.org:8443", True),
    ],
)
def test_the_origins_that_forms_are_accepted_from(settings: Settings, trusted: str, origin: str, allowed: bool) -> None:
    settings.CSRF_TRUSTED_ORIGINS = [trusted]
    assert is_allowed(scope("localhost:8000", origin)) is allowed
