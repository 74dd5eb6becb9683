"""Every visible word of a document is in its passages, once and in order, whatever it stands in."""

import re
from collections.abc import Callable
from html import escape
from itertools import count

import openpyxl
import pytest
from docx import Document
from fpdf import FPDF
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pptx import Presentation

from knowledge.chunking import affordable_chunks
from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import saved
from tests.unit.knowledge.readers.test_opendocument import packed

#: What is written around a number that makes every word another.
_SHAPES = st.sampled_from(["mot{}", "\\df{}", "C:\\Users\\bob{}", "__init{}__", "a{}*b", "été{}", "x{}|y", "<t{}>"])
_KINDS = st.sampled_from(["heading", "paragraph", "list", "table", "code", "terms", "nested"])
Parts = list[tuple[str, list[str]]]
Writer = Callable[[Parts], bytes]
_parts = st.lists(st.tuples(_KINDS, st.lists(_SHAPES, min_size=1, max_size=30)), min_size=1, max_size=12)


def numbered(parts: Parts) -> Parts:
    numbers = count(100)
    return [(kind, [shape.format(next(numbers)) for shape in shapes]) for kind, shapes in parts]


def as_html(kind: str, words: list[str]) -> str:
    said = [escape(word) for word in words]
    match kind:
        case "heading":
            return f"<h2>{' '.join(said)}</h2>"
        case "list":
            return "<ul>" + "".join(f"<li>{word}</li>" for word in said) + "</ul>"
        case "nested":
            inner = "".join(f"<li><p>{word}</p></li>" for word in said[1:])
            return f"<ul><li>{said[0]}<ol>{inner}</ol></li></ul>"
        case "table":
            rows = "".join(f"<tr><td>{word}</td><td>r</td></tr>" for word in said)
            return f"<table><tr><th>c</th><th>d</th></tr>{rows}</table>"
        case "code":
            return "<pre>" + "\n".join(said) + "</pre>"
        case "terms":
            return "<dl>" + "".join(f"<dt>{w}</dt><dd>{w}d</dd>" for w in said) + "</dl>"
        case _:
            return f"<div>{' '.join(said)}</div>"


def numbers(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"1\d\d|[2-9]\d\d", text)]


def check(write: Writer, parts: Parts) -> None:
    """In order, each word's first mention follows the one before; its exact letters are somewhere."""
    parts = numbered(parts)
    words = [word for _kind, words in parts for word in words]
    filename = f"a.{write.__name__}"
    data = write(parts)
    parsed = parse_document(data, filename=filename)
    chunks = affordable_chunks(parsed)[0]
    said = [parsed.title] + [text for chunk in chunks for text in (chunk.parent_context, chunk.content)]
    everything = "\n".join(said).replace("\\|", "|")
    if filename.endswith(".md"):
        everything = re.sub(r"\\([\\_*<>])", r"\1", everything)
    assert [word for word in words if word not in everything] == []
    assert list(dict.fromkeys(numbers(everything))) == [n for w in words for n in numbers(w)]
    bodies = [n for chunk in chunks for n in set(numbers(chunk.content))]
    assert len(bodies) == len(set(bodies))


def as_markdown(kind: str, words: list[str]) -> str:
    # Text as somebody types it who wants it shown as it is: in code, or with its marks escaped.
    said = [re.sub(r"([\\\\_*<>])", r"\\\1", word) for word in words]
    match kind:
        case "heading":
            return f"## {' '.join(said)}"
        case "list":
            return "\n".join(f"- {word}" for word in said)
        case "nested":
            return f"- {said[0]}\n" + "\n".join(f"  1. {word}" for word in said[1:])
        case "table":
            cells = (word.replace("|", "\\|") for word in said)
            return "| c | d |\n| --- | --- |\n" + "\n".join(f"| {cell} | r |" for cell in cells)
        case "code":
            return "```text\n" + "\n".join(words) + "\n```"
        case _:
            return " ".join(said)


def html(parts: Parts) -> bytes:
    body = "".join(as_html(kind, words) for kind, words in parts)
    return f"<html><head><title>T</title></head><body><h1>T</h1>{body}</body></html>".encode()


