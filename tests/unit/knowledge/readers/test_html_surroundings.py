"""What stands around the content of pages: neighbours, contents, the frame that a site's pages share, and where each
page is.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.readers.base import ParsedDocument
from knowledge.readers.html.page import parse_html
from knowledge.readers.html.shapes import page_shape
from knowledge.readers.html.site import SiteLayout, learn_layout


def read(body: str, head: str = "", *, name: str = "page.html", layout: SiteLayout | None = None) -> ParsedDocument:
    page = f"<html><head><meta charset='utf-8'>{head}</head><body>{body}</body></html>"
    return parse_html(page.encode(), filename=name, layout=layout)


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


def test_links_to_neighbours_and_to_headings_of_the_page_are_no_content() -> None:
    parsed = read(MANUAL, MANUAL_HEAD)

    assert [block.text for block in parsed.blocks] == [
        "Le démon cron exécute des commandes.",
        "Cinq champs.",
        "Une seule fois.",
        "Voir aussi anacron.",
    ]


def test_title_is_in_no_path_and_a_page_says_what_it_is_part_of() -> None:
    parsed = read(MANUAL, MANUAL_HEAD)

    assert parsed.title == "9.7. Planification"
    assert parsed.above == ("Chapitre 9. Services", "9.7. Planification")
    assert [block.headings for block in parsed.blocks] == [(), ("9.7.1. Format",), ("9.7.2. At",), ("9.7.3. Fin",)]


def test_each_passage_has_the_anchor_of_its_heading() -> None:
    assert [block.anchor for block in read(MANUAL, MANUAL_HEAD).blocks] == ["cron", "format", "at", "fin"]


def test_trail_is_read_from_breadcrumbs_without_the_first_page_of_the_site() -> None:
    crumbs = (
        "<nav aria-label='breadcrumb'><ol><li><a href='/'>Ma ville</a></li><li><a href='/e/'>Enfance</a></li>"
        "<li>Crèches</li></ol></nav>"
    )
    assert read(f"{crumbs}<h1>Crèches</h1><p>Texte.</p>").above == ("Enfance", "Crèches")
    written = "<div><a href='../index.html'>Guide 3.1</a> » <a href='i.html'>Réseau</a> » <a href=''>Ports</a></div>"
    page = read(f"{written}<h1>Ports</h1><p>Texte.</p>", name="reseau/ports.html")
    assert page.above == ("Réseau", "Ports")
    assert read("<h1>Seule</h1><p>Texte.</p>").above == ()


def site(count: int, body: str) -> SiteLayout:
    names = [f"p{n}.html" for n in range(count)]
    frame = "<div class='top'><a href='/a'>Agenda</a> <a href='/b'>Annuaire</a></div>{}<p class='legal'>Ville de Brume 2026</p>"
    pages = [f"<html><body>{frame.format(body.format(n))}</body></html>".encode() for n in range(count)]
    layout = learn_layout([page_shape(page, filename=name) for page, name in zip(pages, names, strict=True)], names)
    assert layout is not None
    return layout


FRAME = (
    "<div class='top'><a href='/a'>Agenda</a> <a href='/b'>Annuaire</a></div>{}<p class='legal'>Ville de Brume 2026</p>"
)
ALERT = (
    "<div class='alert'>En cas d’urgence, appelez le 15 à toute heure du jour et de la nuit, aussi le dimanche.</div>"
)


def test_what_the_pages_of_a_site_repeat_is_learned_whatever_it_is_called() -> None:
    layout = site(8, "<h1>Titre {0}</h1><p>Texte {0}.</p>")

    parsed = read(FRAME.format("<h1>Piscine</h1><p>Texte.</p>"), name="p3.html", layout=layout)
    assert said(parsed) == "Texte."
    alone = read(FRAME.format("<h1>Piscine</h1><p>Texte.</p>"), name="p3.html")
    assert "Annuaire" in said(alone)


def test_sentence_that_all_pages_say_is_kept_on_one_of_them() -> None:
    body = ALERT + "<h1>Titre {0}</h1><p>Texte {0}.</p>"
    layout = site(8, body)

    kept = [
        name
        for name in layout.pages
        if "appelez le 15" in said(read(FRAME.format(body.format(name)), name=name, layout=layout))
    ]
    assert kept == ["p0"]


def test_few_pages_are_no_site_to_learn_from() -> None:
    shape = page_shape(b"<html><body><p>Bonjour</p></body></html>", filename="a.html")
    assert learn_layout([shape] * 4, ["a", "b", "c", "d"]) is None


CONTENTS = "<h1>Sommaire</h1><ul><li><a href='p1.html'>Un</a></li><li><a href='p2.html'>Deux</a></li><li><a href='p3.html#x'>Trois</a></li></ul>"


def test_contents_of_pages_that_are_read_as_well_answer_nothing() -> None:
    layout = site(8, "<h1>Titre {0}</h1><p>Texte {0}.</p>")

    parsed = read(CONTENTS, name="index.html", layout=layout)
    assert parsed.blocks == ()
    assert "Sommaire" in parsed.notices[0]
    assert "Deux" in said(read(CONTENTS, name="index.html"))
    forms = CONTENTS.replace("p1.html", "a.pdf").replace("p2.html", "b.pdf")
    assert "Deux" in said(read(forms, name="index.html", layout=layout))


@pytest.mark.parametrize("name", ["<code>stat.F{0}</code>", "stat.F{0}"])
def test_list_of_names_in_code_that_other_pages_explain_is_content(name: str) -> None:
    layout = site(8, "<h1>Titre {0}</h1><p>Texte {0}.</p>")
    links = (f"<li><a href='p{n}.html#f'>{name.format(n)}</a></li>" for n in range(5))
    names = "".join(links)

    assert "stat.F3" in said(read(f"<h1>Os</h1><ul>{names}</ul>", name="p1.html", layout=layout))


def test_layout_survives_its_json() -> None:
    layout = site(8, "<h1>Titre {0}</h1><p>Texte {0}.</p>")
    assert SiteLayout.from_json(layout.as_json()) == layout


MINORS = "Cette démarche n'est pas ouverte aux mineurs"
BOXES = [f"{MINORS} ni aux personnes sous tutelle, sauf accord écrit du juge.", f"{MINORS}."]


def saying(box: str, pages: dict[str, str]) -> list[str]:
    """Which pages of a site still say a text once they are read."""
    shapes = [page_shape(page.encode(), filename=name) for name, page in pages.items()]
    layout = learn_layout(shapes, pages)
    return [
        name for name, page in pages.items() if box in said(parse_html(page.encode(), filename=name, layout=layout))
    ]


def pages_with(part: str, on: Sequence[int], *, content: str = "div", count: int = 10) -> dict[str, str]:
    return {
        f"p{n}.html" if n else "index.html": f"<html><body><{content}><h1>Titre {n}</h1><p>Texte {n}.</p>"
        f"{part if n in on else ''}</{content}></body></html>"
        for n in range(count)
    }


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("content", ["main", "article", "div"])
def test_sentence_that_some_pages_say_stays_on_each_of_them(box: str, content: str) -> None:
    part = f"<div class='alerte'><p>{box}</p></div>"
    pages = pages_with(part, [2, 4, 6, 8], content=content)

    assert saying(box, pages) == ["p2.html", "p4.html", "p6.html", "p8.html"]


def test_sentence_that_nearly_all_pages_say_is_kept_on_one_that_says_it() -> None:
    pages = pages_with(f"<div class='alerte'><p>{BOXES[1]}</p></div>", range(1, 10))
    assert saying(BOXES[1], pages) == ["p1.html"]


def test_sentence_within_the_content_of_all_pages_stays_on_each() -> None:
    pages = pages_with(f"<div class='alerte'><p>{BOXES[1]}</p></div>", range(10), content="main")
    assert saying(BOXES[1], pages) == list(pages)


def test_page_that_reads_only_its_content_keeps_no_sentence_for_the_others() -> None:
    frame = f"<div class='alerte'><p>{BOXES[0]}</p></div></body>"
    plain, with_main = pages_with("", []), pages_with("", [], content="main")
    pages = plain | {"index.html": with_main["index.html"]}
    pages = {name: page.replace("</body>", frame) for name, page in pages.items()}
    assert saying(BOXES[0], pages) == ["p1.html"]


def test_label_within_the_content_goes_where_nearly_all_pages_say_it() -> None:
    label = "<p class='label'>Démarche payante</p>"
    some = pages_with(label, [2, 4, 6, 8], content="main")
    assert saying("Démarche payante", some) == ["p2.html", "p4.html", "p6.html", "p8.html"]
    assert saying("Démarche payante", pages_with(label, range(10), content="main")) == []
    assert saying("Démarche payante", pages_with(label, [2, 4, 6, 8])) == []


@given(
    box=st.sampled_from(BOXES),
    saying_it=st.sets(st.integers(0, 9), min_size=1),
    around=st.sampled_from(["{}", "<div class='a'>{}</div>", "<div>Bon<p>{0}</p></div>", "<p>{0}</p><p>{0}</p>"]),
    content=st.sampled_from(["div", "main", "article"]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_no_sentence_of_a_site_is_lost(box: str, saying_it: set[int], around: str, content: str) -> None:
    pages = pages_with(around.format(f"<div class='b'>{box}</div>"), sorted(saying_it), content=content)
    kept = saying(box, pages)

    assert kept
    if len(saying_it) < 9:
        assert len(kept) == len(saying_it)
