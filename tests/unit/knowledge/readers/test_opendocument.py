"""OpenDocument files: what their reader sees is read, what is left out is said."""

import pytest

from knowledge.models import SourceType
from knowledge.readers.base import ParsedDocument
from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import refusal, rewritten, word, zipped

SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "style", "text", "table")
)
SPACES += (
    ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"'
    ' xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"'
)
STYLES = """
<style:style style:name="Struck" style:family="text">
<style:text-properties style:text-line-through-style="solid"/></style:style>
<style:style style:name="Up" style:family="text"><style:text-properties style:text-position="super 58%"/></style:style>
<style:style style:name="Secret" style:family="text"><style:text-properties text:display="none"/></style:style>
<style:style style:name="Sheet" style:family="table"><style:table-properties table:display="false"/></style:style>
<style:style style:name="Cell" style:family="table-cell">
<style:text-properties style:text-line-through-style="solid"/></style:style>
<text:list-style style:name="L">
<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>
<text:list-level-style-number text:level="2" style:num-format="a" style:num-suffix=")" text:display-levels="2"/>
</text:list-style>
<text:list-style style:name="M">
<text:list-level-style-number text:level="1" style:num-format="01, 02, …" style:num-prefix="n°"/></text:list-style>
<style:style style:name="Old" style:family="paragraph"><style:text-properties style:text-line-through-type="double"/></style:style>
<text:list-style style:name="B"><text:list-level-style-bullet text:level="1"/></text:list-style>
"""
OUTLINE = """<text:outline-style style:name="Outline">
<text:outline-level-style text:level="1" style:num-format="1" style:num-prefix="Article "/>
</text:outline-style>"""


def packed(kind: str, body: str, *, styles: str = "", more: dict[str, str] | None = None) -> bytes:
    content = (
        f"<office:document-content {SPACES}><office:automatic-styles>{STYLES}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    parts = {
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": content,
        "styles.xml": f"<office:document-styles {SPACES}>{styles}</office:document-styles>",
        "META-INF/manifest.xml": "<!DOCTYPE manifest><manifest/>",
    }
    return zipped({**parts, **(more or {})})


def text(body: str, styles: str = "") -> ParsedDocument:
    return parse_document(packed("text", body, styles=styles), filename="note.odt")


def sheet(body: str) -> ParsedDocument:
    return parse_document(packed("spreadsheet", body), filename="classeur.ods")


def rows(*lines: str) -> str:
    return "".join(f"<table:table-row>{line}</table:table-row>" for line in lines)


def cell(said: str, more: str = "") -> str:
    return f"<table:table-cell {more}><text:p>{said}</text:p></table:table-cell>"


def test_headings_have_the_numbers_of_the_outline() -> None:
    body = "".join(f'<text:h text:outline-level="1">{t}</text:h><text:p>Texte {t}.</text:p>' for t in ("Accès", "Prêt"))
    parsed = text(body, OUTLINE)
    assert (parsed.source_type, parsed.title) == (SourceType.ODT, "note")
    assert [block.headings for block in parsed.blocks] == [("Article 1 Accès",), ("Article 2 Prêt",)]


def test_lists_count_on_where_they_say_so() -> None:
    nested = "<text:list><text:list-item><text:p>a</text:p></text:list-item></text:list>"

    def item(said: str, more: str = "", start: str = "") -> str:
        return f"<text:list-item {start}><text:p>{said}</text:p>{more}</text:list-item>"

    start = 'text:start-value="9"'
    body = (
        f'<text:list text:style-name="L">{item("Un")}{item("Deux", nested)}</text:list>'
        f'<text:p>Puis :</text:p><text:list text:style-name="L" text:continue-numbering="true">'
        f"{item('Trois')}{item('Neuf', start=start)}</text:list>"
        f'<text:list text:style-name="L">{item("Encore")}</text:list>'
        f'<text:list text:style-name="B">{item("Point")}</text:list>'
    )
    assert [block.text for block in text(body).blocks] == [
        "1. Un\n2. Deux\n   - 2.a) a",
        "Puis :",
        "3. Trois\n9. Neuf",
        "1. Encore",
        "- Point",
    ]


