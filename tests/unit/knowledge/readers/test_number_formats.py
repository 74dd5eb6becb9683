"""Number formats: what a sheet shows of a value."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from knowledge.readers.number_formats import shown

_CASES = json.loads((Path(__file__).parent / "number_formats.json").read_text(encoding="utf-8"))
_PIECES = (
    '0 # ? . , / % ; @ \\ " _ * [ ] - y mm ddd h ss e [h] [mm] [=1] [<0] [$€-40C] General E+00 AM/PM .000 x'.split()
)


@pytest.mark.parametrize(("value", "code", "right"), _CASES)
def test_number_is_shown_by_its_format(value: float | str, code: str, right: str) -> None:
    assert shown(value, code) == right


@given(value=st.floats() | st.integers() | st.text(max_size=5), pieces=st.lists(st.sampled_from(_PIECES), max_size=12))
@hypothesis_settings(max_examples=300, deadline=None)
def test_every_format_shows_every_value(value: float | str, pieces: list[str]) -> None:
    assert isinstance(shown(value, "".join(pieces)), str)
