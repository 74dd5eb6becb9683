"""The figures of a period as tables: each with its columns, its rows as plain values, and its chart where it has one.

The page shows them in the reader's notation, a download as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, Literal

from django.utils import formats
from django.utils.functional import Promise
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from agents.admin_base import admin_url
from agents.models import Deployment
from chat.models import AnswerSource
from chat.staff.explanation import STEPS
from chat.staff.figures import reading
from chat.staff.figures.drawing import Series, share_bar, stacked_bars
from chat.staff.figures.reading import Named, Period, Prices, Sums, Totals

#: Rows of a list of the most used, of the never used, of topics.
FIGURES_LISTED = 10

Words = str | Promise
#: From here on nobody reads the cents of a mean.
_LARGE = 100
Kind = Literal["text", "count", "decimal", "percent", "money", "amount", "day", "bar"]
Value = str | int | float | Decimal | date | SafeString | None

ENDINGS: dict[str, Words] = {
    reading.FAILED: gettext_lazy("En échec"),
    reading.INTERRUPTED: gettext_lazy("Interrompues"),
    reading.RUNNING: gettext_lazy("En cours"),
}
KINDS: dict[str, Words] = {
    "stored": gettext_lazy("Sans modèle"),
    "model": gettext_lazy("Par le modèle"),
    "other": gettext_lazy("Autres voies"),
    "unfinished": gettext_lazy("Non abouties"),
}


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with the words around it: the end of its axis, its first and last label, its parts."""

    drawing: SafeString
    top: str
    ends: tuple[str, str]
    parts: Sequence[tuple[int, str]]


@dataclass
class Table:
    """`links` leads from each row's first cell; a long one is folded below its chart."""

    key: str
    title: str
    columns: Sequence[tuple[str, Kind]]
    rows: Sequence[tuple[Value, ...]]
    note: str = ""
    links: Sequence[str] = ()
    chart: Chart | None = None

    @property
    def heads(self) -> list[tuple[str, bool]]:
        return [(title, kind not in ("text", "day", "bar")) for title, kind in self.columns]

    @property
    def body(self) -> SafeString:
        """Each row's cells as the page writes them: made here, as a template takes ten times as long for a year of
        days.
        """
        links = self.links or [""] * len(self.rows)
        return mark_safe(  # noqa: S308  # every value is escaped
            "".join(map(self._row, self.rows, links))
        )

    def _row(self, row: tuple[Value, ...], link: str) -> str:
        cells = [
            conditional_escape(shown(value, kind)) for value, (_title, kind) in zip(row, self.columns, strict=True)
        ]
        head: str = cells[0]
        if link:
            head = f'<a class="text-link underline" href="{conditional_escape(link)}">{head}</a>'
        rest = map("<td{}>{}</td>".format, self._attributes, cells[1:])
        return f'<tr><th scope="row">{head}</th>{"".join(rest)}</tr>'

    @cached_property
    def _attributes(self) -> list[str]:
        """Of the cells but the first: on a narrow screen each stands under its own heading."""
        return [
            (f' data-label="{conditional_escape(title)}"' if title else "")
            + (' class="rp-number"' if is_number else "")
            for title, is_number in self.heads[1:]
        ]

    def plain(self) -> Iterable[list[Value]]:
        """Heading and rows of a download: numbers as they are, and no drawing."""
        kept = [at for at, (_title, kind) in enumerate(self.columns) if kind != "bar"]
        yield [self.columns[at][0] for at in kept]
        for row in self.rows:
            yield [row[at] for at in kept]


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure that stands for itself, and what it was in the period before."""

    title: str
    value: str
    before: str


@dataclass(slots=True)
class Report:
    tiles: list[Tile]
    tables: list[Table] = field(default_factory=list)


def shown(value: Value, kind: Kind) -> str:
    """In the reader's notation; a dash for what is not known."""
    if value is None:
        return "–"
    match kind:
        case "day":
            return _day(value, get_language())
        case "text" | "bar":
            return value if isinstance(value, SafeString) else Truncator(str(value)).chars(200)
    return _number(value, kind, get_language())


