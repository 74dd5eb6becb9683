"""Refreshes web pages: fetches what a source names, stores it as documents, and disables deleted pages.

Each page is processed on its own, so a run that was cut resumes. A page that cannot be fetched keeps its document; a
page deleted or taken off its sitemap is disabled, and enabled when it is back unless staff decided otherwise. The
caller holds the source's lock (`knowledge.indexing.jobs`).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import httpx2
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.effective import agent_setting
from agents.models import Agent
from knowledge.errors import KnowledgeError, PageRefusedError, PageUnavailableError
from knowledge.indexing.path import store_document
from knowledge.indexing.points import IndexReport, OnProgress, no_progress
from knowledge.models import BuildPhase, Category, Document, DocumentStatus, PageState, SourceKind, WebPage, WebSource
from knowledge.readers.registry import suffix_of_page
from knowledge.web import (
    Fetched,
    Gone,
    Unchanged,
    fetch_page,
    is_sitemap,
    looks_like_sitemap,
    normal_address,
    own_address,
    read_sitemap,
    site_robots,
)

_UTF8_MARK = b"\xef\xbb\xbf"


def add_source(*, agent: Agent, address: str, category: Category | None = None) -> WebSource:
    """Store an address to follow, or the known one. Raises `PageRefusedError` for a bad address."""
    url = normal_address(address)
    kind = SourceKind.SITEMAP if looks_like_sitemap(url) else SourceKind.PAGE
    source, _new = WebSource.objects.get_or_create(agent=agent, url=url, defaults={"kind": kind})
    source.is_active, source.category = True, category or source.category
    source.save(update_fields=["is_active", "category"])
    return source


def next_reading(source: WebSource) -> datetime | None:
    """When a source is due again; `None`: never automatically."""
    hours = source.refresh_hours
    if hours is None:
        hours = int(agent_setting(source.agent, "page_refresh_hours"))
    if not source.is_active or not hours:
        return None
    return source.checked_at + timedelta(hours=hours) if source.checked_at else timezone.now()


def refresh_pages(
    source: WebSource, *, since: datetime, report: IndexReport, on_progress: OnProgress = no_progress
) -> list[Document]:
    """Fetch the source's pages, except those processed since `since`; returns the documents to index."""
    try:
        _fetch_all(source, since, report, on_progress)
    except KnowledgeError as error:
        source.error = f"{error.public_message} ({error})"
        raise
    else:
        source.error = ""
    finally:
        source.checked_at = timezone.now()
        WebSource.objects.filter(pk=source.pk).update(checked_at=source.checked_at, error=source.error)
    waiting = Document.objects.filter(page__source=source, status=DocumentStatus.PENDING)
    return list(waiting.exclude(file="").select_related("agent", "category"))


def _fetch_all(source: WebSource, since: datetime, report: IndexReport, on_progress: OnProgress) -> None:
    if source.kind == SourceKind.PAGE:
        on_progress(0, 1, BuildPhase.FETCHING)
        page = _page(source, source.url, report)
        if page is None or _is_settled(page, since):
            return
        found = _fetch(page, report)  # its failure is the source's
        if not (isinstance(found, Fetched) and is_sitemap(found.data)):
            _settle(source, page, found, report)
            on_progress(1, 1, BuildPhase.FETCHING)
            return
        source.kind = SourceKind.SITEMAP
        source.save(update_fields=["kind"])
        page.document.delete()
    _read_sitemap(source, since, report, on_progress)


def _fetch(page: WebPage, report: IndexReport) -> Fetched | Unchanged | Gone:
    """Fetch a page; a failure is noted and raised."""
    try:
        return fetch_page(page.document.name, etag=page.etag, last_modified=page.last_modified)
    except KnowledgeError as error:
        _note_failure(page, error, report)
        raise


def _is_settled(page: WebPage, since: datetime) -> bool:
    """Whether an earlier attempt has processed the page without failure."""
    return page.checked_at is not None and page.checked_at >= since and page.state != PageState.FAILED


def _read_sitemap(source: WebSource, since: datetime, report: IndexReport, on_progress: OnProgress) -> None:
    sitemap = read_sitemap(source.url)
    for item, reason in sitemap.notices:
        report.skip(item, reason)
    may_fetch = site_robots(source.url)
    allowed = [address for address in sitemap.addresses if may_fetch(address)]
    if forbidden := len(sitemap.addresses) - len(allowed):
        reason = _("%(count)d pages sont laissées de côté, comme robots.txt le demande.")
        report.skip(source.url, reason % {"count": forbidden})
    chosen = _chosen(source, allowed, report)
    listed = dict.fromkeys(allowed)
    for done, address in enumerate(chosen):
        on_progress(done, len(chosen), BuildPhase.FETCHING)
        page = _page(source, address, report)
        if page is None or _is_settled(page, since):
            continue
        try:
            found = _fetch(page, report)
        except (PageRefusedError, PageUnavailableError):
            continue
        own = own_address(address, found) if isinstance(found, Fetched) else address
        if own == address:
            _settle(source, page, found, report)
        elif own:
            # One page is one document, whatever it is called.
            if own not in listed and may_fetch(own):
                listed[own] = None
                chosen.append(own)
            _note_copy(page, _("Cette page est %(address)s, qui est lue à sa place.") % {"address": own}, report)
        else:
            _note_copy(page, _("Cette page demande à ne pas être trouvée (noindex)."), report)
    on_progress(len(chosen), len(chosen), BuildPhase.FETCHING)
    if sitemap.is_complete:
        _note_left(source, set(listed), report)


