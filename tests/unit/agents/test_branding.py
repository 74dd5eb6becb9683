"""A site's own face: colours that are read on both papers, and words in two languages."""

import pytest
from django.core.exceptions import ValidationError
from django.utils import translation

from agents import branding


@pytest.mark.parametrize("accent", ["#17565c", "#000000", "#7a1fa2", "#b00020", "#0b57d0"])
def test_colour_is_read_on_both_papers_and_so_are_words_on_it(accent: str) -> None:
    branding.validate_accent(accent)
    parts = (int(accent[at : at + 2], 16) for at in (1, 3, 5))
    dark = "#" + "".join(f"{round(255 - branding.DARK_SHARE / 100 * (255 - part)):02x}" for part in parts)
    for colour, paper, ink in ((accent, branding.LIGHT_PAPER, "#ffffff"), (dark, branding.DARK_PAPER, "#000000")):
        assert min(branding.contrast(colour, paper), branding.contrast(colour, ink)) >= branding.LEAST_CONTRAST


@pytest.mark.parametrize("accent", ["#ffd24a", "#999999", "teal", "#fff", "#17565c;}", ""])
def test_colour_that_is_not_read_or_none_is_refused(accent: str) -> None:
    with pytest.raises(ValidationError):
        branding.validate_accent(accent)


def test_contrast_is_that_of_wcag() -> None:
    assert branding.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert branding.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


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
