"""PDF files: how pages are read as they are set, and the files that are refused."""

import io
import re

import pytest
from fpdf import FPDF
from fpdf.enums import EncryptionMethod
from PIL import Image
from pytest_django.fixtures import Settings

from knowledge.readers.base import ParsedDocument, table_row
from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import refusal

PHRASE = "Le locataire adresse une lettre recommandée au bailleur avant la fin du mois de juin."
SENTENCE = "Le congé annuel est accordé au salarié par son employeur dans les conditions du contrat. "


def make_pdf(*sections: tuple[str, str], title: str = "Guide des congés") -> FPDF:
    pdf = FPDF()
    pdf.set_title("")
    for index, (heading, text) in enumerate(sections):
        pdf.add_page()
        if index == 0:
            write(pdf, title, 24)
        write(pdf, heading, 16)
        for paragraph in text.split("\n\n"):
            write(pdf, paragraph, 11)
    return pdf


def write(pdf: FPDF, text: str, size: int) -> None:
    pdf.set_font("helvetica", size=size)
    pdf.multi_cell(0, size * 0.5, text, align="L", new_x="LMARGIN", new_y="NEXT")
    pdf.ln(4)


def read(pdf: FPDF) -> ParsedDocument:
    return parse_document(bytes(pdf.output()), filename="guide.pdf")


def test_headings_come_from_the_size_of_their_letters() -> None:
    pdf = make_pdf(("Durée", SENTENCE * 3), ("Report", SENTENCE * 2))
    parsed = read(pdf)
    assert parsed.title == "Guide des congés"
    assert [(block.headings, block.page) for block in parsed.blocks] == [(("Durée",), 1), (("Report",), 2)]


@pytest.mark.parametrize(
    ("written", "kind", "read_as"),
    [
        (f"{SENTENCE * 4}\n\n{SENTENCE * 3}", "prose", [(SENTENCE * 4).strip(), (SENTENCE * 3).strip()]),
        ("Prévenez votre em-\nployeur avant.", "prose", ["Prévenez votre employeur avant."]),
        ("Joindre :\n\n- une copie\n\n- un timbre", "list", ["Joindre :", "- une copie\n- un timbre"]),
    ],
)
def test_lines_are_paragraphs_and_lists_and_a_cut_word_is_one(written: str, kind: str, read_as: list[str]) -> None:
    blocks = read(make_pdf(("Durée", written))).blocks
    assert ([block.text for block in blocks], blocks[-1].kind) == (read_as, kind)


def test_encrypted_file_is_refused() -> None:
    pdf = make_pdf(("Durée", SENTENCE))
    pdf.set_encryption("owner", "secret", encryption_method=EncryptionMethod.RC4)
    assert "mot de passe" in refusal(bytes(pdf.output()), "guide.pdf")


def test_file_that_an_empty_password_opens_is_read() -> None:
    pdf = make_pdf(("Durée", SENTENCE))
    pdf.set_encryption("owner", "", encryption_method=EncryptionMethod.RC4)
    assert read(pdf).blocks[0].text == SENTENCE.strip()


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_truncated_file_is_refused(share: float) -> None:
    data = bytes(make_pdf(("Durée", SENTENCE * 20)).output())
    assert "tronqué" in refusal(data[: int(len(data) * share)], "guide.pdf")


def picture() -> io.BytesIO:
    buffer = io.BytesIO()
    Image.new("RGB", (60, 60), "grey").save(buffer, "PNG")
    return buffer


def test_photograph_is_refused_naming_ocr() -> None:
    pdf = FPDF()
    pdf.add_page()
    pdf.image(picture(), w=100)
    message = refusal(bytes(pdf.output()), "guide.pdf")
    assert all(word in message for word in ("images", "OCR", "Tesseract"))


def test_page_without_text_is_noticed() -> None:
    pdf = make_pdf(("Durée", SENTENCE))
    pdf.add_page()
    pdf.image(picture(), w=100)
    parsed = read(pdf)
    assert len(parsed.notices) == 1
    assert "page(s) 2" in parsed.notices[0]


def hand_made(
    *, catalog: str = "", pages: str = "/Kids [3 0 R] /Count 1", page: str = "", text: str = SENTENCE
) -> bytes:
    """A file of one page, with more entries in its objects."""
    drawn = f"BT /F 12 Tf 72 700 Td ({text}) Tj ET"
    objects = (
        f"<< /Type /Catalog /Pages 2 0 R {catalog} >>",
        f"<< /Type /Pages {pages} >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> {page} >>",
        f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    )
    data, places = b"%PDF-1.7\n", b""
    for number, each in enumerate(objects, start=1):
        places += b"%010d 00000 n \n" % len(data)
        data += f"{number} 0 obj\n{each}\nendobj\n".encode("cp1252")
    end = b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(data)
    return data + b"xref\n0 6\n0000000000 65535 f \n" + places + end