@lru_cache(maxsize=2_000)
def _day(value: Any, _language: str | None) -> str:
    return formats.date_format(value, "SHORT_DATE_FORMAT")


@lru_cache(maxsize=2_000)
def _number(known: Any, kind: Kind, language: str | None) -> str:
    """Kept: a year has thousands of small counts."""
    value = Decimal(str(known))
    digits = {"count": 0, "decimal": 1, "money": 2, "percent": 1, "amount": 0}[kind]
    if kind == "amount" and abs(value) < _LARGE:
        digits = 2
    number = value * 100 if kind == "percent" else value
    text = formats.number_format(round(number, digits), digits, force_grouping=True)
    if kind != "percent":
        return text
    return f"{text}%" if language == "en" else f"{text}\u00a0%"


def ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class Viewer:
    """Whoever reads: their rights of those of `reading.THINGS` and of topics, and of any rows those that are for them."""

    rights: frozenset[str]
    theirs: reading.Theirs


def report(period: Period, deployment: Deployment | None, viewer: Viewer, prices: Prices) -> Report:
    """Everything that this reader may see of a period."""
    key = deployment.pk if deployment else None
    now, before = reading.totals(period, key), reading.totals(period.before, key)
    days = reading.by_day(period, key)
    tables = [_days(days), _endings(now, before)]
    tables += [_deployments(now, before)] if deployment is None else []
    tables += [_languages(now, before), _savings(now, before, prices), _ratings(days)]
    if TOPICS in viewer.rights:
        tables.append(_topics(period, deployment, viewer))
    tables.append(_steps(period, key))
    tables += _uses(period, deployment, viewer)
    return Report(_tiles(now, before, prices), tables)


#: The right that opens the words of unanswered questions.
TOPICS = "faqs.view_questiongroup"


def _tiles(now: Totals, before: Totals, prices: Prices) -> list[Tile]:
    figures: list[tuple[str, Kind, Any]] = [
        (_("Questions"), "count", lambda of: of.all.turns),
        (_("Répondues sans modèle"), "percent", lambda of: ratio(of.kinds["stored"].turns, of.all.turns)),
        (_("Avis favorables"), "percent", lambda of: ratio(of.all.up, of.all.up + of.all.down)),
        (_("En échec"), "percent", lambda of: ratio(of.endings[reading.FAILED].turns, of.all.turns)),
        (_("Secondes par réponse"), "decimal", lambda of: of.all.seconds),
        (_("Appels au modèle"), "count", lambda of: of.all.llm_calls),
        (_("Tokens lus et écrits"), "count", lambda of: of.all.prompt_tokens + of.all.completion_tokens),
        (_("Dépense"), "money", lambda of: of.all.cost(prices) if prices else None),
    ]
    return [Tile(title, shown(read(now), kind), shown(read(before), kind)) for title, kind, read in figures]


def _chart(
    days: Sequence[date], parts: Sequence[tuple[str, Sequence[int]]], styles: Sequence[int] = (1, 2, 3, 4)
) -> Chart:
    labels = [shown(day, "day") for day in days]
    series = [Series(name, style, values) for style, (name, values) in zip(styles, parts, strict=False)]
    drawing, top = stacked_bars(labels, series)
    names = [(each.style, each.name) for each in series]
    return Chart(drawing, shown(top, "count"), (labels[0], labels[-1]), names)


ByDay = Mapping[date, Mapping[str, Sums]]


def _days(found: ByDay) -> Table:
    counts = {kind: [sums[kind].turns if kind in sums else 0 for sums in found.values()] for kind in KINDS}
    totals = [sums["all"].turns if "all" in sums else 0 for sums in found.values()]
    return Table(
        "days",
        _("Questions par jour"),
        [(_("Jour"), "day"), (_("Questions"), "count"), *((str(name), "count") for name in KINDS.values())],
        list(zip(found, totals, *counts.values(), strict=True)),
        _(
            "Sans modèle : de la mémoire, de la FAQ ou d’une question-réponse. Autres voies : précision demandée, refus du "
            "garde-fou, passages cités. Non abouties : en échec, interrompues, en cours."
        ),
        chart=_chart(list(found), [(str(KINDS[kind]), counts[kind]) for kind in KINDS]),
    )


