"""robots.txt: which group counts, which rule wins, and patterns that somebody made to be slow."""

import pytest
from pytest_django.fixtures import Settings

from knowledge.web import robots_rule
from tests.waiting import little_work

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
PATHS = [
    ("/", True),
    ("/private/x", False),
    ("/private/open/x", True),
    ("/a/b.pdf", False),
    ("/a/b.pdf?x=1", True),
    ("/internal", True),
]


@pytest.fixture(autouse=True)
def _nobody(settings: Settings) -> None:
    settings.URL_USER_AGENT = "Nobody/1.0"


def allows(path: str, text: str = FILE) -> bool:
    return robots_rule(text)(f"http://a.example{path}")


@pytest.mark.parametrize(("path", "allowed"), PATHS)
def test_longest_rule_of_the_group_for_all_decides(path: str, allowed: bool) -> None:
    assert allows(path) is allowed


def test_group_that_names_us_replaces_the_one_for_all(settings: Settings) -> None:
    settings.URL_USER_AGENT = "Repondant/0.3 (+https://desk.example)"
    assert not allows("/internal/x")
    assert allows("/private/x")


def test_file_without_rules_forbids_nothing() -> None:
    assert allows("/x", "<html>not found</html>")
    assert allows("/x", "")


def test_pattern_of_many_stars_is_no_long_search() -> None:
    rule = "/" + "*a" * 5_000 + "*b$"
    with little_work(5):
        assert allows("/" + "a" * 20_000, f"User-agent: *\nDisallow: {rule}")