@pytest.mark.parametrize(
    "page",
    [
        "/MediaBox [0 0 1 1]",
        "/MediaBox [0 0 0 0]",
        "/MediaBox [612 792 0 0]",
        "/MediaBox [0 0 2000000000 2000000000]",
        "/CropBox [0 0 1 1]",
        "/CropBox [5000 5000 6000 6000]",
        "/UserUnit 100000000000000000000",
        "/Rotate 45",
        "/Rotate -450",
    ],
)
def test_page_of_a_strange_size_or_turn_is_read(page: str) -> None:
    parsed = parse_document(hand_made(page=page), filename="guide.pdf")
    assert [block.text for block in parsed.blocks] == [SENTENCE.strip()]
    assert all(0 <= share <= 1 for line in parsed.lines for share in line.box)


@pytest.mark.parametrize(
    "pages", ["/Kids [] /Count 0", "/Kids [2 0 R] /Count 3", "/Kids [2 0 R 3 0 R] /Count 2", "/Kids [3 0 R] /Count 900"]
)
def test_tree_of_pages_without_a_page_or_in_a_circle_is_refused(pages: str) -> None:
    assert "abîmé" in refusal(hand_made(pages=pages), "guide.pdf")


def test_form_that_one_program_alone_can_show_is_refused() -> None:
    text = "Please wait... If this message is not eventually replaced"
    form = "/AcroForm << /Fields [] /XFA (x) >>"
    assert "XFA" in refusal(hand_made(catalog=f"/NeedsRendering true {form}", text=text), "guide.pdf")
    parsed = parse_document(hand_made(catalog=form), filename="guide.pdf")
    assert parsed.blocks[0].text == SENTENCE.strip()


def test_too_many_pages_are_refused(settings: Settings) -> None:
    settings.MAX_DOCUMENT_PAGES = 1
    assert "trop de pages" in refusal(bytes(make_pdf(("A", SENTENCE), ("B", SENTENCE)).output()), "guide.pdf")


def test_damaged_file_is_refused() -> None:
    data = bytes(make_pdf(("Durée", SENTENCE)).output())
    assert refusal(data[:9] + b"\xff" * (len(data) - 200) + b"startxref\n0\n%%EOF", "guide.pdf")


def page(pdf: FPDF | None = None, *, size: float = 11) -> FPDF:
    pdf = pdf or FPDF(unit="pt", format="A4")
    pdf.set_auto_page_break(False)
    pdf.add_page()
    pdf.set_font("helvetica", size=size)
    return pdf


def put(pdf: FPDF, x: float, y: float, text: str, *, size: float = 11, font: str = "helvetica") -> None:
    pdf.set_font(font, size=size)
    pdf.text(x, y, text)


def texts(parsed: ParsedDocument) -> list[str]:
    return [block.text for block in parsed.blocks]


def test_words_that_are_placed_one_by_one_are_not_glued() -> None:
    pdf, x = page(), 60.0
    for word in PHRASE.split():
        put(pdf, x, 100, word)
        x += pdf.get_string_width(word) + 3.2
    assert texts(read(pdf)) == [PHRASE]


@pytest.mark.parametrize("rules", [(), (114,), (114, 132, 150), (96, 114, 150)])
def test_table_without_upright_rules_keeps_its_header_and_cells(rules: tuple[int, ...]) -> None:
    pdf = page()
    put(pdf, 60, 60, PHRASE)
    for row, cells in enumerate([["Tarif", "Enfant", "Adulte"], ["Nage", "3,20", "5,40"], ["Aquagym", "-", "8,50"]]):
        for column, text in enumerate(cells):
            put(pdf, 70 + 120 * column, 110 + 18 * row, text)
    for y in rules:
        pdf.line(60, y, 420, y)
    put(pdf, 60, 190, PHRASE)
    assert texts(read(pdf))[1].splitlines() == [
        "| Tarif | Enfant | Adulte |",
        "| --- | --- | --- |",
        "| Nage | 3,20 | 5,40 |",
        "| Aquagym | - | 8,50 |",
    ]


def test_raised_notes_struck_text_links_and_free_notes_are_told_from_the_text() -> None:
    pdf = page()
    put(pdf, 60, 100, "Repas : 4")
    x = 60 + pdf.get_string_width("Repas : 4")
    put(pdf, x, 96, "1", size=6)
    put(pdf, x + 6, 100, "€ au lieu de 7,50 €.".replace("€", "F"))
    struck = x + 6 + pdf.get_string_width("F au lieu de ")
    pdf.line(struck, 97, struck + pdf.get_string_width("7,50 F"), 97)
    put(pdf, 60, 140, "Voir le formulaire.")
    pdf.link(60 + pdf.get_string_width("Voir le "), 130, pdf.get_string_width("formulaire"), 12, "https://v.example/f")
    pdf.free_text_annotation("Le lundi seulement", x=200, y=130, w=120, h=14)
    parsed = read(pdf)
    assert texts(parsed) == [
        "Repas : 4 (1) F au lieu de .",
        "Voir le [formulaire.](https://v.example/f) Le lundi seulement",
    ]
    assert parsed.notices == ("texte barré, laissé de côté : « 7,50 F »",)


