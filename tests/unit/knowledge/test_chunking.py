"""Chunks: their size, their path, where they are cut, that no word is lost, and that an edit elsewhere moves no cut."""

import re
from itertools import chain

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from knowledge.chunking import (
    CHUNK_MAX_CHARACTERS,
    ChunkDraft,
    Item,
    KnowledgeUnit,
    affordable_chunks,
    cut,
    is_title,
    segments,
)
from knowledge.models import SourceType
from knowledge.readers.base import Block, ParsedDocument
from knowledge.readers.registry import parse_document

SENTENCES = [f"La phrase numéro {n} dit quelque chose de précis sur le congé." for n in range(60)]


def chunks_of(text: str) -> list[ChunkDraft]:
    return affordable_chunks(parse_document(text.encode(), filename="note.md"))[0]


def chunked(*blocks: Block) -> list[ChunkDraft]:
    return affordable_chunks(ParsedDocument("T", blocks, SourceType.TEXT))[0]


def test_path_is_kept_without_the_title() -> None:
    body = " ".join(SENTENCES[:6])
    chunks = chunks_of(f"# Guide\n\n## Congés\n\n### Report\n\n{body}\n\n## Paie\n\n{body}")
    assert [chunk.parent_context for chunk in chunks] == ["Congés > Report", "Paie"]


def test_long_text_is_cut_between_sentences() -> None:
    chunks = chunked(Block(" ".join(SENTENCES), ()))
    assert len(chunks) > 2
    assert all(len(chunk.content) <= CHUNK_MAX_CHARACTERS for chunk in chunks)
    assert all(chunk.content.endswith(".") for chunk in chunks)


def test_abbreviation_ends_no_sentence_and_so_no_part() -> None:
    parts = list(cut("Le droit est ouvert par le texte (art. 34 du décret) ou par la circulaire. " * 40, 300, 400))
    assert len(parts) > 5
    assert not [part for part in parts if part.startswith("34")]


def test_list_stays_with_the_sentence_that_announces_it() -> None:
    filler = Block(" ".join(SENTENCES[:16]), ())
    chunks = chunked(filler, Block("Il faut :", ()), Block("- un bail\n- un timbre", (), "list"))
    assert chunks[-1].content.endswith("Il faut :\n\n- un bail\n- un timbre")


def test_tiny_sections_share_a_chunk_with_their_titles() -> None:
    chunks = chunks_of("# T\n\n## Lieu\n\n### Lille\n\nÀ la mairie.\n\n### Lens\n\nÀ la poste.")
    assert len(chunks) == 1
    assert chunks[0].parent_context == "Lieu"
    assert chunks[0].content == "**Lille**\n\nÀ la mairie.\n\n**Lens**\n\nÀ la poste."


def test_question_is_one_chunk_with_one_unit() -> None:
    (chunk,) = chunked(Block("Un mois.", ("Paie",), "qa", question="Quel délai ?", category="RH"))
    assert chunk.units == (KnowledgeUnit("Quel délai ?", "Un mois."),)
    assert (chunk.content, chunk.category) == ("Un mois.", "RH")
    assert chunk.parent_context == "Paie > Quel délai ?"


def test_unit_keeps_an_answer_longer_than_a_chunk() -> None:
    answer = " ".join(SENTENCES * 4)
    chunks = chunked(Block(answer, (), "qa", question="Pourquoi ?"))
    assert [unit.answer for chunk in chunks for unit in chunk.units] == [answer]


def test_hash_follows_what_the_document_says() -> None:
    draft = ChunkDraft("a", "b", "c", ())
    assert draft.content_hash == ChunkDraft("a", "b", "c", (), ("k",), "s").content_hash
    others = [ChunkDraft("x", "b", "c", ()), ChunkDraft("a", "x", "c", ()), ChunkDraft("a", "b", "x", ())]
    assert draft.content_hash not in {other.content_hash for other in others}


_word = st.text("abcdeéèàô", min_size=1, max_size=12)


LINES = [f"ligne_{n} = valeur({n})" for n in range(200)]


def marks(text: str) -> list[str]:
    return re.findall(r"(?m)^ *(?:- )?(`{3,}.*)$", text)


def test_cut_in_a_block_of_code_closes_and_reopens_it_with_its_language() -> None:
    code = "\n".join(["```sql", *LINES, "```"])
    chunks = chunked(Block(f"Voici le code :\n\n{code}", ("Requêtes",)))

    assert len(chunks) > 2
    assert all(marks(chunk.content) == ["```sql", "```"] for chunk in chunks)
    said = [line for chunk in chunks for line in chunk.content.split("\n") if "ligne" in line]
    assert said == LINES


