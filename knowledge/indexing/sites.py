"""The sites that an agent's pages belong to, and what the pages of each have in common.

Learned from stored files when a page of the site is read, from as many as tell; nothing of it is kept, so it never is
out of date.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import urlsplit

from knowledge.exceptions import UnreadableDocumentError
from knowledge.isolation import Reader
from knowledge.models import Document
from knowledge.readers.html.site import LEAST_PAGES, SiteLayout, learn_layout

#: Pages of one site from which the frame around their content is learned: enough for a place that a third of them
#: share.
SITE_SAMPLE_PAGES = 30

_PAGES = (".html", ".htm", ".xhtml")


class SiteLayouts:
    """Of one run, by agent and site; each is learned once, at its first page."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._pages: dict[int, dict[str, list[Document]]] = {}
        self._learned: dict[tuple[int, str], SiteLayout | None] = {}

    def of(self, document: Document) -> SiteLayout | None:
        """The layout of a page's site; `None` for what is no page, or where too few are known."""
        if not _is_page(document):
            return None
        sites = self._sites(document.agent_id)
        site = site_of(document.name)
        if len(sites[site]) < LEAST_PAGES and not document.url:
            site = ""
        key = (document.agent_id, site)
        if key not in self._learned:
            self._learned[key] = self._learn(sites[site])
        return self._learned[key]

    def _sites(self, agent_id: int) -> dict[str, list[Document]]:
        """The pages of an agent by site. Those of files are also together: a folder may hold pages and folders of one
        site.
        """
        if agent_id not in self._pages:
            sites: defaultdict[str, list[Document]] = defaultdict(list)
            rows = Document.objects.filter(agent_id=agent_id).exclude(file="")
            for document in rows.only("pk", "name", "file"):
                if not _is_page(document):
                    continue
                for site in {site_of(document.name), site_of(document.name) if document.url else ""}:
                    sites[site].append(document)
            self._pages[agent_id] = sites
        return self._pages[agent_id]

    def _learn(self, pages: Sequence[Document]) -> SiteLayout | None:
        if len(pages) < LEAST_PAGES:
            return None
        sample = sorted(pages, key=lambda page: hashlib.sha256(page.name.encode()).digest())
        shapes = []
        for page in sample[:SITE_SAMPLE_PAGES]:
            try:
                with page.file.open("rb") as file:
                    shapes.append(self._reader.shape(file.read(), filename=page.file_name))
            except (UnreadableDocumentError, OSError, ValueError):
                # It tells nothing of the others; its own reading says why.
                continue
        return learn_layout(shapes, [page.name for page in pages])


def site_of(name: str) -> str:
    """The site that a page belongs to: its host, or the outermost folder of its path."""
    if "://" in name:
        return urlsplit(name).netloc.lower()
    folder, _, rest = name.partition("/")
    return folder if rest else ""


def _is_page(document: Document) -> bool:
    return document.file_name.lower().endswith(_PAGES)