def test_fields_and_pictures_say_what_they_show_and_hidden_ones_nothing() -> None:
    parsed = text(
        "<text:p>Prix <text:variable-set text:display='none'>9</text:variable-set><text:variable-get>12,50</text:variable-get>"
        ", le <text:date text:date-value='2025-03-03'>3 mars</text:date>, <text:drop-down><text:label text:value='lundi'/>"
        "mardi</text:drop-down><text:hidden-text text:is-hidden='true'>non</text:hidden-text><text:placeholder>Nom"
        "</text:placeholder></text:p><text:p><text:hidden-paragraph text:is-hidden='true'/>Interne</text:p>"
        "<text:p><draw:frame><draw:image/><svg:title>plan.png</svg:title><svg:desc>Par la cour</svg:desc></draw:frame></text:p>"
    )
    assert [block.text for block in parsed.blocks] == ["Prix 12,50, le 3 mars, mardi", "[Par la cour]"]


def test_notes_struck_hidden_and_deleted_text_and_links_are_told_from_the_text() -> None:
    parsed = text(
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>Gratuit</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes>"
        '<text:section text:name="Brouillon" text:display="none"><text:p>Secret</text:p></text:section>'
        "<text:p>Repas<text:s/>: 4<text:span text:style-name='Up'>1</text:span> €"
        "<text:span text:style-name='Struck'>12 €</text:span><text:span text:style-name='Secret'>non</text:span>"
        "<text:note><text:note-citation>2</text:note-citation><text:note-body><text:p>Sauf août.</text:p>"
        "</text:note-body></text:note>, voir <text:a xlink:href='https://v.example/f'>ici</text:a>"
        "<office:annotation><text:p>À revoir</text:p></office:annotation></text:p>"
    )
    assert [block.text for block in parsed.blocks] == ["Repas : 4 (1) €, voir [ici](https://v.example/f)", "Sauf août."]
    assert parsed.notices == (
        "section « Brouillon » : masquée, ignorée",
        "commentaires ignorés : 1",
        "texte barré, laissé de côté : « Gratuit », « 12 € » (2)",
    )


def test_struck_paragraphs_and_items_with_a_style_of_their_own_are_as_shown() -> None:
    item = '<text:list-item text:style-override="M"><text:p>Un</text:p></text:list-item>'
    parsed = text(f'<text:p text:style-name="Old">12 €</text:p><text:list text:style-name="L">{item}</text:list>')
    assert [block.text for block in parsed.blocks] == ["- n°01 Un"]
    assert "« 12 € »" in parsed.notices[0]


def test_cells_over_rows_and_columns_are_given_where_they_reach() -> None:
    covered = "<table:covered-table-cell/>"
    parsed = text(
        "<table:table><table:table-header-rows>"
        + rows(cell("Salle") + cell("Tarif", 'table:number-columns-spanned="2"') + covered)
        + "</table:table-header-rows>"
        + rows(
            cell("A", 'table:number-rows-spanned="2"') + cell("1 €") + cell("2 €"), covered + cell("3 €") + cell("4 €")
        )
        + "</table:table>"
    )
    assert parsed.blocks[0].text.splitlines()[2:] == ["| A | 1 € | 2 € |", "| A | 3 € | 4 € |"]


def test_headers_and_footers_of_texts_and_sheets_are_read_once() -> None:
    page = (
        "<style:master-page style:name='{}'><style:header><text:p>{}</text:p></style:header>"
        "<style:footer><text:p><text:sheet-name>???</text:sheet-name></text:p></style:footer>"
        "<style:footer-left style:display='false'><text:p>Non</text:p></style:footer-left></style:master-page>"
    )
    pages = 2 * page.format("P", "Note n° 17")
    parsed = text("<text:p>Texte.</text:p>", pages)
    assert [block.text for block in parsed.blocks] == ["Texte.", "Note n° 17"]
    style = '<style:style style:name="T" style:family="table" style:master-page-name="P"/>' + page.format("Q", "Autre")
    link = cell("ici", 'table:formula=\'of:=HYPERLINK("https://v.example/f";"ici")\'')
    table = f'<table:table table:style-name="T">{rows(link)}</table:table>'
    read = parse_document(packed("spreadsheet", table, styles=style + pages), filename="a.ods")
    assert [block.text for block in read.blocks] == ["[ici](https://v.example/f)", "Note n° 17"]


