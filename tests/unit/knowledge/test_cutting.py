"""Where a text is cut: code stays code, tables stay tables, titles stay with what they stand above, and nothing is
lost.
"""

import re

from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from knowledge.chunking import ChunkDraft, chunk_document, cut, is_title
from knowledge.models import SourceType
from knowledge.readers.base import Block, ParsedDocument

LINES = [f"ligne_{n} = valeur({n})" for n in range(200)]
SENTENCE = "La phrase numéro {} dit quelque chose de précis sur le congé."


def chunked(*blocks: Block) -> list[ChunkDraft]:
    return chunk_document(ParsedDocument("T", blocks, SourceType.TEXT))


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


def test_title_is_never_cut_from_what_it_stands_above(settings: Settings) -> None:
    sections = [Block(" ".join(SENTENCE.format(m) for m in range(n % 7 + 1)), (f"Partie {n}",)) for n in range(60)]
    bare = Block("Sans texte", ("Partie 60",), "title")
    chunks = chunked(*sections[:30], bare, *sections[30:])

    for chunk in chunks:
        lines = [line for line in chunk.content.split("\n") if line]
        assert not is_title(lines[-1])
        assert len(lines) > 1 or "phrase" in lines[0]


def test_table_inside_a_text_keeps_its_header_in_every_part() -> None:
    rows = [f"| commune {n} | {n} euros par mois et par personne |" for n in range(120)]
    text = "\n".join(["Les prix sont ceux-ci.", "", "| Ville | Prix |", "|---|---|", *rows])
    parts = list(cut(text, 1_000, 1_600))

    assert len(parts) > 3
    assert all("| Ville | Prix |\n|---|---|\n|" in part for part in parts if "commune" in part)


_word = st.text("abcdeé\\_", min_size=1, max_size=9)
_line = st.lists(_word, min_size=1, max_size=12).map(" ".join)
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

    def words(text: str) -> list[str]:
        said = re.sub(r"(?m)^(?:```x?|\| t \| u \||\| --- \| --- \|)$", "", text)
        return re.findall(r"[\w\\]+", said)

    assert [word for part in parts for word in words(part)] == words(text)
    assert all(len(marks(part)) % 2 == 0 for part in parts)
