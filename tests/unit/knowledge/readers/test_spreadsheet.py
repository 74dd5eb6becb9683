"""Spreadsheets: pairs, tables, what a cell shows, and the files that are refused."""

from datetime import date, datetime
from typing import Any

import openpyxl
import pytest
from openpyxl.comments import Comment
from pytest_django.fixtures import Settings

from knowledge.models import SourceType
from knowledge.readers.base import ParsedDocument
from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import element, refusal, relationships, rewritten, saved
from tests.waiting import little_work


def make_workbook(**sheets: list[list[Any]]) -> Any:
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return workbook


def read(workbook: Any) -> ParsedDocument:
    return parse_document(saved(workbook), filename="tarifs.xlsx")


def sheet_xml(rows: str) -> bytes:
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return f'<worksheet xmlns="{space}"><sheetData>{rows}</sheetData></worksheet>'.encode()


SMALL: dict[str, list[list[Any]]] = {"Tarifs": [["Carte", "Prix"], ["Adulte", 12]]}


def test_sheet_with_question_and_answer_columns_gives_pairs() -> None:
    first, last = [1, "Un mois.", "Quel délai ?", "Délais"], [3, "<p>Le <b>bureau</b>.</p>", "Qui signe ?", None]
    names = ["N°", "Réponse", "QUESTION", "Catégorie"]
    parsed = read(make_workbook(Paie=[names, first, [2, None, "Et après ?", None], last]))
    assert parsed.source_type == SourceType.XLSX
    assert [(b.kind, b.question, b.text, b.category, b.headings) for b in parsed.blocks] == [
        ("qa", "Quel délai ?", "Un mois.", "Délais", ("Paie",)),
        ("qa", "Qui signe ?", "Le **bureau**.", "", ("Paie",)),
    ]
    assert parsed.notices == ("Paie, ligne 3 : pas de réponse, ignorée",)


def test_name_that_a_program_gave_is_no_heading() -> None:
    parsed = read(make_workbook(Tarifs=[["a", "b"]], Feuil2=[["c", "d"]]))
    assert [block.headings for block in parsed.blocks] == [("Tarifs",), ()]


def test_lines_above_a_table_announce_it_and_an_empty_row_parts_two() -> None:
    rows: list[list[Any]] = [["Tarifs au 1er mai"], ["Carte", "Prix"], ["Adulte", 12], [], ["Lieu"], ["Évry"]]
    parsed = read(make_workbook(Tarifs=rows))
    assert [(block.kind, block.text) for block in parsed.blocks] == [
        ("prose", "Tarifs au 1er mai"),
        ("table", "| Carte | Prix |\n| --- | --- |\n| Adulte | 12 |"),
        ("prose", "Lieu\n\nÉvry"),
    ]


@pytest.mark.parametrize(
    ("value", "shape", "shown"),
    [
        (12.0, "General", "12"),
        (0.155, "0.0%", "15,5%"),
        (12.5, '#,##0.00 "€"', "12,50 €"),
        (date(2026, 3, 1), "dd/mm/yyyy", "01/03/2026"),
        (datetime.fromisoformat("2026-03-01 09:30"), "dd/mm/yyyy hh:mm", "01/03/2026 09:30"),
        (2.552083333333333, "[h]:mm", "61:15"),
        (True, "General", "VRAI"),
        ("#N/A", "General", ""),
    ],
)
def test_cell_reads_as_it_is_shown(value: Any, shape: str, shown: str) -> None:
    workbook = make_workbook(Tarifs=[["Quoi", "Valeur"], ["x", value]])
    workbook["Tarifs"]["B2"].number_format = shape
    assert read(workbook).blocks[0].text.splitlines()[2] == f"| x | {shown} |"


def test_hidden_sheet_is_left_out_and_noticed() -> None:
    workbook = make_workbook(**SMALL, Interne=[["secret", "x"]])
    workbook["Interne"].sheet_state = "hidden"
    parsed = read(workbook)
    assert "secret" not in parsed.blocks[-1].text
    assert "Interne" in parsed.notices[0]


def test_headers_and_footers_are_read_and_comments_named() -> None:
    workbook = make_workbook(**SMALL)
    [sheet] = workbook.worksheets
    sheet.oddHeader.left.text, sheet.oddHeader.right.text = "Régie R&&D", "Page &P sur &N"
    sheet.oddFooter.center.text, sheet.evenHeader.center.text = "Contact : poste 4410", "Pages paires, non imprimées"
    sheet["B2"].comment = Comment("Gratuit pour nous", "Anne")
    parsed = read(workbook)
    assert parsed.blocks[-1].text == "Régie R&D\n\nContact : poste 4410"
    assert parsed.notices == (f"feuille « {sheet.title} » : commentaires ignorés : B2",)


def test_text_box_over_a_sheet_is_read_after_its_cells() -> None:
    box = element("a:graphic", "<a:p><a:r><a:t>Fermé en </a:t></a:r><a:r><a:t>août.</a:t></a:r></a:p>").encode()
    related = relationships({"r1": ("drawing", "/xl/drawings/drawing1.xml")}).encode()
    data = rewritten(saved(make_workbook(**SMALL)), "xl/worksheets/_rels/sheet1.xml.rels", related)
    assert (
        parse_document(rewritten(data, "xl/drawings/drawing1.xml", box), filename="a.xlsx").blocks[-1].text
        == "Fermé en août."
    )


