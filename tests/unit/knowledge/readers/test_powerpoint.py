"""Presentations: what a slide gives in which order, and the files that are refused."""

from typing import Any, cast

import pptx
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from pytest_django.fixtures import Settings

from knowledge.models import SourceType
from knowledge.readers.base import ParsedDocument
from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import refusal, saved


def add_slide(presentation: Any, title: str, *lines: str, layout: int = 1) -> Any:
    slide = presentation.slides.add_slide(presentation.slide_layouts[layout])
    if title:
        slide.shapes.title.text = title
    if lines:
        slide.placeholders[1].text = "\n".join(lines)
    return slide


def add_box(slide: Any, text: str, *, left: float = 1, top: float = 1) -> Any:
    box = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(1))
    box.text_frame.text = text
    return box


def read(presentation: Any) -> ParsedDocument:
    return parse_document(saved(presentation), filename="guide.pptx")


def test_titles_are_headings_and_the_first_names_the_document() -> None:
    presentation = pptx.Presentation()
    add_slide(presentation, "Guide du lecteur", "Bibliothèque d'Évry", layout=0)
    add_slide(presentation, "Horaires", "Ouvert du mardi au samedi.")
    parsed = read(presentation)
    assert (parsed.title, parsed.source_type) == ("Guide du lecteur", SourceType.PPTX)
    assert [(block.text, block.headings, block.page) for block in parsed.blocks] == [
        ("Bibliothèque d'Évry", (), 1),
        ("Ouvert du mardi au samedi.", ("Horaires",), 2),
    ]


def test_bullets_are_a_list_with_its_levels() -> None:
    presentation = pptx.Presentation()
    slide = add_slide(presentation, "Horaires", "Le lundi", "matin", "Le mardi")
    slide.placeholders[1].text_frame.paragraphs[1].level = 1
    block = read(presentation).blocks[0]
    assert (block.kind, block.text) == ("list", "- Le lundi\n  - matin\n- Le mardi")


def test_table_and_notes_follow_under_the_title() -> None:
    presentation = pptx.Presentation()
    slide = add_slide(presentation, "Tarifs", layout=5)
    box = (Inches(1), Inches(2), Inches(4), Inches(1))
    table = slide.shapes.add_table(2, 2, *box).table
    for cell, text in zip(table.iter_cells(), ["Carte", "Prix", "Adulte", "12"], strict=True):
        cell.text = text
    slide.notes_slide.notes_text_frame.text = "Gratuit pour les enfants."
    add_slide(presentation, "Fin", "Merci.")
    parsed = read(presentation)
    assert [(block.kind, block.text) for block in parsed.blocks[:2]] == [
        ("table", "| Carte | Prix |\n| --- | --- |\n| Adulte | 12 |"),
        ("prose", "Gratuit pour les enfants."),
    ]


def test_slide_without_a_title_is_not_under_the_one_before() -> None:
    presentation = pptx.Presentation()
    add_slide(presentation, "Guide", "Début.")
    add_slide(presentation, "Horaires", "Ouvert.")
    add_box(add_slide(presentation, "", layout=6), "Autre chose.")
    assert [block.headings for block in read(presentation).blocks] == [(), ("Horaires",), ()]


def test_hidden_slide_is_left_out_and_noticed() -> None:
    presentation = pptx.Presentation()
    add_slide(presentation, "Horaires", "Ouvert.")
    add_slide(presentation, "Interne", "secret")._element.set("show", "0")
    parsed = read(presentation)
    assert [block.text for block in parsed.blocks] == ["Ouvert."]
    assert "diapositive 2" in parsed.notices[0]


def test_slides_are_bounded(settings: Settings) -> None:
    presentation = pptx.Presentation()
    for _index in range(3):
        add_slide(presentation, "Horaires", "Ouvert.")
    settings.MAX_DOCUMENT_PAGES = 2
    assert "trop de diapositives" in refusal(saved(presentation), "a.pptx")


def test_chart_is_a_table_under_its_title() -> None:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Effectifs"
    data: Any = cast(Any, CategoryChartData)()
    data.categories = ["Paris", "Lyon"]
    data.add_series("2023", (10, 7))
    data.add_series("2024", (12, 9))
    kind = XL_CHART_TYPE.COLUMN_CLUSTERED
    chart = slide.shapes.add_chart(kind, 0, Inches(2), Inches(5), Inches(3), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Agents par ville"
    parsed = parse_document(saved(presentation), filename="note.pptx")
    assert [(block.text, block.page) for block in parsed.blocks] == [
        ("Agents par ville", 1),
        ("|  | 2023 | 2024 |\n| --- | --- | --- |\n| Paris | 10 | 12 |\n| Lyon | 7 | 9 |", 1),
    ]
