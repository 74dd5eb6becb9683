"""Small files made to hang or crash a parser: each is read, or refused, in a time that grows with its size."""

import sys

import pytest

from knowledge.errors import UnreadableDocumentError
from knowledge.readers.base import ParsedDocument
from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import built
from tests.waiting import little_work

SECONDS = 5.0


def read(data: bytes | str, name: str) -> ParsedDocument:
    data = data.encode() if isinstance(data, str) else data
    with little_work(SECONDS):
        return parse_document(data, filename=name)


def text_of(parsed: ParsedDocument) -> str:
    return "\n".join(f"{block.question}\n{block.text}" for block in parsed.blocks)


def calls_of(data: str, name: str) -> int:
    """How many functions are called to read a file: work, on however busy a machine."""
    count = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        parse_document(data.encode(), filename=name)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("mark", ["![", "[", "[![", "![a](b ", "***a* ", "**a ", "[a](", "`a ", "<!--", "<a "])
def test_work_for_marks_that_never_close_grows_with_the_text_and_no_faster(mark: str) -> None:
    read(f"# Titre\n\nle {mark * 10} fin", "a.md")  # what is loaded at first use
    once, twice = (calls_of(f"# Titre\n\nle {mark * n} fin", "a.md") for n in (1_000, 2_000))

    assert twice < 2.3 * once
    assert twice < 400_000


def docx(body: str) -> bytes:
    return built("docx", {"body": body})


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"


def test_page_of_a_million_tags_is_refused_before_it_is_read() -> None:
    with pytest.raises(UnreadableDocumentError, match="tags"):
        read("<ul><li>a" * 500_000, "a.html")


@pytest.mark.parametrize("opening", ["<!---->", "<!-- a --> ", "<!----><", "<!--", "<?xml "])
def test_text_of_nothing_but_comments_is_read_in_no_time(opening: str) -> None:
    read(opening * 3000 + " texte", "a.txt")


@pytest.mark.parametrize(
    "tag",
    [
        "<details><summary>q ?</summary>",
        "<dl><dt>Qui ?</dt><dd>",
        "<ul><li>a ",
        "<table><tr><td>a</td><td>",
        "<div>",
        "<p><b>",
    ],
)
def test_tags_nested_in_one_another_are_read_to_the_end(tag: str) -> None:
    parsed = read(f"<html><body><p>Avant</p>{tag * 300}Le fond", "a.html")
    assert "Le fond" in text_of(parsed)


@pytest.mark.parametrize("address", ["autre.html", "#bas"])
def test_texts_of_links_are_not_looked_at_again_at_every_depth(address: str) -> None:
    links = f"<ul>{f'<li><a href={address!r}>Un lien</a></li>' * 100}</ul>"
    shallow, deep = (calls_of(f"{'<div>' * n}{links}{'</div>' * n}<p>Fin</p>", "a.html") for n in (2, 82))

    assert deep < 6 * shallow


@pytest.mark.parametrize("span", ["100000000", "-5", "abc", ""])
def test_cell_that_claims_to_span_a_hundred_million_columns_is_one_cell(span: str) -> None:
    row = cell("Prix", f'<w:gridSpan w:val="{span}"/>') + cell("12 euros")
    parsed = read(docx(f"<w:tbl><w:tr>{row}</w:tr></w:tbl>"), "a.docx")
    assert "| Prix | 12 euros |" in text_of(parsed)


def test_comment_in_the_body_of_a_word_file_is_passed_over() -> None:
    body = "<!-- a --><w:p><w:r><w:t>Le texte</w:t></w:r></w:p><?x y?>"
    assert text_of(read(docx(body), "a.docx")).strip() == "Le texte"
