"""PDF files: headings by size, paragraphs put together again, and the files that are refused."""

import io

import pytest
from fpdf import FPDF
from fpdf.enums import EncryptionMethod
from PIL import Image
from pytest_django.fixtures import Settings

from knowledge.errors import UnreadableDocumentError
from knowledge.readers.registry import parse_document

SENTENCE = "Le congé annuel est accordé au salarié par son employeur dans les conditions du contrat. "


def make_pdf(*sections: tuple[str, str], title: str = "Guide des congés", head: str = "") -> FPDF:
    pdf = FPDF()
    pdf.set_title("")
    for index, (heading, text) in enumerate(sections):
        pdf.add_page()
        if head:
            write(pdf, f"{head} {index + 1}", 9)
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


def refusal(data: bytes) -> str:
    with pytest.raises(UnreadableDocumentError) as caught:
        parse_document(data, filename="guide.pdf")
    return str(caught.value.public_message)


def test_headings_come_from_the_size_of_their_letters() -> None:
    pdf = make_pdf(("Durée", SENTENCE * 3), ("Report", SENTENCE * 2))
    parsed = parse_document(bytes(pdf.output()), filename="guide.pdf")
    assert parsed.title == "Guide des congés"
    assert [(block.headings, block.page) for block in parsed.blocks] == [(("Durée",), 1), (("Report",), 2)]


def test_lines_are_joined_into_paragraphs() -> None:
    pdf = make_pdf(("Durée", f"{SENTENCE * 4}\n\n{SENTENCE * 3}"))
    parsed = parse_document(bytes(pdf.output()), filename="guide.pdf")
    assert [block.text for block in parsed.blocks] == [(SENTENCE * 4).strip(), (SENTENCE * 3).strip()]


def test_words_cut_at_a_line_end_are_repaired() -> None:
    pdf = make_pdf(("Durée", "Le salarié doit prévenir son em-\nployeur avant de partir en vacances."))
    parsed = parse_document(bytes(pdf.output()), filename="guide.pdf")
    assert "son employeur avant" in parsed.blocks[0].text


def test_running_heads_and_page_numbers_are_removed() -> None:
    names = ["Durée", "Report", "Solde", "Refus"]
    sections = [(name, f"{name} : {SENTENCE}{name} encore. {SENTENCE}") for name in names]
    pdf = make_pdf(*sections, head="Mairie de Lille, page")
    parsed = parse_document(bytes(pdf.output()), filename="guide.pdf")
    assert not any("Mairie" in block.text for block in parsed.blocks)
    assert [block.headings for block in parsed.blocks] == [(name,) for name in names]


def test_bullets_are_a_list() -> None:
    pdf = make_pdf(("Pièces", "Il faut joindre les pièces suivantes :\n\n- une copie\n\n- un timbre"))
    parsed = parse_document(bytes(pdf.output()), filename="guide.pdf")
    assert [(block.kind, block.text) for block in parsed.blocks][-1] == ("list", "- une copie\n- un timbre")


def test_encrypted_file_is_refused() -> None:
    pdf = make_pdf(("Durée", SENTENCE))
    pdf.set_encryption("owner", "secret", encryption_method=EncryptionMethod.RC4)
    assert "mot de passe" in refusal(bytes(pdf.output()))


def test_file_that_an_empty_password_opens_is_read() -> None:
    pdf = make_pdf(("Durée", SENTENCE))
    pdf.set_encryption("owner", "", encryption_method=EncryptionMethod.RC4)
    parsed = parse_document(bytes(pdf.output()), filename="guide.pdf")
    assert parsed.blocks[0].text == SENTENCE.strip()


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_truncated_file_is_refused(share: float) -> None:
    data = bytes(make_pdf(("Durée", SENTENCE * 20)).output())
    assert "tronqué" in refusal(data[: int(len(data) * share)])


def picture() -> io.BytesIO:
    buffer = io.BytesIO()
    Image.new("RGB", (60, 60), "grey").save(buffer, "PNG")
    return buffer


def test_photograph_is_refused_naming_ocr() -> None:
    pdf = FPDF()
    pdf.add_page()
    pdf.image(picture(), w=100)
    message = refusal(bytes(pdf.output()))
    assert "images" in message
    assert "OCR" in message
    assert "Tesseract" in message


def test_page_without_text_is_noticed() -> None:
    pdf = make_pdf(("Durée", SENTENCE))
    pdf.add_page()
    pdf.image(picture(), w=100)
    parsed = parse_document(bytes(pdf.output()), filename="guide.pdf")
    assert len(parsed.notices) == 1
    assert "page 2" in parsed.notices[0]


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
    assert "abîmé" in refusal(hand_made(pages=pages))


def test_form_that_one_program_alone_can_show_is_refused() -> None:
    text = "Please wait... If this message is not eventually replaced"
    form = "/AcroForm << /Fields [] /XFA (x) >>"
    assert "XFA" in refusal(hand_made(catalog=f"/NeedsRendering true {form}", text=text))
    parsed = parse_document(hand_made(catalog=form), filename="guide.pdf")
    assert parsed.blocks[0].text == SENTENCE.strip()


def test_too_many_pages_are_refused(settings: Settings) -> None:
    settings.MAX_DOCUMENT_PAGES = 1
    assert "trop de pages" in refusal(bytes(make_pdf(("A", SENTENCE), ("B", SENTENCE)).output()))


def test_damaged_file_is_refused() -> None:
    data = bytes(make_pdf(("Durée", SENTENCE)).output())
    assert refusal(data[:9] + b"\xff" * (len(data) - 200) + b"startxref\n0\n%%EOF")
