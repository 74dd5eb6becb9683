"""Plain text: its encoding, its paragraphs, and the structure that its author marked; no line is guessed to be a title."""

import codecs
import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from charset_normalizer import from_bytes
from django.utils.translation import gettext as _

from knowledge.models import SourceType
from knowledge.readers.base import Outline, ParsedDocument, asks, bare_text, clean_text, unreadable

#: Lines longer than this were not broken by hand at a margin.
_WIDEST_MARGIN = 120
_HEADING_LENGTH = 80
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = frozenset("àâäáãåçéèêëíìîïñóòôöõúùûüýÿœæÀÂÄÁÃÅÇÉÈÊËÍÌÎÏÑÓÒÔÖÕÚÙÛÜŸŒÆß«»‹›“”„‘’‚–—…•€£§°²³µ·º½¼¾©®™×¿¡\xa0")
_BULLET = re.compile(r"\s*(?:[-*+•‣▪◦●–—]|\d{1,3}[.)]|[a-zA-Z]\))\s+(?=\S)")
_QA_MARK = re.compile(r"\s*(?:[*_]{2})?(?:Q|R|A|Question|R[ée]ponse|Answer)\s*\d*\s*[*_]{0,2}\s?[:.]", re.IGNORECASE)


def parse_text(data: bytes, *, filename: str) -> ParsedDocument:
    text = clean_text(decode_text(data, filename=filename))
    outline = Outline()
    _add_lines(outline, _marked_sections(outline, text.split("\n")))
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
            _add_lines(outline, pending)
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
        deliberate = fits or _BULLET.match(line) or _QA_MARK.match(line) or asks(previous)
        if paragraphs and previous and not deliberate:
            paragraphs[-1] += " " + line.strip()
        else:
            paragraphs.append(line.rstrip())
        previous = line
    return paragraphs


def margin_width(lines: Iterable[str]) -> int:
    return max((len(line) for line in lines), default=0)


def _add_lines(outline: Outline, lines: Sequence[str]) -> None:
    """Add unmarked text: paragraphs, and lists of lines with bullets."""
    texts = [line for line in lines if line.strip()]
    if broken_at_margin(texts):
        width = margin_width(texts)
        texts = [paragraph for group in _groups(lines) for paragraph in join_lines(group, width=width)]
    for is_list, group in groupby(map(_squeeze, texts), lambda text: bool(_BULLET.match(text))):
        if is_list:
            outline.add("\n".join(group), kind="list")
        else:
            for text in group:
                outline.add(text)


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
