"""Plain text: its encoding, its paragraphs, and the little structure that can be trusted.

Also used for Markdown whose lines carry the structure that its marks do not (one paragraph a line, titles without `#`).
A guessed heading must look like one in every respect (short, no final punctuation, prose after it, a finished sentence
before it); in doubt a line stays text, because a wrong heading misleads more than a missing one.
"""

import codecs
import re
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from charset_normalizer import from_bytes
from django.utils.translation import gettext as _

from knowledge.models import SourceType
from knowledge.readers.base import Outline, ParsedDocument, asks, bare_text, clean_text, is_leader, unreadable

#: Lines longer than this were not broken by hand at a margin.
_WIDEST_MARGIN = 120
_HEADING_LENGTH = 80
_HEADING_WORDS = 12
#: "Oui" and "Non" are cells of a table that lost its marks.
_SHORTEST_HEADING = 4
#: A line under a guessed heading must be at least this long.
_PROSE_LENGTH = 35
_LONGEST_RUN = 25
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = frozenset("àâäáãåçéèêëíìîïñóòôöõúùûüýÿœæÀÂÄÁÃÅÇÉÈÊËÍÌÎÏÑÓÒÔÖÕÚÙÛÜŸŒÆß«»‹›“”„‘’‚–—…•€£§°²³µ·º½¼¾©®™×¿¡\xa0")
_BULLET = re.compile(r"\s*(?:[-*+•‣▪◦●–—]|\d{1,3}[.)]|[a-zA-Z]\))\s+(?=\S)")
_QA_MARK = re.compile(r"\s*(?:[*_]{2})?(?:Q|R|A|Question|R[ée]ponse|Answer)\s*\d*\s*[*_]{0,2}\s?(?:[:.]|[-–—]\s)", re.I)
_ENDED = re.compile(r"[.?!…][»)\"”*]*\s*$")


def parse_text(data: bytes, *, filename: str) -> ParsedDocument:
    text = clean_text(decode_text(data, filename=filename))
    outline = Outline()
    add_plain_lines(outline, _marked_sections(outline, text.split("\n")))
    return outline.finish(filename=filename, source_type=SourceType.TEXT)


def decode_text(data: bytes, *, filename: str) -> str:
    """Decode by byte-order mark, as UTF-8, as UTF-16 without mark, as Windows-1252, or by statistics."""
    text = _decode(data)
    if text is None or _is_junk(text):
        raise unreadable(
            f"{filename}: not text", _("Ce fichier n’est pas un texte lisible : contenu binaire ou encodage inconnu.")
        )
    return text


def _decode(data: bytes) -> str | None:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _try(data, encoding)
    if (text := _try(data, "utf-8")) is not None and "\0" not in text:
        return text
    if b"\0" in data:
        sample = data[:4096]
        high = sample[0::2].count(0) > sample[1::2].count(0)
        return _try(data, "utf-16-be" if high else "utf-16-le")
    for encoding in ("cp1252", "latin-1"):
        if (text := _try(data, encoding)) is not None and _is_western(text):
            return text
    best = from_bytes(data[:500_000]).best()
    return _try(data, best.encoding) if best else None


def _try(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeError, LookupError):
        return None


def _is_western(text: str) -> bool:
    """Accented letters are few in Western languages; in another alphabet read as Western, nearly all are."""
    foreign = [character for character in text if character > "\x7f"]
    if sum(map(str.isalpha, foreign)) > 0.3 * sum(map(str.isalpha, text)):
        return False
    return sum(character in _WESTERN for character in foreign) >= 0.9 * len(foreign)


def _is_junk(text: str) -> bool:
    sample = text[:200_000]
    control = sum(
        (character < " " and character not in "\t\n\r\f\v") or "\ue000" <= character <= "\uf8ff" for character in sample
    )
    return "\0" in sample or control > 0.005 * len(sample)


def _marked_sections(outline: Outline, lines: list[str]) -> list[str]:
    """Handle the headings that a plain text marks (`# …`, underlined); return the lines after the last one."""
    pending: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        under = lines[index + 1].strip() if index + 1 < len(lines) else ""
        marked = re.match(r"(#{1,6})\s+(\S.*)", line)
        underlined = (
            bool(re.fullmatch(r"={4,}|-{4,}", under))
            and 0 < len(line.strip()) <= _HEADING_LENGTH
            and (not pending or not pending[-1].strip())
        )
        if marked or underlined:
            add_plain_lines(outline, pending)
            pending = []
            level = len(marked[1]) if marked else (1 if under[0] == "=" else 2)
            outline.heading(level, bare_text(marked[2].strip("# ") if marked else line))
            index += 1 if marked else 2
        else:
            pending.append(line)
            index += 1
    return pending


def broken_at_margin(lines: Iterable[str]) -> bool:
    """Whether line ends are a margin's (to be joined) rather than the author's."""
    lengths = sorted(len(line) for line in lines if line.strip())
    return not lengths or lengths[int(0.95 * (len(lengths) - 1))] <= _WIDEST_MARGIN


