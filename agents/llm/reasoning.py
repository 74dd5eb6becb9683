"""A model's reasoning is no text: the filter that takes it out of a reply as it comes, and keeps it apart for staff.

Servers send it in a field or in typed parts of the content (`parts_of`), or leave it in the text between marks: tags of
several names, Kimi's and Mistral's brackets, the channels of gpt-oss. Templates that open the reasoning themselves let
only its closing mark through, so what stands before one is reasoning. One that is never closed goes to the end. In code
(fences and spans) a mark is what somebody writes about, and stays.
"""

import re
from typing import Any

#: What is kept of it.
MAX_REASONING_CHARACTERS = 8_000

_NAME = r"(?:\w+:)?(?:think|thinking|reasoning)"
#: Words that placeholders and XML use as well: reasoning only where they begin a line.
_PLAIN_NAME = r"(?:reason|thoughts?)"
_CLOSE = rf"</{_NAME}\s*>|◁/think▷|\[/THINK\]|<\|end_of_thought\|>"
_MARK = re.compile(
    rf"(?P<code>```|`|\n)|(?P<open><{_NAME}(?:\s[^<>\n]*)?>|◁think▷|\[THINK\]|<\|begin_of_thought\|>)"
    rf"|(?P<close>{_CLOSE})"
    rf"|(?P<plain><{_PLAIN_NAME}>)|(?P<plain_close></{_PLAIN_NAME}>)"
    r"|<\|channel\|>\s*(?P<channel>\w+)[^<\n]*(?:<\|constrain\|>[^<\n]*)?<\|message\|>"
    r"|(?P<control><\|start\|>\w*|<[|｜](?!channel\|)[\w▁]+[|｜]>)",
    re.IGNORECASE,
)
#: An end that more text may make a mark of, or a closing mark that it may quote.
_HEADER = r"[|｜](?:channel\|>[^<\n]{0,80}(?:<\|constrain\|>[^<\n]{0,40})?(?:<\|?\w{0,12}\|?)?|start\|>\w{0,20}|[\w▁]{0,40}[|｜]?)"
_PARTIAL = re.compile(
    rf"(?:<(?:/?[\w:]{{0,24}}|\w[\w:]*\s[^<>\n]{{0,80}}|{_HEADER})|◁[^▷\n]{{0,8}}|\[/?(?:T(?:H(?:I(?:NK?)?)?)?)?|{_CLOSE})\Z",
    re.IGNORECASE,
)
_FENCE_BEGUN = re.compile(r"`+\Z")


def parts_of(said: Any) -> tuple[Any, str]:
    """The text and the reasoning of a delta or message; a content that is neither text nor parts comes back as it is."""
    content, reasoning = said.get("content"), said.get("reasoning_content") or said.get("reasoning") or ""
    if isinstance(content, list):
        texts = [part.get("text") or "" for part in content if part.get("type") in ("text", "output_text", None)]
        reasoning = [reasoning, *(part.get("thinking") or part.get("reasoning") or "" for part in content)]
        content = "".join(texts)
    return content or said.get("refusal") or "", _flat(reasoning)


def _flat(reasoning: Any) -> str:
    if isinstance(reasoning, list):
        return "".join(_flat(part.get("text") if isinstance(part, dict) else part) for part in reasoning)
    return reasoning if isinstance(reasoning, str) else ""


class ReasoningFilter:
    """Feed the pieces of a reply, and flush; with `awaits_close`, its template opens the reasoning."""

    def __init__(self, *, awaits_close: bool = False) -> None:
        self._awaits_close = self._is_open = awaits_close
        self._held = ""
        self._texts: list[str] = []
        #: Reasoning that the server told apart, and what was taken out of the text.
        self._noted: list[str] = []
        self._taken_out: list[str] = []
        self._closed_just_now = False
        self._in_fence = self._in_span = False
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
        end = len(text)
        if begun := _FENCE_BEGUN.search(text):
            end -= len(begun[0]) % 3
        if found := _PARTIAL.search(text[:end]):
            end = found.start()
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
            if not self._counts(mark, text[: mark.start()]):
                continue
            self._add(text[position : mark.start()])
            position = mark.end()
            kind, was_open = mark.lastgroup, self._is_open
            self._is_open = kind in ("open", "plain") or (kind == "channel" and mark[kind].lower() != "final")
            self._closed_just_now |= was_open or kind == "close"
            if kind == "close":
                self.closes_alone |= not was_open or self._awaits_close
            if (kind == "close" and not was_open) or (self._is_open and not self.text.strip()):
                self.starts_over |= bool(self.text.strip())
                self._taken_out += self._texts
                self._texts, first = [], 0
        self._add(text[position:])
        return "".join(self._texts[first:])

    def _counts(self, mark: re.Match[str], before: str) -> bool:
        """Whether a mark is one where it stands; marks of code are noted, and stay in the text."""
        kind = mark.lastgroup
        if self._is_open:
            self._awaits_close &= kind != "open"
            # Three end a block of code that the reasoning ends with.
            ticks = ("".join(self._taken_out[-3:]) + before)[-3:]
            is_quoted = mark.string.startswith("`", mark.end()) and ticks.endswith("`") and ticks != "```"
            return kind not in ("code", "open", "plain") and not is_quoted
        if kind == "code":
            self._in_fence ^= mark[0] == "```"
            self._in_span = mark[0] == "`" and not self._in_span and not self._in_fence
            return False
        line = (self.text[-80:] + before).rpartition("\n")[2]
        is_text = self._in_fence or self._in_span or kind == "plain_close" or (kind == "plain" and line.strip())
        return not is_text

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