def test_hidden_rows_and_formulas_without_a_value_are_left_out_and_named() -> None:
    workbook = make_workbook(Tarifs=[["Carte", "Prix"], ["Adulte", 12], ["Agent", 3], ["Club", "=B2*2"]])
    workbook["Tarifs"].row_dimensions[3].hidden = True
    parsed = read(workbook)
    assert parsed.blocks[0].text.splitlines()[2:] == ["| Adulte | 12 |", "| Club |  |"]
    assert parsed.notices == (
        "feuille « Tarifs » : lignes masquées, ignorées : 3",
        "feuille « Tarifs » : formules sans valeur enregistrée, ignorées : B4",
    )


def test_cells_far_apart_do_not_make_a_huge_table(settings: Settings) -> None:
    settings.MAX_WORKBOOK_CELLS = 100_000
    rows = "".join(
        f'<row r="{n}"><c r="A{n}"><v>1</v></c><c r="{openpyxl.utils.get_column_letter(n + 1)}{n}"><v>2</v></c></row>'
        for n in range(1, 2_000)
    )
    data = rewritten(saved(make_workbook(**SMALL)), "xl/worksheets/sheet1.xml", sheet_xml(rows))
    assert "cellules" in refusal(data, "a.xlsx")


def test_row_and_column_at_the_far_end_cost_what_they_hold() -> None:
    rows = (
        '<row r="1"><c r="A1"><v>1</v></c><c r="XFD1"><v>2</v></c></row>'
        '<row r="999999999999"><c r="A999999999999"><v>3</v></c></row>'
    )
    data = rewritten(saved(make_workbook(**SMALL)), "xl/worksheets/sheet1.xml", sheet_xml(rows))
    with little_work(2):
        parsed = parse_document(data, filename="a.xlsx")
    assert [block.text for block in parsed.blocks] == ["| 1 | 2 |\n| --- | --- |", "3"]


def test_column_of_words_beside_questions_and_answers_is_noticed() -> None:
    rows: list[list[Any]] = [
        ["N°", "Question", "Réponse", "Textes"],
        [1, "Quel délai ?", "Un mois.", "Décret 12"],
        [2, "Qui signe ?", "Le bureau.", None],
    ]
    assert read(make_workbook(Paie=rows)).notices == ("feuille « Paie » : colonnes ignorées : Textes",)


def test_many_merged_areas_cost_the_rows_they_cover(settings: Settings) -> None:
    settings.MAX_WORKBOOK_CELLS = 5_000
    rows = "".join(f'<row r="{n}"><c r="A{n}" t="str"><v>x</v></c></row>' for n in range(1, 2_000))
    areas = "".join('<mergeCell ref="A1:A1999"/>' for _ in range(2_000))
    sheet = sheet_xml(rows).replace(b"</sheetData>", f"</sheetData><mergeCells>{areas}</mergeCells>".encode())
    data = rewritten(saved(make_workbook(**SMALL)), "xl/worksheets/sheet1.xml", sheet)
    assert "trop de cellules" in refusal(data, "a.xlsx")


def parse_csv(text: str, encoding: str = "utf-8") -> ParsedDocument:
    return parse_document(text.encode(encoding), filename="faq_rh.csv")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_are_questions_with_their_category(delimiter: str) -> None:
    rows = [["id", "Question", "RÉPONSE", "Catégorie"], ["7", "Quel délai ?", "Un mois.", "Paie"]]
    parsed = parse_csv("\n".join(delimiter.join(row) for row in rows))
    block = parsed.blocks[0]
    assert (block.kind, block.question, block.text) == ("qa", "Quel délai ?", "Un mois.")
    assert (block.category, parsed.title) == ("Paie", "faq rh")


def test_incomplete_rows_are_skipped_with_their_line() -> None:
    parsed = parse_csv('question,answer\nA ?,"un\ndeux"\nB ?,\n,C\n\nD ?,quatre\n')
    assert [block.question for block in parsed.blocks] == ["A ?", "D ?"]
    assert [notice.split(" :")[0] for notice in parsed.notices] == ["ligne 4", "ligne 5"]


@pytest.mark.parametrize(
    "head",
    [
        "sep=;\nquestion;réponse;catégorie",
        "Foire aux questions, réponses du service\n\nN°;Question posée;Réponse apportée;Thème",
        "Date de la question;Intitulé de la question;Réponse du service;Rubrique",
        "Q;R;Catégorie",
    ],
)
def test_questions_are_found_under_names_that_say_so(head: str) -> None:
    width = head.splitlines()[-1].count(";")
    row = ";".join([*[""] * (width - 2), "Quel délai ?", "Un mois.", "Paie"])
    block = parse_csv(f"{head}\n{row}\n").blocks[0]
    assert (block.question, block.text, block.category) == ("Quel délai ?", "Un mois.", "Paie")


def test_file_without_a_table_or_without_rows_is_refused() -> None:
    assert "aucun tableau" in refusal(b"un texte\nen deux lignes\n", "a.csv")
    assert "aucune question" in refusal(b"question,answer\n", "a.csv")


def test_links_of_cells_are_kept() -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.append(["Aide", "Formulaire"])
    sheet.append(["Logement", "Télécharger"])
    sheet["B2"].hyperlink = "https://v.example/f.pdf"
    assert (
        "| Logement | [Télécharger](https://v.example/f.pdf) |"
        in parse_document(saved(workbook), filename="a.xlsx").blocks[0].text
    )
