"""What stands around the content of pages: neighbours, contents, frames; and where each page is in its site."""

import pytest

from knowledge.readers.base import ParsedDocument
from knowledge.readers.html import parse_html


def read(body: str, head: str = "", *, name: str = "page.html", pages: frozenset[str] = frozenset()) -> ParsedDocument:
    page = f"<html><head><meta charset='utf-8'>{head}</head><body>{body}</body></html>"
    return parse_html(page.encode(), filename=name, pages=pages)


def said(parsed: ParsedDocument) -> str:
    return "\n".join(" > ".join((*block.headings, block.text)) for block in parsed.blocks)


MANUAL_HEAD = (
    "<title>9.7. Planification</title><link rel='up' href='services.html' title='Chapitre 9. Services'>"
    "<link rel='prev' href='inetd.html' title='9.6. Inetd'><link rel='next' href='anacron.html' title='9.8. Anacron'>"
)
MANUAL = (
    "<div class='navheader'><table><tr><th colspan='3'>9.7. Planification</th></tr><tr><td><a accesskey='p' href='inetd.html'>Prev</a></td>"
    "<th>Chapitre 9. Services</th><td><a accesskey='n' href='anacron.html'>Next</a></td></tr></table></div>"
    "<div class='sect1'><h2><a id='cron'></a>9.7. Planification</h2>"
    "<div class='toc'><p><b>Table des matières</b></p><dl><dt><a href='#format'>9.7.1. Format</a></dt><dt><a href='#at'>9.7.2. At</a></dt>"
    "<dt><a href='#fin'>9.7.3. Fin</a></dt></dl></div>"
    "<p>Le démon cron exécute des commandes.</p>"
    "<h3 id='format'>9.7.1. Format<a href='#format'>¶</a></h3><p>Cinq champs.</p>"
    "<div id='at'><h3>9.7.2. At</h3><p>Une seule fois.</p></div><h3 id='fin'>9.7.3. Fin</h3><p>Voir aussi <a href='anacron.html'>anacron</a>.</p></div>"
    "<div class='navfooter'><table><tr><td><a accesskey='p' href='inetd.html'>Prev</a></td><td><a accesskey='n' href='anacron.html'>Next</a></td></tr>"
    "<tr><td>9.6. Inetd</td><td>9.8. Anacron</td></tr></table></div>"
)


def test_links_to_neighbours_and_headings_of_the_page_are_no_content_and_passages_have_the_anchors_of_theirs() -> None:
    parsed = read(MANUAL, MANUAL_HEAD)
    assert parsed.title == "9.7. Planification"
    assert [(block.headings, block.anchor, block.text) for block in parsed.blocks] == [
        ((), "cron", "Le démon cron exécute des commandes."),
        (("9.7.1. Format",), "format", "Cinq champs."),
        (("9.7.2. At",), "at", "Une seule fois."),
        (("9.7.3. Fin",), "fin", "Voir aussi anacron."),
    ]


PAGES = frozenset(f"p{n}" for n in range(8))


@pytest.mark.parametrize(
    "frame",
    [
        "<div class='footer'>Ville de Brume 2026</div>",
        "<div class='navheader'><p>Ville de Brume</p></div>",
        "<div id='cookie-banner'>Ville de Brume pose des traceurs</div>",
        "<div role='banner'>Ville de Brume</div>",
    ],
)
def test_what_surrounds_the_content_is_told_by_its_name(frame: str) -> None:
    assert said(read(f"{frame}<h1>Piscine</h1><p>Texte.</p>")) == "Texte."
    assert said(read(f"<div class='texte'><h1>Piscine</h1><p>Texte.</p>{frame}</div>")) == "Texte."
    assert "Brume" in said(read(frame.replace(">", "><h1>Titre</h1>", 1) + "<p>Texte.</p>"))


def test_menu_of_pages_that_are_read_as_well_is_no_content() -> None:
    menu = "<div><a href='p1.html'>Agenda</a> <a href='p2.html'>Annuaire</a> <a href='p4.html'>Accès</a></div>"
    page = f"{menu}<h1>Piscine</h1><p>Texte.</p>"
    assert said(read(page, name="p3.html", pages=PAGES)) == "Texte."
    assert "Annuaire" in said(read(page, name="p3.html"))


CONTENTS = "<h1>Sommaire</h1><ul><li><a href='p1.html'>Un</a></li><li><a href='p2.html'>Deux</a></li><li><a href='p3.html#x'>Trois</a></li></ul>"


def test_contents_of_pages_that_are_read_as_well_answer_nothing() -> None:
    parsed = read(CONTENTS, name="index.html", pages=PAGES)
    assert parsed.blocks == ()
    assert "Sommaire" in parsed.notices[0]
    assert "Deux" in said(read(CONTENTS, name="index.html"))
    forms = CONTENTS.replace("p1.html", "a.pdf").replace("p2.html", "b.pdf")
    assert "Deux" in said(read(forms, name="index.html", pages=PAGES))