def _ratings(found: ByDay) -> Table:
    days = {day: sums["all"] if "all" in sums else Sums() for day, sums in found.items()}
    up, down = [each.up for each in days.values()], [each.down for each in days.values()]
    names = (_("Utile"), _("À revoir"))
    return Table(
        "ratings",
        _("Satisfaction"),
        [(_("Jour"), "day"), (names[0], "count"), (names[1], "count"), (_("Avis favorables"), "percent")],
        [(day, each.up, each.down, ratio(each.up, each.up + each.down)) for day, each in days.items()],
        _("Les avis comptent au jour de la question ; ceux qui sont retirés ne comptent pas."),
        chart=_chart(list(days), [(names[0], up), (names[1], down)], styles=(1, 4)),
    )


def _compared(
    key: str, title: str, what: str, names: Mapping[Any, str], now: Mapping[Any, Sums], before: Mapping[Any, Sums]
) -> Table:
    """Questions told apart by something, the most first, beside the period before."""
    every = sum(each.turns for each in now.values())
    earlier = sum(each.turns for each in before.values())
    rows: list[tuple[Value, ...]] = []
    for name in sorted({*now, *before}, key=lambda each: (-_turns(now, each), str(each))):
        count, past = _turns(now, name), _turns(before, name)
        share, past_share = ratio(count, every), ratio(past, earlier)
        if count or past:
            bar = share_bar(share or 0, past_share)
            rows.append((names[name], bar, count, share, past, past_share))
    columns: list[tuple[str, Kind]] = [
        (what, "text"),
        ("", "bar"),
        (_("Questions"), "count"),
        (_("Part"), "percent"),
        (_("Période précédente"), "count"),
        (_("Part précédente"), "percent"),
    ]
    return Table(key, title, columns, rows)


def _turns(by: Mapping[Any, Sums], key: Any) -> int:
    return by[key].turns if key in by else 0


def _endings(now: Totals, before: Totals) -> Table:
    names = {value: str(label) for value, label in AnswerSource.choices}
    names |= {value: str(label) for value, label in ENDINGS.items()}
    found = {*now.endings, *before.endings}
    names |= {each: each for each in found if each not in names}
    title = _("Par voie de réponse")
    return _compared("endings", title, _("Voie de réponse"), names, now.endings, before.endings)


def _deployments(now: Totals, before: Totals) -> Table:
    found = {*now.deployments, *before.deployments}
    names = dict(Deployment.objects.filter(pk__in=found).values_list("pk", "name"))
    names |= {key: _("Déploiement supprimé (n° %d)") % key for key in found if key not in names}
    return _compared("deployments", _("Par déploiement"), _("Déploiement"), names, now.deployments, before.deployments)


def _languages(now: Totals, before: Totals) -> Table:
    known = {"fr": _("Français"), "en": _("Anglais")}
    names = {code: known.get(code, code) or _("Inconnue") for code in {*now.languages, *before.languages}}
    table = _compared("languages", _("Par langue"), _("Langue"), names, now.languages, before.languages)
    table.note = _(
        "Celle de la page, ou que demande le programme. Elle est inconnue d’une question d’avant cette version, et d’une "
        "réponse qui n’est pas allée à sa fin."
    )
    return table


