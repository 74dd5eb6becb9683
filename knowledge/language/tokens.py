"""The words of a text. Pure."""

import re

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The runs of letters and digits of a text, in their order, as they are written: fold the text first."""
    return _WORD.findall(text)
