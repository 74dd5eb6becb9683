"""The straight rules drawn on a page: the borders of its tables, and of the boxes that it shades."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pypdfium2.raw as pdfium

from knowledge.readers.pdf.lines import PageFrame

#: A filled box that is no thicker is a rule itself.
_THICK = 3.0
#: Shorter ones are marks, underlines of a letter, parts of a drawing.
_SHORT = 4.0
#: Rules nearer than this are one.
NEAR = 2.5
#: A page with more is a drawing, and is not searched for tables.
_MOST_OBJECTS = 20_000
_MOST_RULES = 1_500
#: Drawings within drawings, as far as they are followed.
_DEPTH = 3

_Matrix = tuple[float, float, float, float, float, float]
_UNTURNED: _Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(slots=True)
class Rule:
    """At `at`, from `start` to `end`: x then y for an upright one, y then x for a level one."""

    at: float
    start: float
    end: float


@dataclass(slots=True)
class Rules:
    level: list[Rule] = field(default_factory=list)
    upright: list[Rule] = field(default_factory=list)

    def add(self, x0: float, y0: float, x1: float, y1: float) -> None:
        if abs(y1 - y0) <= _THICK and abs(x1 - x0) >= _SHORT:
            self.level.append(Rule((y0 + y1) / 2, min(x0, x1), max(x0, x1)))
        elif abs(x1 - x0) <= _THICK and abs(y1 - y0) >= _SHORT:
            self.upright.append(Rule((x0 + x1) / 2, min(y0, y1), max(y0, y1)))


def page_rules(page: Any, frame: PageFrame) -> Rules:
    """The rules of a page, those in one line joined; none where it is a drawing."""
    rules = Rules()
    for count, (item, matrix) in enumerate(_paths(page.raw, pdfium.FPDFPage_CountObjects, _DEPTH)):
        if count >= _MOST_OBJECTS or len(rules.level) + len(rules.upright) > 4 * _MOST_RULES:
            return Rules()
        _add_path(rules, item, matrix, frame)
    joined = Rules(_joined(rules.level), _joined(rules.upright))
    return joined if len(joined.level) + len(joined.upright) <= _MOST_RULES else Rules()


def _paths(container: Any, count: Any, depth: int, outer: _Matrix = _UNTURNED) -> Iterator[Any]:
    is_page = count is pdfium.FPDFPage_CountObjects
    get = pdfium.FPDFPage_GetObject if is_page else pdfium.FPDFFormObj_GetObject
    for index in range(count(container)):
        item = get(container, index)
        kind = pdfium.FPDFPageObj_GetType(item)
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            yield item, _through(_matrix(item), outer)
        elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth:
            inner = _through(_matrix(item), outer)
            yield from _paths(item, pdfium.FPDFFormObj_CountObjects, depth - 1, inner)


def _matrix(item: Any) -> _Matrix:
    found = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(item, found):
        return _UNTURNED
    return found.a, found.b, found.c, found.d, found.e, found.f


def _through(first: _Matrix, then: _Matrix) -> _Matrix:
    a, b, c, d, e, f = first
    p, q, r, s, t, u = then
    return (*(a * p + b * r, a * q + b * s), *(c * p + d * r, c * q + d * s), *(e * p + f * r + t, e * q + f * s + u))


def _add_path(rules: Rules, item: Any, matrix: _Matrix, frame: PageFrame) -> None:
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(item, fill, stroke)
    if not fill.value and not stroke.value:
        return
    corners = [frame.point(*point) for point in _corners(item, matrix)]
    if not corners:
        return
    xs, ys = [x for x, _y in corners], [y for _x, y in corners]
    x0, x1, y0, y1 = min(xs), max(xs), min(ys), max(ys)
    if min(x1 - x0, y1 - y0) <= _THICK:
        rules.add(x0, y0, x1, y1)
        return
    for (ax, ay), (bx, by) in zip(corners, corners[1:], strict=False):
        if abs(ax - bx) < 1 or abs(ay - by) < 1:
            rules.add(ax, ay, bx, by)


def _corners(item: Any, matrix: _Matrix) -> list[tuple[float, float]]:
    """The points of a path of straight lines; none where it has curves, or many parts."""
    a, b, c, d, e, f = matrix
    x, y = ctypes.c_float(), ctypes.c_float()
    corners: list[tuple[float, float]] = []
    count = pdfium.FPDFPath_CountSegments(item)
    if not 0 < count <= 500:
        return []
    for index in range(count):
        segment = pdfium.FPDFPath_GetPathSegment(item, index)
        if pdfium.FPDFPathSegment_GetType(segment) == pdfium.FPDF_SEGMENT_BEZIERTO:
            return []
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        corners.append((a * x.value + c * y.value + e, b * x.value + d * y.value + f))
        if pdfium.FPDFPathSegment_GetClose(segment) and corners:
            corners.append(corners[0])
    return corners


def _joined(rules: list[Rule]) -> list[Rule]:
    """Rules at nearly one place as one each, with what touches in one line joined."""
    joined: list[Rule] = []
    group: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: rule.at):
        if group and rule.at - group[0].at > NEAR:
            joined.extend(_end_to_end(group))
            group = []
        group.append(rule)
    joined.extend(_end_to_end(group))
    return joined


def _end_to_end(group: list[Rule]) -> list[Rule]:
    if not group:
        return []
    at = sum(rule.at for rule in group) / len(group)
    found: list[Rule] = []
    for rule in sorted(group, key=lambda rule: rule.start):
        if found and rule.start <= found[-1].end + NEAR:
            found[-1].end = max(found[-1].end, rule.end)
        else:
            found.append(Rule(at, rule.start, rule.end))
    return found
