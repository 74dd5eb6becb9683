"""The plural of texts that stand in no catalogue: the code's own, which are French."""

import sys

import pytest
from django.utils import translation
from django.utils.translation import ngettext

from agents.texts import count_in_french


@pytest.mark.parametrize(("count", "said"), [(0, "gant"), (1, "gant"), (2, "gants"), (-1, "gant")])
def test_nothing_is_singular_in_french(count: int, said: str) -> None:
    with translation.override("fr"):
        assert ngettext("gant", "gants", count) == said


def test_nothing_is_plural_in_english() -> None:
    with translation.override("en"):
        assert ngettext("gant", "gants", 0) == "gants"


def test_plurals_said_again_are_looked_up_once() -> None:
    for _again in range(sys.getrecursionlimit()):
        count_in_french()
    with translation.override("fr"):
        assert ngettext("gant", "gants", 0) == "gant"