def _savings(now: Totals, before: Totals, prices: Prices) -> Table:
    saved, earlier = now.saved(), before.saved()

    def of(each: reading.Saved | None) -> tuple[Value, ...]:
        if each is None:
            return (None,) * 5
        cost = prices.cost(each.prompt_tokens, each.completion_tokens) if prices else None
        return each.calls, each.prompt_tokens, each.completion_tokens, each.seconds, cost

    model, stored = now.kinds["model"], now.kinds["stored"]
    seconds = (model.seconds, stored.seconds)
    means: tuple[Value, ...] = (
        ratio(model.llm_calls, model.turns),
        ratio(model.prompt_tokens, model.turns),
        ratio(model.completion_tokens, model.turns),
        seconds[0],
        prices.cost(model.prompt_tokens, model.completion_tokens) / model.turns if prices and model.turns else None,
    )
    names = (_("Appels au modèle"), _("Tokens lus"), _("Tokens écrits"), _("Secondes d’attente"), _("Argent"))
    note = _(
        "%(count)s réponses de la mémoire, de la FAQ ou des questions-réponses ont été données sans que le modèle les rédige. "
        "Ce que cela épargne est estimé : le modèle les aurait rédigées au prix moyen de celles qu’il a rédigées dans la même "
        "période, moins ce qu’elles ont coûté quand même (titres, reformulations)."
    ) % {"count": shown(stored.turns, "count")}
    if not prices:
        note += " " + _("Les prix des tokens sont dans les réglages du site.")
    return Table(
        "savings",
        _("Ce que les réponses sans modèle épargnent"),
        [
            (_("Épargne"), "text"),
            (_("Moyenne d’une réponse du modèle"), "amount"),
            (_("Épargné"), "amount"),
            (_("Période précédente"), "amount"),
        ],
        list(zip(names, means, of(saved), of(earlier), strict=True)),
        note,
    )


def _topics(period: Period, deployment: Deployment | None, viewer: Viewer) -> Table:
    found = reading.topics(period, deployment, FIGURES_LISTED, viewer.theirs)
    return Table(
        "topics",
        _("Sujets sans réponse"),
        [(_("Sujet"), "text"), (_("Questions"), "count"), (_("Période précédente"), "count")],
        [(each.text, each.times, each.before) for each in found],
        _("Les plus demandés. Leurs mots s’effacent avec les conversations ; le nombre de refus, plus haut, reste."),
        _links(found),
    )


def _steps(period: Period, deployment: int | None) -> Table:
    found = reading.steps(period, deployment)
    before = {each.name: each.mean for each in reading.steps(period.before, deployment)}
    every = sum(each.total for each in found)
    return Table(
        "steps",
        _("Étapes les plus lentes"),
        [
            (_("Étape"), "text"),
            (_("Fois"), "count"),
            (_("Moyenne (ms)"), "decimal"),
            (_("Moyenne précédente (ms)"), "decimal"),
            (_("Au plus (ms)"), "decimal"),
            (_("Part du temps"), "percent"),
        ],
        [
            (
                str(STEPS.get(each.name, each.name)),
                each.times,
                each.mean,
                before.get(each.name),
                each.slowest,
                ratio(each.total, every),
            )
            for each in found
        ],
    )


def _uses(period: Period, deployment: Deployment | None, viewer: Viewer) -> list[Table]:
    found = reading.uses(period, deployment.pk if deployment else None)
    titles = {
        "passage": (_("Passages les plus utilisés"), _("Passages jamais utilisés")),
        "answer": (_("Réponses validées les plus utilisées"), _("Réponses jamais utilisées")),
        "memory": (_("Réponses en mémoire les plus données"), ""),
    }
    tables = []
    for thing in reading.THINGS:
        if thing.right not in viewer.rights:
            continue
        most, never = titles[thing.kind]
        used = found[thing.kind]
        named = reading.most_used(thing, used, FIGURES_LISTED, viewer.theirs)
        name = (str(thing.kind.label), "text")
        columns: list[tuple[str, Kind]] = [(name[0], "text"), (_("Réponses"), "count")]
        rows = [(each.text, each.times) for each in named]
        tables.append(Table(f"used-{thing.kind}", most, columns, rows, links=_links(named)))
        if never:
            unused = reading.never_used(thing, used, deployment, FIGURES_LISTED, viewer.theirs)
            note = _(
                "%(unused)s sur %(total)s n’ont servi à aucune réponse de la période ; les premiers sont nommés."
            ) % {"unused": shown(unused.unused, "count"), "total": shown(unused.total, "count")}
            tables.append(
                Table(
                    f"unused-{thing.kind}",
                    never,
                    [(name[0], "text")],
                    [(each.text,) for each in unused.named],
                    note,
                    _links(unused.named),
                )
            )
    return tables


def _links(named: Sequence[Named]) -> list[str]:
    return [admin_url(type(each.row), "change", each.row.pk) for each in named]
