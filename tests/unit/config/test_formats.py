"""Dates as each language of the interface writes them: nobody takes the day for the month."""

from datetime import datetime

import pytest
from django.utils import formats, translation

MOMENT = datetime.fromisoformat("2026-11-08 16:05")


@pytest.mark.parametrize(
    ("language", "name", "shown"),
    [
        ("en", "SHORT_DATE_FORMAT", "8 Nov 2026"),
        ("en", "SHORT_DATETIME_FORMAT", "8 Nov 2026, 16:05"),
        ("en", "DATE_FORMAT", "8 November 2026"),
        ("en", "DATETIME_FORMAT", "8 November 2026, 16:05"),
        ("en", "TIME_FORMAT", "16:05"),
    ],
)
def test_day_and_month_are_told_apart(language: str, name: str, shown: str) -> None:
    with translation.override(language):
        assert formats.date_format(MOMENT, name) == shown


def test_english_field_takes_no_american_date() -> None:
    with translation.override("en"):
        assert "%m/%d/%Y" not in formats.get_format("DATE_INPUT_FORMATS")
