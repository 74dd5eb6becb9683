"""Static files as a browser asks for them: compressed, for ever under the version of all, and in no stream's way."""

import gzip
import re
from typing import Any

import pytest
from django.conf import settings as site_settings
from django.contrib.staticfiles import finders
from django.templatetags.static import static
from django.test import Client
from django.utils.module_loading import import_string

from config.static_files import version
from tests.factories import make_deployment

PLAIN = "/static/chat/page.js"


@pytest.fixture
def client(settings: Any) -> Client:
    """A site that finds its files, which others of the suite do without."""
    settings.WHITENOISE_USE_FINDERS = True
    settings.WHITENOISE_AUTOREFRESH = False
    return Client()


def body(response: Any) -> bytes:
    return b"".join(response)


def test_text_is_compressed_as_the_browser_takes_it(client: Client) -> None:
    text = body(client.get(PLAIN))
    for accepted, encoding, back in (
        ("gzip, deflate, br, zstd", "gzip", gzip.decompress),
        ("br, gzip;q=0.5", "gzip", gzip.decompress),
        ("gzip;q=0, br;q=0.0", None, bytes),
        ("", None, bytes),
    ):
        response = client.get(PLAIN, headers={"Accept-Encoding": accepted})
        assert response.get("Content-Encoding") == encoding
        assert response["Vary"] == "Accept-Encoding"
        assert response["Content-Type"].startswith("text/javascript")
        sent = body(response)
        assert len(sent) == int(response["Content-Length"])
        assert back(sent) == text


def test_what_did_not_change_is_not_sent_again(client: Client) -> None:
    first = client.get(static("chat/chat.css"), headers={"Accept-Encoding": "gzip"})
    again = client.get(static("chat/chat.css"), headers={"Accept-Encoding": "gzip", "If-None-Match": first["ETag"]})
    assert again.status_code == 304
    assert "Content-Encoding" not in again


def test_address_of_this_version_is_kept_for_ever_and_of_another_never(client: Client) -> None:
    address = static("chat/page.js")
    assert address == f"/static/v-{version()}/chat/page.js"
    assert "immutable" in client.get(address)["Cache-Control"]
    older = address.replace(version(), "0" * 12)
    assert client.get(older)["Cache-Control"] == "no-store"
    assert body(client.get(older)) == body(client.get(PLAIN))
    assert "immutable" not in client.get(PLAIN)["Cache-Control"]
    assert client.get(f"/static/v-{version()}/chat/nothing.js").status_code == 404
    assert client.get(f"/static/v-{version()}/../settings.py").status_code == 404


def test_pictures_and_parts_come_as_they_are(client: Client) -> None:
    part = client.get(PLAIN, headers={"Accept-Encoding": "gzip", "Range": "bytes=0-9"})
    assert part.status_code == 206
    assert len(body(part)) == 10
    assert client.post(PLAIN).status_code == 405
    picture = next(
        path for finder in finders.get_finders() for path, _storage in finder.list(None) if path.endswith(".woff2")
    )
    assert "Content-Encoding" not in client.get(static(picture), headers={"Accept-Encoding": "gzip"})


@pytest.mark.django_db
def test_first_view_is_below_sixty_kilobytes(client: Client) -> None:
    make_deployment()
    page = client.get("/").content
    shorter = client.get("/", headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(shorter.content).startswith(page[:1000])
    asked = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', page.decode()))
    for address in list(asked):
        named = re.findall(rb'from "\./([^"]+)"', body(client.get(address)))
        assert {f"{address.rpartition('/')[0]}/{name.decode()}" for name in named} <= asked
    sent = sum(len(body(client.get(address, headers={"Accept-Encoding": "gzip"}))) for address in asked)
    assert len(shorter.content) + sent < 60_000
    assert len(asked) > 10


def test_no_middleware_takes_a_thread_for_a_stream() -> None:
    assert all(import_string(path).async_capable for path in site_settings.MIDDLEWARE)
