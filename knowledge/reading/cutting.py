"""Texts to pieces of a size: where a text is cut, so that no edit moves a cut elsewhere and nothing is cut that is one
thing.

A block of code that is too long is closed and opened again with its language, a table repeats its header in every part,
a title stays with what it stands above, and a sentence is cut only where it alone is longer than a piece may be. No
word is lost.
"""

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

#: Half the width of the neighbourhood in which one boundary is cut, as a share of the aimed size. The mean piece is
#: twice that and the mean text; 0.4 gives pieces of the size that packing gave, measured on 90 pages of
#: service-public.fr.
_NEIGHBOURHOOD = 0.4
#: A piece this much longer than aimed is cut again.
_TOLERANCE = 1.4
_SENTENCE_END = re.compile(r"(?<=[.!?…;:])\s+|\n+")
_FENCE = re.compile(r"(?P<indent> *)(?:(?:[-*]|\d{1,9}\.) +)?(?P<fence>`{3,}|~{3,})(?P<language>[^`~]{0,80})$")
_SEPARATOR = re.compile(r"\s*\|[\s|:-]*-[\s|:-]*\|\s*$")
_TITLE = re.compile(r"\s*\*\*[^\n]{1,300}\*\*\s*$")
#: A line that goes on with the item of a list above it.
_CONTINUES = re.compile(r"[ \t]+(?![-*] |\d{1,9}[.)] )\S")


@dataclass(frozen=True, slots=True)
class Item:
    """A text that is not cut; `roughness` says how bad a cut after it is (0: the end of a paragraph)."""

    text: str
    roughness: int = 0

    @property
    def rank(self) -> tuple[int, bytes]:
        return self.roughness, hashlib.blake2b(self.text.strip().encode(), digest_size=8).digest()


def is_title(line: str) -> bool:
    """Whether a text is one bold line: what follows belongs under it."""
    return bool(_TITLE.match(line))


def cut(text: str, target: int, most: int) -> Iterator[str]:
    """A text of at most `most` characters as it is, a longer one in parts of about `target`."""
    if len(text) <= most:
        yield text
        return
    for run in _uncut_runs(text, target, most):
        for group in segments(list(_with_titles(run, target)), aim=target):
            if part := _flush_left("".join(group)):
                yield part


def _uncut_runs(text: str, target: int, most: int) -> Iterator[list[Item]]:
    """What is not cut, in runs between which there is always a cut: two parts of one table would be one with two
    headers.
    """
    run: list[Item] = []
    for kind, lines in _runs(text.split("\n")):
        whole = "".join(f"{line}\n" for line in lines)
        if kind == "text":
            run += _fragments(whole, target)
        elif kind == "title" or len(whole) <= most:
            run.append(Item(whole))
        else:
            parts = _code_parts(lines, target) if kind == "code" else _table_parts(lines, target)
            first, *others = parts
            run.append(first)
            for part in others:
                yield run
                run = [part]
    yield run


def _with_titles(items: Sequence[Item], target: int) -> Iterator[Item]:
    """The items, a bold line joined to what it stands above; a text of many bold lines is cut among them."""
    held = ""
    for item in items:
        if is_title(item.text) and len(held) < target // 2:
            held += item.text
        else:
            yield Item(held + item.text, item.roughness)
            held = ""
    if held:
        yield Item(held)


def _flush_left(part: str) -> str:
    """Without white space around it; the lines of a block of code that it begins with move along."""
    part = part.strip("\n").rstrip()
    lines = part.split("\n")
    opened = _FENCE.match(lines[0])
    if opened and opened["indent"]:
        end, margin = _end_of_code(lines, 0), len(opened["indent"])
        lines[:end] = [line[min(margin, len(line) - len(line.lstrip(" "))) :] for line in lines[:end]]
    return "\n".join(lines).strip()


