"""A model's reasoning is no text: the filter that takes it out of a reply as it comes, and keeps it apart for staff.

Servers send it in a field or in typed parts of the content (`parts_of`), or leave it in the text between marks. Templates
that open the reasoning themselves let only its closing mark through, so what stands before one is reasoning. One that is
never closed goes to the end. A mark that follows a single backtick is what somebody writes about, and stays.
"""

import re
from typing import Any

#: What is kept of it.
MAX_REASONING_CHARACTERS = 8_000

_NAME = "(?:think|thinking|reasoning)"
_MARK = re.compile(rf"(?<!(?<!`)`)(?:(?P<open><{_NAME}>|\[THINK\])|(?P<close></{_NAME}>|\[/THINK\]))", re.IGNORECASE)
#: An end that more text may make a mark of.
_PARTIAL = re.compile(r"`{0,3}(?:</?\w{0,9}|\[/?[THINK]{0,5})?\Z", re.IGNORECASE)


def parts_of(said: Any) -> tuple[Any, str]:
    """The text and the reasoning of a delta or message; a content that is neither text nor parts comes back as it is."""
    content, reasoning = said.get("content"), said.get("reasoning_content") or said.get("reasoning") or ""
    if isinstance(content, list):
        reasoning = [reasoning, *(part.get("thinking") or "" for part in content)]
        content = "".join(part.get("text") or "" for part in content)
    return content or said.get("refusal") or "", _flat(reasoning)


def _flat(reasoning: Any) -> str:
    if isinstance(reasoning, list):
        return "".join(_flat(part.get("text") if isinstance(part, dict) else part) for part in reasoning)
    return reasoning if isinstance(reasoning, str) else ""


class ReasoningFilter:
    """Feed the pieces of a reply, send what comes back, and flush at the end.

    With `awaits_close`, nothing comes back before a closing mark: this model's template opens its reasoning.
    """

    def __init__(self, *, awaits_close: bool = False) -> None:
        self._awaits_close = self._is_open = awaits_close
        self._held = ""
        self._texts: list[str] = []
        #: Reasoning that the server told apart, and what was taken out of the text.
        self._noted: list[str] = []
        self._taken_out: list[str] = []
        self._closed_just_now = False
        #: Whether text that was sent turned out to be reasoning, and whether a closing mark stood alone.
        self.starts_over = self.closes_alone = False

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def reasoning(self) -> str:
        return "".join(self._noted + self._taken_out).strip()[:MAX_REASONING_CHARACTERS]

    @property
    def is_reasoning(self) -> bool:
        """Whether nothing but reasoning has come so far, or comes now."""
        return self._is_open or (bool(self._noted or self._taken_out) and not self._texts)

    def note(self, reasoning: str) -> None:
        """Keep reasoning that the server itself told apart."""
        self._noted += [reasoning] if reasoning else []

    def feed(self, piece: str) -> str:
        text = self._held + piece
        found = _PARTIAL.search(text)
        end = found.start() if found else len(text)
        # White space before the first word may stand before reasoning.
        if not self._texts and not self._is_open and not text[:end].strip():
            end = 0
        self._held = text[end:]
        return self._taken(text[:end])

    def flush(self, *, is_cut: bool = False) -> str:
        shown, self._held = self._taken(self._held), ""
        if self._awaits_close and self._is_open and not self._texts and not is_cut:
            shown = "".join(self._taken_out).strip()
            self._texts, self._taken_out, self._is_open = [shown] if shown else [], [], False
        return shown

    def _taken(self, text: str) -> str:
        """What of the text is none of reasoning; the rest is noted."""
        first, position = len(self._texts), 0
        for mark in _MARK.finditer(text):
            is_close = mark.lastgroup == "close"
            if self._is_open and not is_close:
                self._awaits_close = False
                continue
            self._add(text[position : mark.start()])
            position = mark.end()
            if is_close:
                self.closes_alone |= not self._is_open or self._awaits_close
                self._closed_just_now = True
            if (is_close and not self._is_open) or not self.text.strip():
                self.starts_over |= bool(self.text.strip())
                self._taken_out += self._texts
                self._texts, first = [], 0
            self._is_open = not is_close
        self._add(text[position:])
        return "".join(self._texts[first:])

    def _add(self, text: str) -> None:
        if self._is_open:
            self._taken_out += [text] if text else []
            return
        is_first = not self._texts and bool(self._noted or self._taken_out or self._closed_just_now)
        if is_first or (self._closed_just_now and self._texts[-1:] and self._texts[-1][-1].isspace()):
            text = text.lstrip()
        if text:
            self._texts.append(text)
            self._closed_just_now = False
