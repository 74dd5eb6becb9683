"""The words of the chat page: each that its scripts write is given to them."""

import re
from pathlib import Path

import chat
from chat.page.strings import page_strings

SCRIPTS = Path(chat.__file__).parent / "static" / "chat"
_SAID = re.compile(r'\bsay\("([\w.]+)"')


def test_every_word_of_the_scripts_is_given_to_them() -> None:
    said = {key for path in SCRIPTS.glob("*.js") for key in _SAID.findall(path.read_text())}
    assert said
    assert said <= page_strings().keys()