def test_sheet_says_what_it_shows_and_what_is_hidden_is_noticed() -> None:
    empty = '<table:table-cell table:number-columns-repeated="16000"/>'
    shut = 'table:visibility="collapse"'
    parsed = sheet(
        f'<table:table table:name="Tarifs"><table:table-column/><table:table-column {shut}/><table:table-column/>'
        + rows(
            cell("Salle") + cell("Coût") + cell("Prix") + empty,
            cell("A", 'table:number-columns-repeated="2"')
            + cell("01 000,5 €", 'office:value-type="float" office:value="1000.5"'),
        )
        + f"<table:table-row {shut}>{cell('B')}</table:table-row>"
        + rows(cell("C") + cell("9") + '<table:table-cell office:value-type="float" office:value="2.5"/>')
        + f'<table:table-row table:number-rows-repeated="1000000">{empty}</table:table-row>'
        + rows(cell("Vieux", 'table:style-name="Cell"') + cell("") + cell("Note"))
        + '</table:table><table:table table:name="Paie" table:style-name="Sheet">'
        + rows(cell("Salaire"))
        + "</table:table>"
    )
    assert [block.text for block in parsed.blocks] == [
        "| Salle | Prix |\n| --- | --- |\n| A | 01 000,5 € |\n| C | 2,5 |",
        "Note",
    ]
    assert parsed.notices == (
        "feuille « Tarifs » : colonnes masquées, ignorées : B",
        "feuille « Tarifs » : lignes masquées, ignorées : 3",
        "feuille « Paie » : masquée, ignorée",
        "texte barré, laissé de côté : « Vieux »",
    )


def test_sheet_of_questions_is_questions_and_cells_are_bounded() -> None:
    table = '<table:table table:name="FAQ">{}</table:table>'
    parsed = sheet(table.format(rows(cell("Question") + cell("Réponse"), cell("Quel prix ?") + cell("Dix euros."))))
    assert [(block.question, block.text) for block in parsed.blocks] == [("Quel prix ?", "Dix euros.")]
    wide = cell("x", 'table:number-columns-repeated="999999999"')
    assert "trop de cellules" in refusal(packed("spreadsheet", table.format(rows(wide))), "c.ods")


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (packed("text", "<text:p/>"), "a.odt", "aucun texte"),
        (packed("text", "", more={"META-INF/manifest.xml": "<encryption-data/>"}), "a.odt", "mot de passe"),
        (packed("text", "", styles='<!DOCTYPE a [<!ENTITY e "x">]>'), "a.odt", "entités XML"),
        (packed("text", "", styles="<text:p>"), "a.odt", "abîmé"),
        (packed("formula", ""), "a.odf", "OpenDocument"),
        (packed("presentation", ""), "a.odp", "ni un texte ou un classeur OpenDocument (.odt, .ods)"),
        (zipped({"mimetype": "application/epub+zip"}), "livre.epub", "EPUB"),
        (b"{\\rtf1\\ansi Bonjour}", "a.rtf", "RTF"),
        (b"{\\rtf1\\ansi Bonjour}", "a.doc", "RTF"),
        (b"Subject: Bonjour\n\nTexte.", "a.eml", "courriel"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(data: bytes, name: str, said: str) -> None:
    assert said in refusal(data, name)


def test_part_that_only_has_mimetype_in_its_name_says_nothing_of_the_file() -> None:
    document = rewritten(word(), "customXml/mimetypes.xml", b"<types/>")
    assert parse_document(document, filename="horaires.docx").source_type == SourceType.DOCX