def _note_copy(page: WebPage, reason: str, report: IndexReport) -> None:
    """Of a page that is not read: without content it has no document, one that was read before is disabled."""
    report.skip(page.document.name, reason)
    if not page.document.file:
        page.document.delete()
        return
    _note(page, PageState.LEFT, reason, serves=False)


def _chosen(source: WebSource, addresses: Sequence[str], report: IndexReport) -> list[str]:
    """The addresses to follow, up to the limit, known ones first."""
    limit = settings.SITEMAP_MAX_PAGES
    if len(addresses) <= limit:
        return list(addresses)
    known = set(source.pages.values_list("document__name", flat=True))
    ordered = sorted(addresses, key=lambda address: address not in known)
    reason = _("Ce plan liste %(count)d pages ; %(limit)d au plus sont suivies.")
    report.skip(source.url, reason % {"count": len(addresses), "limit": limit})
    return ordered[:limit]


def _page(source: WebSource, address: str, report: IndexReport) -> WebPage | None:
    """The page's row; `None` where another source of the agent has it."""
    with transaction.atomic():
        document, _new = Document.objects.get_or_create(
            agent=source.agent, name=address, defaults={"category": source.category}
        )
        page, _new = WebPage.objects.select_related("document", "source").get_or_create(
            document=document, defaults={"source": source}
        )
        if page.source_id is None:
            page.source = source
            page.save(update_fields=["source"])
    if page.source_id != source.pk:
        report.skip(address, _("Cette page est déjà suivie par %(source)s.") % {"source": page.source})
        return None
    return page


def _settle(source: WebSource, page: WebPage, found: Fetched | Unchanged | Gone, report: IndexReport) -> None:
    report.pages += 1
    if isinstance(found, Gone):
        _note_gone(page, found, report)
        return
    if isinstance(found, Fetched):
        try:
            suffix = suffix_of_page(found.data, path=httpx2.URL(found.address).path, media_type=found.kind)
        except KnowledgeError as error:
            _note_failure(page, error, report)
            return
        stored = store_document(
            agent=source.agent,
            name=page.document.name,
            data=_as_utf8(found, suffix),
            category=page.document.category or source.category,
            suffix=suffix,
        )
        report.unchanged += not stored.changed
        page.etag, page.last_modified = found.etag, found.last_modified
    else:
        report.unchanged += 1
    _note(page, PageState.PRESENT, serves=True)


def _as_utf8(found: Fetched, suffix: str) -> bytes:
    """Text in the encoding that its server named, which counts more than what the page says (HTML, section 13.2.3)."""
    if not found.charset or suffix not in (".html", ".txt", ".md", ".csv", ".tsv"):
        return found.data
    try:
        text = found.data.removeprefix(_UTF8_MARK).decode(found.charset)
    except (LookupError, UnicodeError):
        return found.data
    return _UTF8_MARK + text.encode("utf-8", "replace")


def _note_gone(page: WebPage, found: Gone, report: IndexReport) -> None:
    """Disable a page that is gone at two readings in a row."""
    report.gone += 1
    reason = _("Le site a répondu par l’erreur %(status)d.") % {"status": found.status}
    report.skip(page.document.name, reason)
    if page.state == PageState.GONE:
        _note(page, PageState.GONE, reason)
    elif page.error == reason:
        _note(page, PageState.GONE, reason, serves=False)
    else:
        _note(page, PageState.FAILED, reason)


def _note_left(source: WebSource, listed: set[str], report: IndexReport) -> None:
    """Disable pages that the sitemap lists no more."""
    for page in source.pages.exclude(state=PageState.LEFT).select_related("document"):
        if page.document.name not in listed:
            report.gone += 1
            report.skip(page.document.name, _("Le plan du site ne liste plus cette page."))
            _note(page, PageState.LEFT, serves=False)


def _note_failure(page: WebPage, error: KnowledgeError, report: IndexReport) -> None:
    reason = f"{error.public_message} ({error})"
    report.fail(page.document.name, reason)
    _note(page, PageState.FAILED, reason)


def _note(page: WebPage, state: PageState, error: str = "", *, serves: bool | None = None) -> None:
    """Store how a page was found. `serves` takes its document out of answers, once, or back where that is what took it
    out (`knowledge.signals` follows): who decides otherwise in between is not overruled."""
    if serves is not None and page.switched_off == serves:
        page.switched_off = not serves and page.document.enabled
        if page.document.enabled != serves:
            page.document.enabled = serves
            page.document.save(update_fields=["enabled"])
    page.state, page.error, page.checked_at = state, error, timezone.now()
    if error:  # unless an earlier reading gave it content
        Document.objects.filter(pk=page.pk, file="").update(status=DocumentStatus.FAILED, error=error)
    # By key: a document that was deleted meanwhile took its page along.
    noted = ("state", "error", "etag", "last_modified", "checked_at", "switched_off")
    WebPage.objects.filter(pk=page.pk).update(**{name: getattr(page, name) for name in noted})
