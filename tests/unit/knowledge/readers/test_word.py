"""Word files: structure by style, notes, diagrams, and what Word counts by itself."""

from typing import Any

import docx
import pytest
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from lxml import etree

from knowledge.readers.base import ParsedDocument
from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import saved


def read(document: Any) -> ParsedDocument:
    return parse_document(saved(document), filename="note.docx")


def test_a_style_without_a_type_refuses_no_file() -> None:
    document = docx.Document()
    document.styles.element.append(parse_xml(f'<w:style {nsdecls("w")} w:styleId="X1"/>'))
    document.add_paragraph("Ouvert.")
    assert [block.text for block in read(document).blocks] == ["Ouvert."]


def test_styles_give_title_headings_lists_and_tables() -> None:
    document = docx.Document()
    document.add_heading("Règlement", 0)
    document.add_heading("Horaires", 2)
    document.add_paragraph("Les bureaux ouvrent :")
    document.add_paragraph("le lundi", style="List Bullet")
    document.add_paragraph("le mardi", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ["Jour", "Heure", "Lundi", "9 h"], strict=True):
        cell.text = text
    parsed = read(document)
    assert parsed.title == "Règlement"
    assert [(block.kind, block.text) for block in parsed.blocks] == [
        ("prose", "Les bureaux ouvrent :"),
        ("list", "- le lundi\n- le mardi"),
        ("table", "| Jour | Heure |\n| --- | --- |\n| Lundi | 9 h |"),
    ]
    assert {block.headings for block in parsed.blocks} == {("Horaires",)}


def noted(paragraph: Any, number: int) -> None:
    reference = paragraph.add_run()._r
    note = reference.makeelement(reference.tag.replace("}r", "}footnoteReference"), {})
    note.set(note.tag.replace("footnoteReference", "id"), str(number))
    reference.append(note)


def with_footnotes(document: Any, texts: dict[int, str]) -> bytes:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    notes = "".join(
        f'<w:footnote w:id="{number}"><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:footnote>'
        for number, text in texts.items()
    )
    blob = f'<w:footnotes xmlns:w="{space}">{notes}</w:footnotes>'.encode()
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    part = Part(PackURI("/word/footnotes.xml"), kind, blob, document.part.package)
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    document.part.relate_to(part, relation)
    return saved(document)


@pytest.mark.parametrize("after", ["heading", "table", "end"])
def test_note_of_an_item_stands_after_its_list_under_the_same_heading(after: str) -> None:
    document = docx.Document()
    document.add_heading("Primes", 1)
    noted(document.add_paragraph("Prime de 500 €", style="List Bullet"), 2)
    document.add_paragraph("Prime de 100 €", style="List Bullet")
    if after == "table":
        document.add_table(1, 1).cell(0, 0).text = "Montants"
    if after != "end":
        document.add_heading("Congés", 1)
        noted(document.add_paragraph("Cinq semaines."), 3)
    data = with_footnotes(document, {2: "Sauf stagiaires.", 3: "Au prorata."})
    blocks = parse_document(data, filename="note.docx").blocks

    assert [block.text for block in blocks[:2]] == ["- Prime de 500 €\n- Prime de 100 €", "Sauf stagiaires."]
    assert blocks[0].headings == blocks[1].headings


def test_diagram_is_a_list_after_its_paragraph() -> None:
    drawing = "http://schemas.openxmlformats.org/drawingml/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    said = "<a:p><a:r><a:t>Instruire</a:t></a:r></a:p><a:p><a:r><a:t>Décider</a:t></a:r></a:p>"
    blob = f'<dataModel xmlns:a="{drawing}/main">{said}</dataModel>'.encode()
    document = docx.Document()
    part = Part(PackURI("/word/diagramData.xml"), "application/xml", blob, document.part.package)
    key = document.part.relate_to(part, f"{office}/diagramData")
    spaces = f'xmlns:d="{drawing}/diagram" xmlns:r="{office}"'
    drawings = f'<g {spaces}><d:relIds r:dm="{key}"/><d:relIds r:dm="rId99"/></g>'
    document.add_paragraph("Voici.").runs[0]._r.extend(etree.fromstring(drawings))
    assert [block.text for block in read(document).blocks] == ["Voici.", "- Instruire\n- Décider"]


def test_main_part_may_have_a_number() -> None:
    document = docx.Document()
    document.add_paragraph("Bonjour.")
    document.part.partname = PackURI("/word/document2.xml")
    assert read(document).blocks[0].text == "Bonjour."


def numbered(document: Any, *levels: tuple[str, str], overrides: str = "", style: str = "", more: str = "") -> int:
    """Add a list of levels (form, text) to the document; returns its number."""
    root = document.part.numbering_part.element
    key = 100 + len(root)
    written = "".join(
        f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>'
        f'{f"""<w:pStyle w:val="{style}"/>""" if style and not depth else ""}{more}<w:lvlText w:val="{text}"/></w:lvl>'
        for depth, (form, text) in enumerate(levels)
    )
    abstract = parse_xml(f'<w:abstractNum {nsdecls("w")} w:abstractNumId="{key}">{written}</w:abstractNum>')
    root.insert(0, abstract)
    again(document, key, overrides, number=key)
    return key


