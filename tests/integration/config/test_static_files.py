"""Static files are served from the apps, asked for again only where they changed, and are in no stream's way."""

import gzip
import re
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as site_settings
from django.test import AsyncClient, Client
from django.utils.module_loading import import_string

from tests.factories import make_deployment

SCRIPT = "/static/chat/page.js"


@pytest.fixture
def client(settings: Any) -> Client:
    """A site that finds its files, which others of the suite do without."""
    settings.WHITENOISE_USE_FINDERS = True
    settings.WHITENOISE_AUTOREFRESH = False
    return Client()


def body(response: Any) -> bytes:
    return b"".join(response)


def test_what_did_not_change_is_not_sent_again(client: Client) -> None:
    first = client.get(SCRIPT)
    assert first["Content-Type"].startswith("text/javascript")
    assert "max-age=60" in first["Cache-Control"]
    assert client.get(SCRIPT, headers={"If-Modified-Since": first["Last-Modified"]}).status_code == 304
    assert client.get("/static/../config/settings.py").status_code == 404


def test_files_come_on_the_event_loop_too(client: Client) -> None:
    assert async_to_sync(AsyncClient().get)(SCRIPT).status_code == 200
    assert async_to_sync(AsyncClient().get)("/static/chat/nothing.js").status_code == 404


@pytest.mark.django_db
def test_first_view_is_small_with_all_its_scripts(client: Client) -> None:
    make_deployment()
    page = client.get("/").content
    waiting, files = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', page.decode())), {}
    while waiting:
        address = waiting.pop()
        files[address] = body(client.get(address))
        named = re.findall(rb'from "\./([^"]+)"', files[address])
        waiting |= {f"{address.rpartition('/')[0]}/{name.decode()}" for name in named} - files.keys()
    assert sum(len(gzip.compress(each)) for each in (page, *files.values())) < 60_000
    assert len(files) > 10


def test_no_middleware_takes_a_thread_for_a_stream() -> None:
    assert all(import_string(path).async_capable for path in site_settings.MIDDLEWARE)