def md(parts: Parts) -> bytes:
    return ("# T\n\n" + "\n\n".join(as_markdown(kind, words) for kind, words in parts)).encode()


def docx(parts: Parts) -> bytes:
    document = Document()
    document.add_heading("T", 0)
    for kind, words in parts:
        if kind == "heading":
            document.add_heading(" ".join(words), 2)
        elif kind in ("list", "nested"):
            for word in words:
                document.add_paragraph(word, style="List Bullet")
        elif kind == "table":
            table = document.add_table(len(words) + 1, 2)
            for row, word in enumerate(words, start=1):
                table.cell(row, 0).text, table.cell(row, 1).text = word, "r"
        else:
            document.add_paragraph(" ".join(words))
    return saved(document)


def pptx(parts: Parts) -> bytes:
    presentation = Presentation()
    for _kind, words in parts:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = words[0]
        slide.placeholders[1].text_frame.text = "\n".join(words[1:] or ["fin"])
    return saved(presentation)


def xlsx(parts: Parts) -> bytes:
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for number, (kind, words) in enumerate(parts):
        sheet = workbook.create_sheet(f"Tarifs {chr(65 + number)}")
        for word in words:
            sheet.append([word] if kind == "paragraph" else [word, "r"])
    return saved(workbook)


def pdf(parts: Parts) -> bytes:
    printed = FPDF()
    printed.add_page()
    printed.set_font("helvetica", size=24)
    printed.multi_cell(0, 12, "Guide", new_x="LMARGIN", new_y="NEXT")
    for kind, words in parts:
        printed.set_font("helvetica", size=16 if kind == "heading" else 11)
        if kind == "table":
            with printed.table(first_row_as_headings=False) as table:
                for word in words:
                    table.row([word, "r"])
        else:
            printed.multi_cell(0, 6, " ".join(words), align="L", new_x="LMARGIN", new_y="NEXT")
            printed.ln(4)
    return bytes(printed.output())


def rows_of(words: list[str]) -> str:
    cells = (f"<table:table-cell><text:p>{escape(word)}</text:p></table:table-cell>" for word in ("c", *words))
    beside = "<table:table-cell><text:p>r</text:p></table:table-cell>"
    return "".join(f"<table:table-row>{cell}{beside}</table:table-row>" for cell in cells)


def odt(parts: Parts) -> bytes:
    forms = {"heading": '<text:h text:outline-level="2">{}</text:h>', "table": "<table:table>{}</table:table>"}
    inner = [rows_of(words) if kind == "table" else escape(" ".join(words)) for kind, words in parts]
    written = (forms.get(kind, "<text:p>{}</text:p>") for kind, _words in parts)
    return packed("text", "".join(form.format(each) for form, each in zip(written, inner, strict=True)))


def ods(parts: Parts) -> bytes:
    sheets = (f'<table:table table:name="T{at}">{rows_of(words)}</table:table>' for at, (_, words) in enumerate(parts))
    return packed("spreadsheet", "".join(sheets))


def csv(parts: Parts) -> bytes:
    return ("c;d\n" + "".join(f"{word};r\n" for _kind, words in parts for word in words)).encode()


def txt(parts: Parts) -> bytes:
    return "\n\n".join(("\n- " if kind == "list" else " ").join(["", *words]) for kind, words in parts).encode()


@pytest.mark.parametrize("write", [html, md, txt, csv, docx, pptx, xlsx, odt, ods])
@given(parts=_parts)
@hypothesis_settings(max_examples=20, deadline=None)
def test_every_word_of_a_file_is_in_its_passages_in_order(write: Writer, parts: Parts) -> None:
    check(write, parts)


#: What the fonts that every PDF reader has can draw.
_WORDS = st.lists(
    st.sampled_from(["mot{}", "C:\\Users\\bob{}", "__init{}__", "été{}", "d'{}"]), min_size=1, max_size=30
)
_printed = st.lists(st.tuples(st.sampled_from(["heading", "paragraph", "table"]), _WORDS), min_size=1, max_size=12)


@given(parts=_printed)
@hypothesis_settings(max_examples=15, deadline=None)
def test_every_word_of_a_pdf_is_in_its_passages_in_order(parts: Parts) -> None:
    check(pdf, parts)
