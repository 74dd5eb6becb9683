"""Chunks: their size, their path, and that no word is lost."""

import re

from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from knowledge.chunking import CHUNK_MAX_CHARACTERS, ChunkDraft, KnowledgeUnit, chunk_document
from knowledge.models import SourceType
from knowledge.readers.base import Block, ParsedDocument
from knowledge.readers.registry import parse_document
from tests.waiting import little_work

SENTENCES = [f"La phrase numéro {n} dit quelque chose de précis sur le congé." for n in range(60)]


def chunks_of(text: str) -> list[ChunkDraft]:
    return chunk_document(parse_document(text.encode(), filename="note.md"))


def chunked(*blocks: Block) -> list[ChunkDraft]:
    return chunk_document(ParsedDocument("T", blocks, SourceType.TEXT))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def test_path_is_kept_without_the_title() -> None:
    body = " ".join(SENTENCES[:6])
    chunks = chunks_of(f"# Guide\n\n## Congés\n\n### Report\n\n{body}\n\n## Paie\n\n{body}")
    assert [chunk.parent_context for chunk in chunks] == ["Congés > Report", "Paie"]


def test_long_text_is_cut_between_sentences(settings: Settings) -> None:
    chunks = chunked(Block(" ".join(SENTENCES), ()))
    assert len(chunks) > 2
    assert all(len(chunk.content) <= CHUNK_MAX_CHARACTERS for chunk in chunks)
    assert all(chunk.content.endswith(".") for chunk in chunks)


def test_list_stays_with_the_sentence_that_announces_it() -> None:
    filler = Block(" ".join(SENTENCES[:16]), ())
    chunks = chunked(filler, Block("Il faut :", ()), Block("- un bail\n- un timbre", (), "list"))
    assert chunks[-1].content.endswith("Il faut :\n\n- un bail\n- un timbre")


def test_rows_of_a_long_table_keep_its_header() -> None:
    rows = [f"| commune {n} | {n} euros par mois et par personne |" for n in range(120)]
    chunks = chunked(Block("\n".join(["| Ville | Prix |", "|---|---|", *rows]), (), "table"))
    assert len(chunks) > 2
    assert all(chunk.content.startswith("| Ville | Prix |\n|---|---|\n|") for chunk in chunks)


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
_sentence = st.lists(_word, min_size=1, max_size=30).map(lambda ws: " ".join(ws).capitalize() + ".")
_paragraph = st.lists(_sentence, min_size=1, max_size=25).map(" ".join)
_list = st.lists(_sentence, min_size=1, max_size=30).map(lambda xs: "- " + "\n- ".join(xs))
_heading = st.builds(lambda n, w: "#" * n + " " + w, st.integers(2, 4), _word)
_document = st.lists(st.one_of(_paragraph, _list, _heading), min_size=1, max_size=15)


@given(parts=_document)
def test_no_word_is_lost_and_order_is_kept(parts: list[str]) -> None:
    chunks = chunks_of("\n\n".join(parts))
    assert all(chunk.content.strip() for chunk in chunks)
    body = words(" ".join(part for part in parts if not part.startswith("#")))
    stream = iter(words(" ".join(chunk.content for chunk in chunks)))
    assert all(word in stream for word in body)
    everywhere = words(" ".join(f"{chunk.parent_context} {chunk.content}" for chunk in chunks))
    assert set(words(" ".join(parts))) <= set(everywhere)


@given(parts=_document)
def test_chunking_is_deterministic(parts: list[str]) -> None:
    text = "\n\n".join(parts)
    assert chunks_of(text) == chunks_of(text)


def test_word_without_end_is_cut_rather_than_lost(settings: Settings) -> None:
    chunks = chunked(Block("x" * 10_000, ()))
    assert sum(chunk.content.count("x") for chunk in chunks) == 10_000
    assert all(len(chunk.content) <= CHUNK_MAX_CHARACTERS for chunk in chunks)


def test_large_document_is_cut_quickly() -> None:
    text = "\n\n".join(f"## Partie {n}\n\n" + " ".join(SENTENCES) for n in range(300))
    with little_work(10):
        assert len(chunks_of(text)) > 300
