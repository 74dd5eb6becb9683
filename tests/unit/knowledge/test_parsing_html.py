"""HTML pages: what is content, and the questions that markup declares."""

from knowledge.parsing.base import ParsedDocument
from knowledge.parsing.html import html_fragment_text
from knowledge.parsing.registry import parse_document


def parse(body: str, head: str = "") -> ParsedDocument:
    page = (
        f"<!doctype html><html><head><meta charset='utf-8'>{head}</head><body>{body}</body></html>"
    )
    return parse_document(page.encode(), filename="page.html")


def test_scripts_menus_and_footers_are_dropped() -> None:
    parsed = parse(
        "<nav>Menu</nav><h1>Titre</h1><p>Texte.</p><script>x()</script><style>p{}</style><footer>©</footer>"
    )
    assert parsed.title == "Titre"
    assert [block.text for block in parsed.blocks] == ["Texte."]


def test_headings_lists_and_tables_keep_their_structure() -> None:
    parsed = parse(
        "<h1>T</h1><h2>A</h2><ul><li>un<ul><li>deux</li></ul></li></ul>"
        "<table><tr><th>x</th><th>y</th></tr><tr><td>1</td><td>2 | 3</td></tr></table>"
    )
    assert [(block.kind, block.headings) for block in parsed.blocks] == [
        ("list", ("A",)),
        ("table", ("A",)),
    ]
    assert parsed.blocks[0].text == "- un\n  - deux"
    assert parsed.blocks[1].text == "| x | y |\n| --- | --- |\n| 1 | 2 \\| 3 |"


def test_page_title_is_used_without_h1() -> None:
    assert parse("<p>Texte.</p>", "<title>Ma page</title>").title == "Ma page"


def test_details_and_definitions_that_ask_are_questions() -> None:
    parsed = parse(
        "<details><summary>Qui signe ?</summary><p>Le maire.</p></details>"
        "<dl><dt>Quand ?</dt><dd>Demain.</dd><dt>TVA</dt><dd>Une taxe.</dd></dl>"
    )
    assert [(block.kind, block.question, block.text) for block in parsed.blocks] == [
        ("qa", "Qui signe ?", "Le maire."),
        ("qa", "Quand ?", "Demain."),
        ("prose", "", "**TVA**\n\nUne taxe."),
    ]


def test_faq_page_data_are_questions() -> None:
    data = (
        '{"@type": "FAQPage", "mainEntity": [{"@type": "Question", "name": "Quel prix ?", '
        '"acceptedAnswer": {"@type": "Answer", "text": "<p>Dix <b>euros</b>.</p>"}}]}'
    )
    parsed = parse("<p>Texte.</p>", f'<script type="application/ld+json">{data}</script>')
    assert parsed.blocks[-1].question == "Quel prix ?"
    assert parsed.blocks[-1].text == "Dix **euros**."


def test_broken_faq_page_data_are_ignored() -> None:
    parsed = parse("<p>Texte.</p>", '<script type="application/ld+json">{"@type": </script>')
    assert [block.text for block in parsed.blocks] == ["Texte."]


def test_deeply_nested_page_is_read() -> None:
    parsed = parse("<div>" * 5000 + "Texte." + "</div>" * 5000)
    assert "Texte." in parsed.blocks[0].text


def test_declared_encoding_is_followed() -> None:
    page = "<meta charset='iso-8859-1'><p>Été à Nîmes.</p>".encode("latin-1")
    assert parse_document(page, filename="p.htm").blocks[0].text == "Été à Nîmes."


def test_fragment_becomes_light_markdown_without_html() -> None:
    fragment = (
        "<div><p>Voir <a href='https://exemple.fr/a'>ici</a>, <strong>vite</strong>.<br/>Merci.</p>"
        "<a href='javascript:alert(1)'>non</a><ol><li>un</li><li>deux</li></ol></div>"
    )
    assert html_fragment_text(fragment) == (
        "Voir [ici](https://exemple.fr/a), **vite**.\nMerci.\n\nnon\n\n1. un\n2. deux"
    )


def test_external_entities_are_not_resolved() -> None:
    page = b'<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/passwd">]><html><p>a &x; b</p></html>'
    text = parse_document(page, filename="p.html").blocks[0].text
    assert "root" not in text
