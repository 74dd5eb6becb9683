"""What people do in offices, in each format that has it: the cases and their right values stand in `office_kinds.json`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import built

_CASES = json.loads((Path(__file__).parent / "office_kinds.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", _CASES["files"], ids=lambda case: f"{case['format']}: {case['kind']}")
def test_file_reads_as_people_see_it(case: dict[str, Any]) -> None:
    parsed = parse_document(built(case["format"], case["parts"]), filename=f"essai.{case['format']}")
    found = [f"{' > '.join(b.headings)}: {b.text}" if b.headings else b.text for b in parsed.blocks]
    assert found == case["blocks"]
    assert len(parsed.notices) == len(case["notices"])
    assert all(part in notice for part, notice in zip(case["notices"], parsed.notices, strict=True))


@pytest.mark.parametrize("kind", _CASES["runs"])
@given(styles=st.lists(st.sampled_from("plain raised struck linked boxed celled".split()), min_size=1, max_size=30))
@hypothesis_settings(max_examples=40, deadline=None)
def test_every_run_of_text_is_read_in_order_or_named(kind: str, styles: list[str]) -> None:
    forms = _CASES["runs"][kind]
    body = "".join(forms[style].replace("$", f"mot{100 + at}") for at, style in enumerate(styles))
    parts = {name: text.replace("$", body) for name, text in forms["parts"].items()}
    parsed = parse_document(built(kind, {**parts, "links": forms["links"]}), filename=f"a.{kind}")
    said = re.findall(r"mot(\d+)", " ".join(block.text for block in parsed.blocks))
    assert said == [str(100 + at) for at, style in enumerate(styles) if style != "struck"]
    assert bool(parsed.notices) == ("struck" in styles)