def test_code_in_the_item_of_a_list_is_closed_and_reopened_at_its_margin() -> None:
    code = "\n".join(["- Lancez :", "  ```sh", *(f"  {line}" for line in LINES), "  ```", "- Fini."])
    for chunk in chunked(Block(code, (), "list")):
        assert len(marks(chunk.content)) % 2 == 0
        assert chunk.content.startswith(("- ", "```sh\nligne"))


def test_title_is_never_cut_from_what_it_stands_above() -> None:
    sections = [Block(" ".join(SENTENCES[m] for m in range(n % 7 + 1)), (f"Partie {n}",)) for n in range(60)]
    bare = Block("Sans texte", ("Partie 60",), "title")
    chunks = chunked(*sections[:30], bare, *sections[30:])

    for chunk in chunks:
        lines = [line for line in chunk.content.split("\n") if line]
        assert not is_title(lines[-1])
        assert len(lines) > 1 or "phrase" in lines[0]


_marked = st.text("abcdeé\\_", min_size=1, max_size=9)
_line = st.lists(_marked, min_size=1, max_size=12).map(" ".join)
_code = st.lists(_line, min_size=1, max_size=60).map(lambda lines: "\n".join(["```x", *lines, "```"]))
_table = st.lists(_line, min_size=1, max_size=40).map(
    lambda rows: "\n".join(["| t | u |", "| --- | --- |", *(f"| {row} | v |" for row in rows)])
)
_bold = _word.map(lambda word: f"**{word}**")
_prose = st.lists(_line.map(lambda line: line + "."), min_size=1, max_size=40).map(" ".join)
_text = st.lists(st.one_of(_code, _table, _bold, _prose), min_size=1, max_size=6).map("\n\n".join)


@given(text=_text)
def test_no_word_is_lost_doubled_or_moved_by_a_cut(text: str) -> None:
    parts = list(cut(text, 300, 500))

    def said(text: str) -> list[str]:
        bare = re.sub(r"(?m)^(?:```x?|\| t \| u \||\| --- \| --- \|)$", "", text)
        return re.findall(r"[\w\\]+", bare)

    assert [word for part in parts for word in said(part)] == said(text)
    assert all(len(marks(part)) % 2 == 0 for part in parts)


AIM = 1_000
_piece = st.text("abcdefghij ", min_size=20, max_size=400)
_items = st.lists(st.builds(Item, _piece, st.integers(0, 2)), max_size=60)


def hashes(texts: list[str], *, kind: str = "prose") -> list[str]:
    blocks = tuple(Block(text, ("Congés",), "prose") for text in texts)
    if kind == "table":
        table = "\n".join(["| Nom | Valeur |", "|---|---|", *(f"| {t} | oui |" for t in texts)])
        blocks = (Block(table, ("Congés",), "table"),)
    return [c.content_hash for c in affordable_chunks(ParsedDocument("T", blocks, SourceType.TEXT))[0]]


def paragraph(number: int) -> str:
    return f"Le paragraphe {number * 7919} traite du cas {number * number} et de ses suites. " * 3


@given(items=_items)
def test_segments_hold_every_text_in_order_and_stay_below_the_tolerance(items: list[Item]) -> None:
    groups = list(segments(items, aim=AIM))
    assert list(chain(*groups)) == [item.text for item in items]
    assert all(len(group) == 1 or sum(map(len, group)) <= 1.4 * AIM for group in groups)


@hypothesis_settings(max_examples=60)
@given(at=st.integers(0, 200), text=_piece.filter(str.strip))
def test_paragraph_put_in_anywhere_changes_only_the_chunks_around_it(at: int, text: str) -> None:
    texts = [paragraph(number) for number in range(200)]
    before = hashes(texts)
    after = hashes([*texts[:at], text.strip(), *texts[at:]])
    assert len(before) > 30
    assert len(set(after) - set(before)) <= 4


def test_row_put_in_at_the_top_of_a_long_table_shifts_no_later_chunk() -> None:
    rows = [f"commune {number * 7919} du canton {number}" for number in range(300)]
    before, after = hashes(rows, kind="table"), hashes(["Nouvelle", *rows], kind="table")
    assert before[3:] == after[-len(before[3:]) :]