def again(document: Any, abstract: int, overrides: str, *, number: int) -> int:
    root = document.part.numbering_part.element
    root.append(
        parse_xml(f'<w:num {nsdecls("w")} w:numId="{number}"><w:abstractNumId w:val="{abstract}"/>{overrides}</w:num>')
    )
    return number


def put(holder: Any, text: str, number: int, depth: int = 0, style: str | None = None) -> Any:
    paragraph = holder.add_paragraph(text, style=style)
    place = f'<w:numPr {nsdecls("w")}><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>'
    paragraph._p.get_or_add_pPr().append(parse_xml(place))
    return paragraph


def test_list_goes_on_after_a_paragraph_and_deeper_levels_begin_again() -> None:
    document = docx.Document()
    number = numbered(document, ("decimal", "%1."), ("lowerLetter", "%1.%2)"))
    for text, depth in [("Ouvrir", 0), ("la porte", 1), ("la fenêtre", 1), ("Fermer", 0)]:
        put(document, text, number, depth)
    document.add_paragraph("Le soir :")
    put(document, "Éteindre", number)
    put(document, "la lampe", number, 1)
    assert [block.text for block in read(document).blocks] == [
        "1. Ouvrir\n   - 1.a) la porte\n   - 1.b) la fenêtre\n2. Fermer",
        "Le soir :",
        "3. Éteindre\n   - 3.a) la lampe",
    ]


def test_start_that_is_overridden_begins_anew_and_lists_of_one_kind_count_on() -> None:
    document = docx.Document()
    first = numbered(document, ("upperRoman", "Titre %1"))
    same = again(document, first, "", number=900)
    override = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride>'
    anew = again(document, first, override, number=901)
    for text, number in [("A", first), ("B", same), ("C", anew), ("D", anew)]:
        put(document, text, number)
    assert read(document).blocks[0].text == "- Titre I A\n- Titre II B\n- Titre V C\n- Titre VI D"


def test_number_of_a_style_stands_in_the_heading_which_is_no_title_of_the_document() -> None:
    document = docx.Document()
    number = numbered(document, ("decimal", "Article %1"), ("decimal", "%1.%2"), style="Heading1")
    place = f'<w:numPr {nsdecls("w")}><w:numId w:val="{number}"/></w:numPr>'
    document.styles["Heading 1"].element.get_or_add_pPr().append(parse_xml(place))
    document.add_heading("Accès", 1)
    document.add_paragraph("Libre.")
    document.add_heading("Prêt", 1)
    put(document, "Durée", number, 1, style="Heading 2")
    document.add_paragraph("Trois semaines.")
    parsed = read(document)
    assert parsed.title == "note"
    assert [block.headings for block in parsed.blocks] == [("Article 1 Accès",), ("Article 2 Prêt", "2.1 Durée")]


def test_list_may_be_switched_off_and_have_forms_and_levels_of_digits() -> None:
    document = docx.Document()
    number = numbered(document, ("upperRoman", "%1"), ("decimalZero", "%1-%2"), more="<w:isLgl/>")
    put(document, "Un", number)
    put(document, "Deux", number, 1)
    put(document, "Sans", 0)
    assert [block.text for block in read(document).blocks] == ["- 1 Un\n  - 1-1 Deux", "Sans"]


def test_numbers_stand_in_cells() -> None:
    document = docx.Document()
    number = numbered(document, ("decimal", "%1°"))
    cells = document.add_table(2, 1)._cells
    for cell, text in zip(cells, ["Pièces", "Passeport"], strict=True):
        put(cell, text, number)
    assert read(document).blocks[0].text == "| 1° Pièces |\n| --- |\n| 2° Passeport |"


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ('<w:sym w:font="Wingdings" w:char="F0A8"/>', "☐ oui"),
        ('<w:sym w:font="Wingdings" w:char="F0FE"/>', "☒ oui"),
        ('<w:sym w:font="Symbol" w:char="F0FE"/>', "oui"),
        ("<w:fldChar><w:ffData><w:checkBox><w:default w:val='1'/></w:checkBox></w:ffData></w:fldChar>", "☒ oui"),
        ("<w:fldChar><w:ffData><w:checkBox><w:checked w:val='0'/></w:checkBox></w:ffData></w:fldChar>", "☐ oui"),
    ],
)
def test_check_box_says_its_state(inner: str, said: str) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph()
    paragraph._p.append(parse_xml(f"<w:r {nsdecls('w')}>{inner}</w:r>"))
    paragraph.add_run(" oui")
    assert read(document).blocks[0].text == said


def test_prompt_of_an_empty_field_is_no_text() -> None:
    document = docx.Document()
    control = (
        f"<w:sdt {nsdecls('w')}><w:sdtPr><w:showingPlcHdr/></w:sdtPr>"
        "<w:sdtContent><w:r><w:t>Cliquez ici.</w:t></w:r></w:sdtContent></w:sdt>"
    )
    document.add_paragraph("Date :")._p.append(parse_xml(control))
    assert read(document).blocks[0].text == "Date :"
