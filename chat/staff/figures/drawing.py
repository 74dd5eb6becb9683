"""Charts as inline SVG, drawn here: no script, no network, no style within (the colours are classes of
`agents/admin.css`).

A chart is stretched to its place, so its words stand around it as text of the page. What it shows is in the table
beside it, which is what is read out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

_WIDTH, _HEIGHT = 1000, 200
#: Of the place of a bar, at most; of so many bars that they are hairs, all of it.
_FILLED, _DENSE = 0.8, 120


@dataclass(frozen=True, slots=True)
class Series:
    """One part of every bar; `style` is the number of its colour."""

    name: str
    style: int
    values: Sequence[int]


def nice_top(most: int) -> int:
    """Where an axis ends: a round number at or above the largest value, with a whole one at its half from ten on."""
    power = int(10 ** (len(str(most)) - 1))
    return next(top for top in (n * power for n in (1, 2, 3, 4, 5, 6, 8, 10)) if top >= most)


def stacked_bars(labels: Sequence[str], series: Sequence[Series]) -> tuple[SafeString, int]:
    """A bar for each label, its parts from the bottom up, and the end of the axis. A bar says its label and parts when
    pointed at.
    """
    sums = [sum(values) for values in zip(*(each.values for each in series), strict=True)]
    top = nice_top(max(sums, default=0))
    place = _WIDTH / max(1, len(labels))
    width = place * (1 if len(labels) > _DENSE else _FILLED)
    bars = []
    for at, label in enumerate(labels):
        said = [f"{each.name} : {each.values[at]}" for each in series if each.values[at]]
        if said:
            parts = _parts(series, at, top, (at * place + (place - width) / 2, width))
            bars.append((", ".join([label, *said]), parts))
    return format_html(
        '<svg class="rp-chart" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<path class="rp-chart-grid" d="M0 0H{}M0 {}H{}" vector-effect="non-scaling-stroke"/>{}</svg>',
        _WIDTH,
        _HEIGHT,
        _WIDTH,
        _HEIGHT // 2,
        _WIDTH,
        format_html_join("", "<g><title>{}</title>{}</g>", bars),
    ), top


def _parts(series: Sequence[Series], at: int, top: int, across: tuple[float, float]) -> SafeString:
    left, width = across
    below = 0
    found = []
    for each in series:
        if value := each.values[at]:
            below += value
            y, height = _HEIGHT * (1 - below / top), _HEIGHT * value / top
            found.append(
                f'<rect class="rp-series-{each.style:d}" x="{left:.2f}" y="{y:.2f}" width="{width:.2f}" '
                f'height="{height:.2f}"/>'
            )
    return mark_safe("".join(found))  # noqa: S308  # numbers only


def share_bar(share: float, before: float | None) -> SafeString:
    """A share from 0 to 1, and below it, thinner, that of the period before."""
    earlier = ""
    if before:
        earlier = format_html('<rect class="rp-series-before" y="8" width="{}" height="2"/>', f"{100 * before:.1f}")
    return format_html(
        '<svg class="rp-share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<rect class="rp-series-1" width="{}" height="7"/>{}</svg>',
        f"{100 * share:.1f}",
        earlier,
    )
