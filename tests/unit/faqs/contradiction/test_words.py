"""Each rule of `words.toml` keeps its word: its examples hold, and one of them needs it."""

from typing import Any

import pytest

from faqs.contradiction.clash import channel_clashes, side_clashes
from faqs.contradiction.facts import Fact, facts_of
from faqs.contradiction.stance import Exchange
from faqs.contradiction.together import why_apart
from faqs.contradiction.words import WORDS
from faqs.second_key.rewrites import Rule


def same_facts(one: str, two: str) -> bool:
    left, right = ({(fact.kind, fact.value) for fact in facts_of(text)} for text in (one, two))
    return bool(left) and all(any(_is(a, b) for b in right) for a in left) and len(left) == len(right)


def _is(one: tuple[str, Any], two: tuple[str, Any]) -> bool:
    first, second = Fact(*one, text=""), Fact(*two, text="")
    return first.kind == second.kind and first.matches(second)


def examples_hold(row: dict[str, Any]) -> bool:
    alike = all(same_facts(*pair) for pair in row["alike"])
    return alike and not any(same_facts(*pair) for pair in row["clash"])


@pytest.mark.parametrize("rule", WORDS.rewrites, ids=lambda rule: str(rule.id))
def test_rewrite_keeps_its_word_and_is_needed(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    row = WORDS.data["rewrites"][rule.id]
    assert rule.why
    assert examples_hold(row)
    others = tuple(each for each in WORDS.rewrites if each is not rule)
    monkeypatch.setattr(WORDS, "rewrites", others)
    assert not examples_hold(row)


@pytest.mark.parametrize("name", WORDS.groups)
def test_group_tells_its_examples_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for one, two in WORDS.data["groups"][name]["apart"]:
        assert _why_apart(one, two) == name
        others = {key: group for key, group in WORDS.groups.items() if key != name}
        with monkeypatch.context() as patch:
            patch.setattr(WORDS, "groups", others)
            assert _why_apart(one, two) != name


@pytest.mark.parametrize(("one", "two"), WORDS.data["limits"]["apart"])
def test_beginning_is_no_end_where_times_clash(one: str, two: str) -> None:
    assert _why_apart(one, two, "hour") == "limits"
    assert _why_apart(one, two, "money") != "limits"


@pytest.mark.parametrize("axis", WORDS.axes)
def test_sides_of_an_axis_clash(axis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = WORDS.data["axes"][axis]["clash"]
    assert all(axis in _axes(row) for row in rows)
    monkeypatch.setitem(WORDS.axes, axis, {})
    assert not any(axis in _axes(row) for row in rows)


@pytest.mark.parametrize("row", WORDS.data["channels"]["clash"])
def test_only_way_clashes_with_another(row: list[str]) -> None:
    assert channel_clashes(Exchange(*row[:2]), Exchange(*row[2:]))


def test_ways_that_do_not_exclude_each_other_do_not_clash() -> None:
    one = Exchange("Comment renouveler ma carte ?", "En ligne.")
    two = Exchange("Où renouveler ma carte ?", "Au guichet.")
    assert not channel_clashes(one, two)


def _why_apart(one: str, two: str, *figures: str) -> str:
    return why_apart(Exchange(one, "12 €"), Exchange(two, "15 €"), figures=figures)


def _axes(row: list[str]) -> list[str]:
    return [clash.kind for clash in side_clashes(Exchange(*row[:2]), Exchange(*row[2:]))]