def test_box_around_a_note_is_no_table() -> None:
    pdf = page()
    pdf.rect(50, 80, 400, 60)
    put(pdf, 60, 100, PHRASE[:60])
    assert [block.kind for block in read(pdf).blocks] == ["prose"]


@pytest.mark.parametrize("grounds", [(), (0, 1, 3)], ids=["no rule", "grounds"])
def test_wrapped_cells_are_one_row_where_the_file_is_written_cell_by_cell(grounds: tuple[int, ...]) -> None:
    pdf, xs = page(), (60, 200, 420)
    rows = [
        ("Prestation", "Conditions", "Prix"),
        ("Mariage à la|mairie annexe", "Livret de famille et deux témoins|majeurs munis de leurs|pièces", "120 euros"),
        ("Location de la|salle des fêtes", "Chèque de caution remis|quinze jours avant", "350 euros"),
        ("Prêt de tables", "Retrait le vendredi matin, retour|le lundi", "gratuit"),
    ]
    pdf.rect(56, 88, 440, 120) if grounds else None
    for row, cells in enumerate(rows):
        top, bottom = (88, 105, 148, 178, 208)[row : row + 2]
        for column, cell in enumerate(cells):
            if row in grounds:
                pdf.rect(xs[column] - 4, top, (140, 220, 80)[column], bottom - top)
            for line, part in enumerate(cell.split("|")):
                put(pdf, xs[column], top + 12 + 13 * line, part)
    table = next(block.text for block in read(pdf).blocks if block.kind == "table")
    assert table.splitlines()[2:] == [table_row(cell.replace("|", " ") for cell in cells) for cells in rows[1:]]


def test_running_head_with_the_chapter_and_the_page_is_removed() -> None:
    pdf: FPDF | None = None
    for number in range(1, 9):
        pdf = page(pdf)
        chapter = "Accueil du public" if number < 5 else "Gestion du parc"
        put(pdf, 60, 40, chapter, size=9)
        put(pdf, 500, 40, str(number + 10), size=9)
        put(pdf, 60, 130, f"{PHRASE} Page {number}.")
    assert pdf is not None
    written = " ".join(texts(read(pdf)))
    assert "Accueil" not in written
    assert "Gestion" not in written
    assert [int(n) for n in re.findall(r"Page (\d)", written)] == list(range(1, 9))


def test_first_line_of_each_page_is_no_running_head() -> None:
    pdf: FPDF | None = None
    for number in range(6):
        pdf = page(pdf)
        put(pdf, 60, 60, f"Article {'abcdef'[number]} de la convention sur les {number + 3} congés.")
        put(pdf, 60, 300, PHRASE)
    assert pdf is not None
    assert sum("Article" in text for text in texts(read(pdf))) == 6


def test_contents_give_way_to_the_titles_they_lead_to() -> None:
    pdf = page()
    put(pdf, 60, 60, "Sommaire", size=16)
    for row, title in enumerate(["Accueil", "Congés", "Paie"]):
        put(pdf, 60, 100 + 20 * row, f"{title} . . . . . . . . . . . . . . . {row + 2}")
    for title in ["Accueil", "Congés", "Paie"]:
        page(pdf)
        put(pdf, 60, 130, title, size=16)
        put(pdf, 60, 160, PHRASE)
    parsed = read(pdf)
    assert texts(parsed) == [PHRASE] * 3
    assert [block.headings for block in parsed.blocks] == [("Accueil",), ("Congés",), ("Paie",)]


def test_prices_at_the_end_of_dots_are_kept() -> None:
    pdf = page()
    for row, (name, price) in enumerate([("Café", 2), ("Thé", 3), ("Chocolat", 4), ("Sirop", 5)]):
        put(pdf, 60, 130 + 20 * row, f"{name} . . . . . . . . . . . . . . . . . . . . {price}")
    written = " ".join(texts(read(pdf)))
    assert written == "Café … 2 Thé … 3 Chocolat … 4 Sirop … 5"


def test_each_line_says_where_it_stands() -> None:
    pdf = page()
    put(pdf, 59.5, 84.2, PHRASE)
    page(pdf)
    put(pdf, 297.6, 421, "Seconde page.")
    first, second = read(pdf).lines
    assert (first.page, second.page) == (1, 2)
    assert (round(first.box[0], 2), round(second.box[0], 2)) == (0.1, 0.5)
    assert first.box[1] < 0.1 < first.box[3] < 0.12
    assert second.text == "Seconde page."


def test_turned_page_is_read_and_placed_as_it_is_shown() -> None:
    pdf = FPDF(unit="pt", format="A4", orientation="landscape")
    page(pdf)
    put(pdf, 84.2, 59.5, "En travers.")
    [line] = read(pdf).lines
    assert round(line.box[0], 2) == 0.1
    assert 0.08 < line.box[1] < line.box[3] < 0.12