def _runs(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The lines of a text in runs: a block of code with its fences, a table with its header, a title, or anything else."""
    held: list[str] = []
    at = 0
    while at < len(lines):
        end, kind = at, "text"
        if _FENCE.match(lines[at]):
            end, kind = _end_of_code(lines, at), "code"
        elif at + 1 < len(lines) and "|" in lines[at] and _SEPARATOR.match(lines[at + 1]):
            end, kind = _end_of_table(lines, at), "table"
        elif is_title(lines[at]):
            end, kind = _end_of_title(lines, at), "title"
        if kind == "text":
            held.append(lines[at])
            at += 1
            continue
        if held:
            yield "text", held
        yield kind, list(lines[at:end])
        held, at = [], end
    if held:
        yield "text", held


def _end_of_code(lines: Sequence[str], start: int) -> int:
    opened = _FENCE.match(lines[start])
    fence = opened["fence"] if opened else ""
    for at in range(start + 1, len(lines)):
        mark = lines[at].strip()
        if mark.startswith(fence) and not mark.strip(fence[:1]):
            return at + 1
    return len(lines)


def _end_of_title(lines: Sequence[str], start: int) -> int:
    """With the empty lines under it."""
    at = start + 1
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def _end_of_table(lines: Sequence[str], start: int) -> int:
    at = start
    while at < len(lines) and lines[at].lstrip().startswith("|"):
        at += 1
    return max(at, start + 2)


def _code_parts(lines: Sequence[str], target: int) -> Iterator[Item]:
    """A long block of code in blocks of its own, each with the fences and the language."""
    opened = _FENCE.match(lines[0])
    if opened is None:
        return
    margin = " " * (opened.start("fence"))
    first, close = lines[0], f"{margin}{opened['fence']}"
    again = f"{margin}{opened['fence']}{opened['language'].rstrip()}"
    is_closed = lines[-1].strip() == opened["fence"]
    body = [part for line in lines[1 : -1 if is_closed else None] for part in _code_line(line, target)]
    room = max(target - len(first) - len(close), target // 4)
    for number, group in enumerate(segments(body, aim=room)):
        code = "".join(group).rstrip("\n")
        yield Item(f"{again if number else first}\n{code}\n{close}\n")


def _code_line(line: str, target: int) -> Iterator[Item]:
    """A line of code; an empty one before it is the better place for a cut."""
    if len(line) <= target:
        yield Item(f"{line}\n", roughness=1 if line.strip() else 0)
        return
    for item in _fragments(line, target):
        yield Item(f"{item.text}\n", roughness=2)


def _table_parts(lines: Sequence[str], target: int) -> Iterator[Item]:
    header = "\n".join(lines[:2])
    rows = lines[2:]
    if len(header) > target // 2:
        # A header of half a passage is content itself: it would stand in every passage of its table.
        yield from _fragments("".join(f"{line}\n" for line in lines), target)
        return
    room = max(target - len(header), target // 4)
    parts = [Item(row) for line in rows for row in _short_rows(line, room)]
    for group in segments(parts, aim=room, gap=1):
        if part := "\n".join(group).strip():
            yield Item(f"{header}\n{part}\n")


def _short_rows(line: str, room: int) -> Iterator[str]:
    """A row, or its parts where it is so long that no chunk holds it."""
    if len(line) <= room:
        yield line
        return
    for group in segments(list(_fragments(line, room)), aim=room):
        yield "".join(group).strip()


def _fragments(text: str, target: int) -> Iterator[Item]:
    """Lines and sentences with the white space after them; a longer one in pieces of whole words."""
    start = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        sentence = text[start:end]
        start = end
        while len(sentence) > target:
            space = sentence.rfind(" ", target // 2, target)
            at = space + 1 if space > 0 else target
            yield Item(sentence[:at], roughness=2)
            sentence = sentence[at:]
        if sentence:
            ends_line = sentence.endswith("\n") and not _CONTINUES.match(text, end)
            yield Item(sentence, roughness=0 if ends_line else 1)


def segments(items: Sequence[Item], *, aim: int, gap: int = 0) -> list[list[str]]:
    """The texts in order, in groups of about `aim` characters; `gap` is what joins two texts, in characters.

    An edit in one place moves no cut anywhere else. Packing texts one after the other up to a size would shift every
    later cut when a paragraph is put in at the top, and every shifted chunk would be embedded anew and lose what staff
    wrote on it. Here a boundary is a cut when its rank (how natural it is, then a hash of the text before it) is the
    lowest of all boundaries around it: what is farther away has no say. Only a piece that is still too long is then cut
    again, on its own.
    """
    if not items:
        return []
    ends = list(accumulate(len(item.text) + gap for item in items))
    ranks = [item.rank for item in items]
    cuts = _local_cuts(ends, ranks, aim)
    bounds: list[int] = []
    for start, end in pairwise([0, *cuts, len(items)]):
        bounds.extend([start, *_further_cuts(start, end, ends, ranks, aim)])
    return [[item.text for item in items[start:end]] for start, end in pairwise([*bounds, len(items)]) if start < end]


def _local_cuts(ends: Sequence[int], ranks: Sequence[tuple[int, bytes]], aim: int) -> list[int]:
    """Places (before item i) whose boundary has the lowest rank of its neighbourhood, the first of equals."""
    if ends[-1] <= aim:
        return []
    reach = int(aim * _NEIGHBOURHOOD)
    cuts = []
    for index in range(len(ends) - 1):
        at = ends[index]
        if at < reach or ends[-1] - at < reach:
            continue
        first, last = bisect_left(ends, at - reach), bisect_right(ends, at + reach)
        before, after = ranks[first:index], ranks[index + 1 : min(last, len(ends) - 1)]
        if all(ranks[index] < r for r in before) and all(ranks[index] <= r for r in after):
            cuts.append(index + 1)
    return cuts


def _further_cuts(start: int, end: int, ends: Sequence[int], ranks: Sequence[tuple[int, bytes]], aim: int) -> list[int]:
    """Cuts inside a piece that is too long: at the lowest rank of its middle half, then in both parts."""
    cuts: list[int] = []
    waiting = [(start, end)]
    while waiting:
        first, last = waiting.pop()
        base = ends[first - 1] if first else 0
        size = ends[last - 1] - base
        if last - first < 2 or size <= aim * _TOLERANCE:
            continue
        inner = range(first, last - 1)
        middle = [i for i in inner if size <= 4 * (ends[i] - base) <= 3 * size]
        if middle:
            best = min(middle, key=lambda i: ranks[i])
        else:
            best = min(inner, key=lambda i: abs(2 * (ends[i] - base) - size))
        cuts.append(best + 1)
        waiting += [(first, best + 1), (best + 1, last)]
    return sorted(cuts)
