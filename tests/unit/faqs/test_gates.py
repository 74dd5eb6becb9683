"""A gate never keeps an expression from a text that it matches."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faqs.gates import Rewrite, needed_texts, rewritten
from faqs.lexicon_en import LEXICON_EN
from faqs.lexicon_fr import LEXICON_FR
from faqs.question_reading import _ENGLISH, _FRENCH, _fold

FOLDER = Path(__file__).resolve().parents[2] / "pairs"
TEXTS = [
    re.sub(r"[^\w ,:;.?!]", " ", _fold(json.loads(line)[side]))
    for path in sorted(FOLDER.glob("*.jsonl"))
    for line in path.read_text("utf-8").splitlines()
    for side in ("a", "b")
]


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        (r"\bsoit (.+?) soit\b", ("soit ",)),
        (r"\b(?:svp|merci)\b", ("merci", "svp")),
        (r"(?:pour )?quand\b", ("quand",)),
        (r"\b(?:a|par) ?$|x*", ()),
        (r"(?<=\w )ou(?= est)", (" est",)),
        (r"[ab]+", ()),
        (r"(?:(?:la|le) )?(?!non)oui", ("oui",)),
    ],
)
def test_needed_texts_are_read_off_the_expression(pattern: str, needed: tuple[str, ...]) -> None:
    assert needed_texts(pattern) == needed


@pytest.mark.parametrize("rewrite", [*_FRENCH.rewrites, *_ENGLISH.rewrites], ids=repr)
def test_gate_changes_nothing_on_the_pairs(rewrite: Rewrite) -> None:
    for text in TEXTS:
        if rewrite.pattern.search(text):
            assert rewritten(text, (rewrite,)) == rewrite.pattern.sub(rewrite.replacement, text)
            assert not rewrite.needed or any(part in text for part in rewrite.needed)


#: Expressions that hypothesis can write texts for: it knows no look to either side.
PLAIN = [
    pattern
    for pattern, _replacement in (*LEXICON_FR.rewrites, *LEXICON_EN.rewrites)
    if "(?<" not in pattern and "(?=" not in pattern and "(?!" not in pattern and len(pattern) < 300
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLAIN).flatmap(lambda p: st.tuples(st.just(p), st.from_regex(p))))
def test_whatever_matches_passes_the_gate(found: tuple[str, str]) -> None:
    pattern, text = found
    needed = needed_texts(pattern)
    assert not needed or any(part in text for part in needed)


def test_most_rewrites_have_a_gate() -> None:
    for lexicon in (_FRENCH, _ENGLISH):
        assert sum(not rewrite.needed for rewrite in lexicon.rewrites) <= 5
