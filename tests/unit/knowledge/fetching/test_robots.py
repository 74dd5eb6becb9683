"""robots.txt: which group counts, which rule wins, and patterns that somebody made to be slow."""

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.fetching.robots import Robots, parse_robots

FILE = """
# a comment
User-agent: *
Disallow: /private/   # inside
Allow: /private/open
Disallow: /*.pdf$
Disallow:

User-agent: OtherBot
User-agent: Repondant
Disallow: /internal
"""


def allows(path: str, *, product: str = "Nobody", text: str = FILE) -> bool:
    return parse_robots(text, product=product).allows(f"http://a.example{path}")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/", True),
        ("/private/x", False),
        ("/private/open/x", True),
        ("/a/b.pdf", False),
        ("/a/b.pdf?x=1", True),
        ("/internal", True),
    ],
)
def test_longest_rule_of_the_group_for_all_decides(path: str, allowed: bool) -> None:
    assert allows(path) is allowed


def test_group_that_names_us_replaces_the_one_for_all() -> None:
    assert not allows("/internal/x", product="repondant")
    assert allows("/private/x", product="repondant")


def test_file_without_rules_forbids_nothing() -> None:
    assert allows("/x", text="<html>not found</html>")
    assert Robots().allows("http://a.example/x")


@given(st.text("ab*", min_size=1, max_size=8), st.text("ab", max_size=8))
def test_pattern_matches_as_the_same_pattern_of_a_shell_does(rule: str, path: str) -> None:
    shell = re.compile(fnmatch.translate(f"/{rule}*"))
    matches = not Robots(((f"/{rule}", False),)).allows(f"http://a.example/{path}")
    assert matches == bool(shell.match(f"/{path}"))


@given(st.text("ab*", min_size=1, max_size=8), st.text("ab", max_size=8))
def test_pattern_with_an_end_matches_to_the_end(rule: str, path: str) -> None:
    shell = re.compile(fnmatch.translate(f"/{rule}"))
    matches = not Robots(((f"/{rule}$", False),)).allows(f"http://a.example/{path}")
    assert matches == bool(shell.match(f"/{path}"))


def test_pattern_of_many_stars_is_no_long_search() -> None:
    rule = "/" + "*a" * 5_000 + "*b$"
    assert Robots(((rule, False),)).allows("http://a.example/" + "a" * 20_000)