def join_lines(lines: Sequence[str], *, width: int) -> list[str]:
    """Paragraphs of lines broken at a margin; a break stays where the next word would have fitted, and before marks."""
    paragraphs: list[str] = []
    previous = ""
    for line in lines:
        fits = len(previous) + 1 + len(line.split(maxsplit=1)[0] if line.strip() else "") <= (0.8 * width)
        deliberate = fits or _BULLET.match(line) or _QA_MARK.match(line) or asks(previous) or is_leader(previous)
        if paragraphs and previous and not deliberate:
            paragraphs[-1] += " " + line.strip()
        else:
            paragraphs.append(line.rstrip())
        previous = line
    return paragraphs


def margin_width(lines: Iterable[str]) -> int:
    return max((len(line) for line in lines), default=0)


def add_plain_lines(outline: Outline, lines: Sequence[str]) -> None:
    """Add unmarked text: paragraphs, lists with or without bullets, and cautious headings."""
    texts = [line for line in lines if line.strip()]
    if not texts:
        return
    if broken_at_margin(texts):
        width = margin_width(texts)
        paragraphs = [paragraph for group in _groups(lines) for paragraph in join_lines(group, width=width)]
    else:
        paragraphs = texts
    _PlainReader(outline, [_squeeze(paragraph) for paragraph in paragraphs]).read()


def _groups(lines: Sequence[str]) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            groups[-1].append(line)
        elif groups[-1]:
            groups.append([])
    return [group for group in groups if group]


def _squeeze(text: str) -> str:
    indent = re.match(r"[ \t]*", text)
    lead = indent[0] if indent and _BULLET.match(text) else ""
    return lead.replace("\t", "  ") + re.sub(r"[ \t]+", " ", text.strip())


class _PlainReader:
    """Reads paragraphs one after the other; `previous` is the last text that was read."""

    def __init__(self, outline: Outline, paragraphs: list[str]) -> None:
        self._outline = outline
        self._paragraphs = paragraphs
        self._at = 0
        self._previous = "."

    def read(self) -> None:
        while self._at < len(self._paragraphs):
            headings = self._headings()
            if headings:
                self._outline.infer_headings(*headings)
                self._at += len(headings)
                # What a heading was recognised by is its text, never a heading in its turn.
                self._take(1, kind_is_list=False)
                self._announced()
            elif count := len(list(takewhile(_BULLET.match, islice(self._paragraphs, self._at, None)))):
                self._take(count, kind_is_list=True)
            else:
                if _ENDED.search(self._previous) and _is_heading_like(self._paragraphs[self._at]):
                    # Perhaps a title that is not sure enough: the one before it must not reach over it.
                    self._outline.infer_headings()
                self._take(1, kind_is_list=False)
                self._announced()

    def _announced(self) -> None:
        """Take the list that the last paragraph announces, if it announces one."""
        if self._previous.endswith(":") and (count := self._items()):
            self._take(count, kind_is_list=True)

    def _take(self, count: int, *, kind_is_list: bool) -> None:
        lines = self._paragraphs[self._at : self._at + count]
        if kind_is_list:
            marked = [line if _BULLET.match(line) else f"- {line}" for line in lines]
            self._outline.add("\n".join(marked), kind="list")
        else:
            self._outline.add(lines[0])
        self._previous = lines[-1]
        self._at += count

    def _headings(self) -> tuple[str, ...]:
        """One heading-like line, or two in a row, with a line of prose after them."""
        if not _ENDED.search(self._previous):
            return ()
        following = self._paragraphs[self._at : self._at + 3]
        for count in (1, 2):
            if len(following) <= count or not _is_heading_like(following[count - 1]):
                return ()
            if _is_prose(following[count]):
                return tuple(following[:count])
        return ()

    def _items(self) -> int:
        """How many of the next lines are the items of the list that the last line announces."""
        count = 0
        previous = ""
        for line in self._paragraphs[self._at : self._at + _LONGEST_RUN]:
            if _BULLET.match(line):
                return 0
            if previous.endswith((".", "!")) or (asks(line) and _is_heading_like(line)):
                break
            continues = previous.endswith((",", ";", " et", " ou"))
            if line[0].isupper() and line.endswith((".", ":")) and not continues:
                break
            count, previous = count + 1, line
        return count


def _is_heading_like(line: str) -> bool:
    words = line.split()
    return (
        _SHORTEST_HEADING <= len(line) <= _HEADING_LENGTH
        and len(words) <= _HEADING_WORDS
        and (line[0].isupper() or bool(re.match(r"\d+(?:\.\d+)*(?:[.)°]|\s?[-–])? [^\W\d_]", line)))
        and not re.search(r"[.,;:!…€%|\"”»=]$", line)
        and sum(character.isalpha() for character in line) >= 0.6 * len(line)
        and not _BULLET.match(line)
        and not _QA_MARK.match(line)
        and not line.startswith("**")
    )


def _is_prose(line: str) -> bool:
    return (
        len(line) >= _PROSE_LENGTH
        and line[0].isupper()
        and line.endswith((".", ":", "!", "…"))
        and not _BULLET.match(line)
        and not _QA_MARK.match(line)
    )
