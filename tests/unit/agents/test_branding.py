"""A site's own face: its colour, and words in two languages."""

import pytest
from django.core.exceptions import ValidationError
from django.utils import translation

from agents import branding


@pytest.mark.parametrize("accent", ["teal", "#fff", "#17565c;}", ""])
def test_what_is_no_colour_is_refused(accent: str) -> None:
    with pytest.raises(ValidationError):
        branding.validate_accent(accent)


def test_text_of_the_other_language_stands_in() -> None:
    for language, pair, said in (
        ("fr", ("Bonjour", "Hello"), "Bonjour"),
        ("en", ("Bonjour", "Hello"), "Hello"),
        ("en", ("Bonjour", ""), "Bonjour"),
        ("fr", ("", "Hello"), "Hello"),
    ):
        with translation.override(language):
            assert branding.worded(*pair) == said


def test_policy_lets_in_that_style_and_no_other() -> None:
    assert branding.style_source("") == "'self'"
    assert branding.style_source(branding.style_of("#17565c")).startswith("'self' 'sha256-")
