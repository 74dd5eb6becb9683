"""Measure what becomes of HTML sets: words lost and added, code, titles, paths, rows of tables, milliseconds a page.

    python -m benchmarks.documents.markup --kind docbook /usr/share/doc/postgresql-doc-15/html

What a page says is told by selectors written by hand for each generator (`SELECTORS`): they are the measure, not the
product.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import django
from bs4 import BeautifulSoup, Tag

BLOCKS = (
    "address article blockquote br caption dd details div dl dt figcaption figure h1 h2 h3 h4 h5 h6 header hr li main ol p "
    "pre section summary table td th tr ul"
).split()
NEVER = (
    "script, style, noscript, template, iframe, svg, select, input, textarea, nav, button, a.headerlink, a.hash-link"
)
#: By generator: where the content stands, the first that is there, and what in it is none.
SELECTORS = {
    "docbook": (["body"], ".navheader, .navfooter, .toc, .index, .list-of-tables, .list-of-figures"),
    "publican": (["body"], "#banner, #title, ul.docnav, .toc, .index"),
    "sphinx": (
        ["div.body", "div[role=main]", "main", "body"],
        ".toctree-wrapper, .contents.local, .contents.topic, .related, .sphinxsidebar, .genindextable, .indextable, footer",
    ),
    "mkdocs": (["article", "div[role=main]", "main", "body"], ".toc, footer, .related, .sphinxsidebar"),
    "docusaurus": (["article", "main"], "footer, aside, .tocCollapsible, ul[class*=tags]"),
    "wordpress": ([".page-content", "main", "article", "body"], "footer, aside, form, .comments"),
}
COLUMNS = "pages chunks words lost added mixed fences bare empty doubled rows whole milliseconds".split()


def words(text: str) -> list[str]:
    return re.findall(r"\\?\w+", text.casefold())


def plain(text: str) -> str:
    """Without what Markdown adds: numbers of items, languages of code, addresses of links."""
    text = re.sub(r"(?m)^(\s*)\d+\. ", r"\1", text)
    text = re.sub(r"(?m)^(\s*(?:- )?`{3,})[\w+#-]*$", r"\1", text)
    return re.sub(r"\]\((?:https?://|mailto:)[^)]*\)", "]", text)


def truth(data: bytes, kind: str) -> tuple[str, str, list[list[str]]]:
    """The title of a page, the text of its content, and the rows of its tables that have cells to compare."""
    soup = BeautifulSoup(data, "lxml")
    title = soup.title.get_text() if soup.title else ""
    places, none = SELECTORS[kind]
    for tag in soup.select(f"{NEVER}, {none}"):
        tag.decompose()
    for tag in soup.find_all(BLOCKS):
        tag.insert_before("\n")
        tag.insert_after("\n")
    content: Sequence[Tag] = next((f for place in places if (f := soup.select(place))), [])
    tables = [table for part in content for table in part.find_all("table")]
    rows = [
        [" ".join(words(cell.get_text())) for cell in row.find_all(["td", "th"], recursive=False)]
        for table in tables
        if isinstance(table, Tag) and table.find(["table", "pre"]) is None
        for row in table.find_all("tr")
    ]
    filled = [[cell for cell in row if cell] for row in rows]
    return title, "\n".join(p.get_text() for p in content), [r for r in filled if len(r) > 1]


def in_order(cells: Sequence[str], line: str) -> bool:
    at = 0
    for cell in cells:
        at = line.find(cell, at)
        if at < 0:
            return False
        at += len(cell)
    return True


def measure(folder: Path, kind: str, most: int) -> Counter[str]:
    from knowledge.chunking import affordable_chunks
    from knowledge.readers.base import page_name
    from knowledge.readers.registry import parse_document

    pages = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.html"))}
    names = list(pages)
    site = frozenset(map(page_name, names))
    count: Counter[str] = Counter()
    for name in names[:: max(1, len(names) // most)][:most]:
        data = pages[name].read_bytes()
        started = time.process_time()
        parsed = parse_document(data, filename=name, pages=site)
        chunks = affordable_chunks(parsed)[0]
        count["milliseconds"] += round(1_000 * (time.process_time() - started))
        title, text, rows = truth(data, kind)
        expected = Counter(words(text))
        steps = {parsed.title} | {s for c in chunks for s in c.parent_context.split(" > ")}
        headings = Counter(word for step in steps for word in words(step))
        said = Counter(word for chunk in chunks for word in words(plain(chunk.content)))
        allowed = expected + headings + Counter(words(title))
        count["pages"] += 1
        count["chunks"] += len(chunks)
        count["words"] += expected.total()
        count["lost"] += (expected - (said + headings)).total()
        count["added"] += (said - allowed).total()
        for chunk in chunks:
            path = [parsed.title, *filter(None, chunk.parent_context.split(" > "))]
            whole = path[1:] if parsed.title in path[1:] else path
            count["mixed"] += (Counter(words(plain(chunk.content))) - allowed).total() > 2
            count["fences"] += len(re.findall(r"(?m)^\s*(?:- )?`{3,}", chunk.content)) % 2
            last = chunk.content.strip().split("\n")[-1]
            count["bare"] += bool(re.fullmatch(r"\*\*[^*]+\*\*", last))
            count["empty"] += not chunk.parent_context
            count["doubled"] += any(a == b for a, b in zip(whole, whole[1:], strict=False))
        lines = [" ".join(words(line)) for chunk in chunks for line in re.split(r"\n(?! )", plain(chunk.content))]
        count["rows"] += len(rows)
        count["whole"] += sum(any(in_order(row, line) for line in lines) for row in rows)
    count["milliseconds"] //= max(1, count["pages"])
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=sorted(SELECTORS), required=True)
    parser.add_argument("--pages", type=int, default=100, help="at most so many, over the whole set")
    options = parser.parse_args()
    django.setup()
    count = measure(options.folder.resolve(), options.kind, options.pages)
    sys.stdout.write("\n".join(f"{name}\t{count[name]}" for name in COLUMNS) + "\n")


if __name__ == "__main__":
    main()
