"""What charts and diagrams (SmartArt) of Office files say. It stands in parts of their own, which a drawing refers to."""

from collections.abc import Callable, Iterator
from typing import Any

from lxml import etree

from knowledge.parsing.base import BlockKind, clean_text, one_line, table_text

_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/"
_A, _CHART, _DIAGRAM = (f"{{{_DRAWING}{name}}}" for name in ("main", "chart", "diagram"))
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"


def drawn(element: Any, related: Callable[[str], bytes]) -> Iterator[tuple[BlockKind, str]]:
    """The texts of the charts and diagrams in an element of XML, in order: a diagram as a list, a chart's titles, then
    its values as a table. `related` gives the part that an identifier refers to, or raises `KeyError`: such a drawing
    is left out.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    for found in element.iter(f"{_DIAGRAM}relIds", f"{_CHART}chart"):
        is_chart = found.tag == f"{_CHART}chart"
        key = found.get(f"{_R}id" if is_chart else f"{_R}dm")
        try:
            tree = etree.fromstring(related(key or ""), parser)
        except KeyError:
            # A drawing without its part is a hole in the picture, not in the text.
            continue
        if is_chart:
            yield "prose", "\n\n".join(_paragraphs(tree))
            yield "table", table_text(_values(tree))
        else:
            yield "list", "\n".join(f"- {text}" for text in _paragraphs(tree))


def _paragraphs(tree: Any) -> Iterator[str]:
    for paragraph in tree.iter(f"{_A}p"):
        if text := one_line(clean_text("".join(paragraph.itertext(f"{_A}t")))):
            yield text


def _values(tree: Any) -> list[list[str]]:
    """The table a chart is drawn from: a column for each series, a row for each category."""
    names = [""]
    rows: dict[str, list[str]] = {}
    for series in tree.iter(f"{_CHART}ser"):
        names.append(" ".join(_points(series, "tx").values()))
        labels = _points(series, "cat") or _points(series, "xVal")
        values = _points(series, "val") or _points(series, "yVal")
        for number in labels | values:
            row = rows.setdefault(number, [labels.get(number, "")])
            row += [""] * (len(names) - 1 - len(row)) + [values.get(number, "")]
    return [names, *rows.values()] if rows else []


def _points(series: Any, name: str) -> dict[str, str]:
    """What is said at each point, by its number."""
    return {
        point.get("idx", ""): one_line(clean_text(point.findtext(f"{_CHART}v") or ""))
        for point in series.iterfind(f"{_CHART}{name}//{_CHART}pt")
    }
