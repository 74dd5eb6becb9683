"""A table that is cut into passages: each says what its columns are and which rows it holds, in every format."""

from collections.abc import Callable

import docx
import openpyxl
import pytest
from fpdf import FPDF

from knowledge.chunking import affordable_chunks
from knowledge.readers.base import table_cells, table_text
from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import saved

HALLS = [f"Salle {letter * 3}" for letter in "ABCDEFGHIJKLMNOPQRST"]
RATES = ["Demi-journée en semaine", "Soirée en semaine", "Dimanche et fériés", "Forfait ménage", "Caution"]
#: Of each hall: one text in its row, then its own prices.
ROWS = [
    row
    for place, hall in enumerate(HALLS)
    for row in ([hall, "", "", ""], *([rate, f"{place}.1 €", f"{place}.2 €", f"{place}.3 €"] for rate in RATES))
]
HEAD = [["Durée", "Commune", "", "Autre"], ["", "Habitants", "Associations", ""]]
NAMES = ["Durée", "Commune / Habitants", "Commune / Associations", "Autre"]


def as_csv(rows: list[list[str]]) -> bytes:
    return "\n".join(";".join(row) for row in rows).encode()


def as_md(rows: list[list[str]]) -> bytes:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * 4 + "|", *lines[1:]]).encode()


def as_html(rows: list[list[str]]) -> bytes:
    body = "".join(
        f"<tr><th colspan=4>{row[0]}</th></tr>" if not any(row[1:]) else f"<tr><td>{'</td><td>'.join(row)}</td></tr>"
        for row in rows[2:]
    )
    head = "<tr><th rowspan=2>Durée<th colspan=2>Commune<th rowspan=2>Autre</tr><tr><th>Habitants<th>Associations</tr>"
    return f"<h1>Tarifs</h1><table><thead>{head}</thead><tbody>{body}</table>".encode()


def as_xlsx(rows: list[list[str]]) -> bytes:
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append([cell or None for cell in row])
    workbook.active.merge_cells("A1:A2")
    return saved(workbook)


def as_docx(rows: list[list[str]]) -> bytes:
    document = docx.Document()
    table = document.add_table(len(rows), 4)
    for number, row in enumerate(rows):
        for cell, text in zip(table.rows[number].cells, row, strict=True):
            cell.text = text
        if not any(row[1:]):
            table.cell(number, 0).merge(table.cell(number, 3))
    table.cell(0, 1).merge(table.cell(0, 2))
    table.cell(0, 0).merge(table.cell(1, 0))
    return saved(document)


def as_pdf(rows: list[list[str]]) -> bytes:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("helvetica", size=10)
    with pdf.table(num_heading_rows=2) as table:
        first, second, *others = rows
        row = table.row()
        row.cell(first[0], rowspan=2)
        row.cell(first[1], colspan=2)
        row.cell(first[3], rowspan=2)
        table.row(second[1:3])
        for cells in others:
            row = table.row()
            if any(cells[1:]):
                for cell in cells:
                    row.cell(cell.replace("€", "F"))
            else:
                row.cell(cells[0], colspan=4)
    return bytes(pdf.output())


@pytest.mark.parametrize("write", [as_csv, as_md, as_html, as_xlsx, as_docx, as_pdf])
def test_every_price_stands_under_its_hall_and_the_names_of_all_header_rows(
    write: Callable[[list[list[str]]], bytes],
) -> None:
    parsed = parse_document(write([*HEAD, *ROWS]), filename=f"tarifs.{write.__name__[3:]}")
    passages = affordable_chunks(parsed)[0]
    found: list[list[str]] = []
    assert len(passages) > 1
    for passage in passages:
        rows = [table_cells(line) for line in passage.content.splitlines() if line.startswith("|")]
        assert rows[0] == NAMES
        hall = ""
        for row in rows[2:]:
            if any(row[1:]):
                place, rate = divmod(len(found), len(RATES))
                assert (hall, row[0]) == (HALLS[place], RATES[rate])
                assert [cell[:-2] for cell in row[1:]] == [f"{place}.1", f"{place}.2", f"{place}.3"]
                found.append(row)
            else:
                hall = row[0]
        assert any(rows[-1][1:])
    assert len(found) == len(HALLS) * len(RATES)


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        (
            ["Âge;Commune;;Autre", ";1 enfant;2 enfants;", "3 ans;1;2;3"],
            "Âge;Commune / 1 enfant;Commune / 2 enfants;Autre",
        ),
        (["Âge;A;;B;", "Âge;x;;y;", ";1;2;3;4", "3 ans;1;2;3;4"], "Âge;A / x / 1;A / x / 2;B / y / 3;B / y / 4"),
        (["Tarifs 2026;;", "Âge;Commune;Autre", "3 ans;1;2"], "Tarifs 2026 / Âge;Commune;Autre"),
        # Without a second row of names: the rows are what they were.
        (["Âge;Prix;", "3 ans;1;gratuit", "4 ans;2;"], "Âge;Prix;"),
        (["Tarifs;;", "3 ans;1 €;2 €", "4 ans;2 €;3 €"], "Tarifs;;"),
        ([";2025;2026", "Budget;1;2", ";3;4"], ";2025;2026"),
    ],
)
def test_header_of_several_rows_is_told_from_the_first_row_of_values(rows: list[str], header: str) -> None:
    text = table_text([row.split(";") for row in rows])
    assert table_cells(text.splitlines()[0]) == header.split(";")


def test_row_longer_than_a_passage_keeps_its_cells_in_their_columns_under_its_name() -> None:
    words = [f"mot{n}" for n in range(900)]
    cells = [" ".join(words[:300]), " ".join(words[300:600]), " ".join(words[600:])]
    text = table_text([["Poste", "A", "B", "C"], ["Agent d’accueil", *cells]])
    passages = affordable_chunks(parse_document(text.encode(), filename="a.md"))[0]
    columns: list[list[str]] = [[], [], []]
    for passage in passages:
        for row in map(table_cells, passage.content.splitlines()[2:]):
            assert row[0] == "Agent d’accueil"
            for column, cell in zip(columns, row[1:], strict=True):
                column += cell.split()
    assert columns == [cell.split() for cell in cells]


@pytest.mark.parametrize("last", ["", "| Signature | Paul | Marie |"])
def test_rows_of_nothing_but_a_question_to_tick_are_read_to_the_last(last: str) -> None:
    asked = [f"As-tu déjà eu mal au genou numéro {n} pendant plus d’un jour ?" for n in range(90)]
    text = "\n".join(
        ["| Depuis un an | OUI | NON |", "| --- | --- | --- |", *(f"| {each} |  |  |" for each in asked), last]
    )
    passages = [passage.content for passage in affordable_chunks(parse_document(text.encode(), filename="a.md"))[0]]
    assert all(any(each in passage for passage in passages) for each in asked)
    assert max(map(len, passages)) < 2_000


def test_caption_of_a_table_stands_above_each_of_its_parts() -> None:
    rows = "".join(f"<tr><td>Prestation numéro {n}</td><td>{n} €</td></tr>" for n in range(200))
    page = f"<h1>Mairie</h1><p>Texte.</p><table><caption>Tarifs 2026</caption><tr><th>Nom<th>Prix</tr>{rows}</table>"
    passages = affordable_chunks(parse_document(page.encode(), filename="a.html"))[0]
    assert len(passages) > 2
    assert all("**Tarifs 2026**\n\n| Nom | Prix |" in passage.content for passage in passages)
