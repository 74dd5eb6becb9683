"""Dates as each language of the interface writes them: nobody takes the day for the month."""

from datetime import datetime

from django.utils import formats, translation

MOMENT = datetime.fromisoformat("2026-11-08 16:05")


def test_day_and_month_are_told_apart_in_english() -> None:
    with translation.override("en"):
        assert formats.date_format(MOMENT, "SHORT_DATETIME_FORMAT") == "8 Nov 2026, 16:05"
        assert formats.date_format(MOMENT, "DATETIME_FORMAT") == "8 November 2026, 16:05"
        assert "%m/%d/%Y" not in formats.get_format("DATE_INPUT_FORMATS")
