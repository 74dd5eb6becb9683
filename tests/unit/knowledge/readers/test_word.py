"""Word files: structure by style, and archives that must not be opened."""

from typing import Any

import docx
import pytest
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from lxml import etree

from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import saved


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
    parsed = parse_document(saved(document), filename="note.docx")
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
    document = docx.Document()
    texts = "<a:p><a:r><a:t>Instruire</a:t></a:r></a:p><a:p><a:r><a:t>Décider</a:t></a:r></a:p>"
    blob = f'<d:dataModel xmlns:d="{drawing}/diagram" xmlns:a="{drawing}/main">{texts}</d:dataModel>'.encode()
    part = Part(PackURI("/word/diagrams/data1.xml"), "application/xml", blob, document.part.package)
    key = document.part.relate_to(part, f"{office}/diagramData")
    spaces = f'xmlns:d="{drawing}/diagram" xmlns:r="{office}"'
    drawn = f'<g {spaces}><d:relIds r:dm="{key}"/><d:relIds r:dm="rId99"/></g>'
    document.add_paragraph("Voici.").runs[0]._r.append(etree.fromstring(drawn))
    parsed = parse_document(saved(document), filename="n.docx")
    assert [block.text for block in parsed.blocks] == ["Voici.", "- Instruire\n- Décider"]


def test_main_part_may_have_a_number() -> None:
    document = docx.Document()
    document.add_paragraph("Bonjour.")
    document.part.partname = PackURI("/word/document2.xml")
    assert parse_document(saved(document), filename="n.docx").blocks[0].text == "Bonjour."
