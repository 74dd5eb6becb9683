"""Static files: compressed, kept by browsers for as long as they are the same, and out of the way of everything else.

Their address has a version, a hash of all of them (`/static/v-3f2a91c0d4e5/chat/page.js`), so that a script finds the
scripts that it imports beside it, and the browser asks for none of them twice. WhiteNoise finds and serves the files;
it is asked for their addresses alone, so that a stream is not held in a thread for it.
"""

import gzip
import hashlib
import re
from collections.abc import Awaitable
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from whitenoise.middleware import WhiteNoiseMiddleware

_VERSIONED = re.compile(r"v-([0-9a-f]{12})/")
#: A year, the longest that caches keep anything (RFC 9111 names no more; browsers hold to it).
_FOREVER = "max-age=31536000, public, immutable"
#: What shrinks; pictures and fonts are compressed already.
_COMPRESSIBLE = re.compile(r"text/|image/svg|application/(json|manifest\+json|javascript)")
_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")
#: Above the project's own files there are some hundred of the admin's.
_COMPRESSED_FILES = 512


class VersionedStorage(StaticFilesStorage):
    """Addresses with the version of all files; without one where files change (`DEBUG`), or where `collectstatic` was
    run for a server of somebody's own.
    """

    def url(self, name: str | None) -> str:
        address = super().url(name)
        if settings.DEBUG or Path(settings.STATIC_ROOT).is_dir():
            return address
        base = self.base_url or ""
        return f"{base}v-{version()}/{address.removeprefix(base)}"


@lru_cache(maxsize=1)
def version() -> str:
    """Twelve hexadecimal digits of what the files hold: the same on every machine that runs this version."""
    digest = hashlib.blake2b(digest_size=6)
    for finder in finders.get_finders():
        for path, storage in sorted(finder.list(None), key=lambda each: each[0]):
            digest.update(path.encode())
            digest.update(Path(storage.path(path)).read_bytes())
    return digest.hexdigest()


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]
    """The middleware; on the event loop where the others are."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if not request.path_info.startswith(self.static_prefix):
            response: HttpResponseBase | Awaitable[HttpResponseBase] = self.get_response(request)
            return response
        return self._later(request) if self._is_async else self._file_or_next(request)

    async def _later(self, request: HttpRequest) -> HttpResponseBase:
        found = await sync_to_async(self._file, thread_sensitive=False)(request)
        return found or await self.get_response(request)

    def _file_or_next(self, request: HttpRequest) -> HttpResponseBase:
        return self._file(request) or self.get_response(request)

    def _file(self, request: HttpRequest) -> HttpResponseBase | None:
        name = request.path_info.removeprefix(self.static_prefix)
        named = _VERSIONED.match(name)
        path = self.static_prefix + name[named.end() if named else 0 :]
        file = self.find_file(path) if self.autorefresh else self.files.get(path)
        if file is None:
            return None
        response: HttpResponse = _smaller(file, request) or self.serve(file, request)
        if named is not None:
            # While processes are upgraded, a page of the new version may ask one of the old.
            is_this = named[1] == version()
            response["Cache-Control"] = _FOREVER if is_this else "no-store"
        if _COMPRESSIBLE.match(response.get("Content-Type", "")):
            patch_vary_headers(response, ["Accept-Encoding"])
        return response


def _smaller(file: Any, request: HttpRequest) -> HttpResponse | None:
    """The whole file compressed, where it shrinks and the browser takes that."""
    if (
        not _GZIP.search(request.headers.get("Accept-Encoding", ""))
        or request.method != "GET"
        or "Range" in request.headers
    ):
        return None
    told = file.get_response("HEAD", request.META)
    headers = dict(told.headers)
    if told.status != HTTPStatus.OK or not _COMPRESSIBLE.match(headers.get("Content-Type", "")):
        return None
    _accepted, path, _headers = file.alternatives[0]
    body = _compressed(path, Path(path).stat().st_mtime_ns)
    return HttpResponse(body, headers=headers | {"Content-Encoding": "gzip", "Content-Length": str(len(body))})


@lru_cache(maxsize=_COMPRESSED_FILES)
def _compressed(path: str, changed_at: int) -> bytes:
    return gzip.compress(Path(path).read_bytes(), mtime=0)
