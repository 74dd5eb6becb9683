"""The embedder of the tests."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from knowledge.embeddings.base import Purpose
from tests.hashing import HashingEmbedder


def test_case_and_accents_are_folded() -> None:
    rows = HashingEmbedder().embed(["Été à Évry", "ete a evry"], purpose=Purpose.QUERY)
    assert np.allclose(rows[0], rows[1])


def test_shared_words_bring_texts_close() -> None:
    asked, near, far = HashingEmbedder().embed(
        ["Où est le formulaire ?", "Où est ce formulaire ?", "Le chat dort"], purpose=Purpose.QUERY
    )
    assert asked @ near > 0.7
    assert abs(asked @ far) < 0.4


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1))
def test_every_printable_text_has_a_unit_row(text: str) -> None:
    row = HashingEmbedder(dimensions=8).embed_one(text, purpose=Purpose.QUERY)
    assert np.isclose(np.linalg.norm(row), 1.0, atol=1e-5)
