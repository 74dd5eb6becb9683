"""The settings that staff may change: one table of knobs, from which types, forms, checks and texts are made.

A level (the site, an agent, a deployment) stores what it sets itself as JSON, by the knob's name; what it does not
name, it inherits (`agents.effective`). A knob that nobody would turn is a constant in the module that uses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, Literal

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminNullBooleanSelectWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

Kind = Literal["switch", "count", "number", "choice", "line", "text"]

#: Of each kind: what JSON holds, the field of a form, and its widget in the admin.
_KINDS: Mapping[Kind, tuple[Any, type[forms.Field], Any]] = {
    "switch": (bool, forms.NullBooleanField, UnfoldAdminNullBooleanSelectWidget),
    "count": (int, forms.IntegerField, UnfoldAdminIntegerFieldWidget),
    "number": (int | float, forms.FloatField, UnfoldAdminDecimalFieldWidget),
    "choice": (str, forms.TypedChoiceField, UnfoldAdminSelectWidget),
    "line": (str, forms.CharField, UnfoldAdminTextInputWidget),
    "text": (str, forms.CharField, UnfoldAdminTextareaWidget),
}


class MemoryLearning(models.TextChoices):
    """What becomes of an answer that the model wrote (seed 000, section 5)."""

    OFF = "off", _("Ne rien retenir")
    REVIEW = "review", _("Retenir, après relecture")
    VALID = "valid", _("Retenir tout de suite")


class ToolMode(models.TextChoices):
    """How the tools of a question are chosen (seed 003)."""

    DIRECT = "direct", _("Direct : tous les outils permis")
    LOCAL = "local", _("Local : les plus proches, index en base")
    EXTERNAL = "external", _("Externe : les plus proches, base vectorielle")


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting. A default of `None` leaves it to the measured profile of the embedding model."""

    name: str
    kind: Kind
    label: Any
    help: Any
    default: Any
    #: Of the field of a form: the bounds of a number, the length of a text, the choices.
    options: Mapping[str, Any]
    #: The title of its tab in the admin.
    tab: Any

    @property
    def choices(self) -> dict[Any, Any]:
        return dict(self.options.get("choices", ()))

    def form_field(self) -> forms.Field:
        """A new field for the admin; one left empty inherits from the level above."""
        _stored, field_class, widget = _KINDS[self.kind]
        return field_class(
            label=capfirst(self.label), help_text=self.help, required=False, widget=widget, **self.options
        )

    def clean(self, value: Any) -> Any:
        """The value as JSON stores it. Raises `ValidationError` for one that this knob cannot have."""
        if value is None and self.default is not None:
            raise ValidationError(_("Cette valeur ne peut pas être vide."))
        if self.kind == "switch" and not isinstance(value, bool):
            raise ValidationError(_("Oui ou non (true, false) est attendu."))
        # Forms read "6" as a number and a list as its text; code reads what is stored.
        is_of_kind = isinstance(value, _KINDS[self.kind][0]) and isinstance(value, bool) == (self.kind == "switch")
        if value is not None and not is_of_kind:
            raise ValidationError(RegexValidator.message)
        return self.form_field().clean(value)


#: The bounds of a similarity.
_RATIO = (-1.0, 1.0)


def knob(label: Any, help_text: Any, default: Any, within: Any = None, *, kind: Kind = "text", tab: Any = None) -> Any:
    """Declare a setting, of the kind of its default. `within`: the bounds of a number, or the length of a text (`kind`
    says of which); `tab` begins a tab of the admin."""
    options: dict[str, Any] = {}
    match default:
        case models.TextChoices():
            options = {"choices": [("", "---------"), *type(default).choices]}
            kind, default = "choice", default.value
        case str():
            options = {"max_length": within}
        case bool():
            kind = "switch"
        case _:
            kind = "count" if isinstance(default, int) else "number"
            options = dict(zip(("min_value", "max_value"), within, strict=True))
    told = {"kind": kind, "label": label, "help": help_text, "options": options, "tab": tab}
    return field(default=default, metadata=told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """The settings that an agent or a deployment may override."""

    direct_answers: bool = knob(
        _("réponses directes"),
        _("Donner telle quelle la question-réponse qui convient."),
        True,
        tab=_("Réponses directes"),
    )
    direct_answer_threshold: float | None = knob(
        _("seuil de réponse directe"), _("Similarité minimale. Vide : profil du modèle."), None, _RATIO
    )
    verify_answers: bool = knob(
        _("vérification par le modèle"),
        _(
            "Demander au modèle si deux questions proches ont une même réponse (jamais contre un nombre, une date, un nom)."
        ),
        False,
    )
    memory: bool = knob(
        _("réponses en mémoire"), _("Redonner la réponse validée à la même question."), True, tab=_("Mémoire")
    )
    memory_threshold: float | None = knob(
        _("seuil de la mémoire"), _("Similarité minimale. Vide : profil du modèle."), None, _RATIO
    )
    memory_max_age_days: int = knob(
        _("âge maximal en mémoire"), _("En jours depuis sa confirmation."), 180, (1, 36_500)
    )
    withhold_stale_answers: bool = knob(
        _("retenir les réponses validées à relire"),
        _("Ne plus donner une réponse validée dont un passage a changé, jusqu’à sa relecture."),
        True,
    )
    memory_learning: str = knob(_("apprentissage"), _("Des réponses rédigées par le modèle."), MemoryLearning.REVIEW)
    clarification: bool = knob(
        _("demander une précision"),
        _("Entre plusieurs questions enregistrées proches, demander laquelle était voulue."),
        True,
        tab=_("Demande de précision"),
    )
    page_refresh_hours: int = knob(
        _("relecture des pages du web"), _("En heures. 0 : jamais."), 24, (0, 8_760), tab=_("Pages du web")
    )
    guard_rail_threshold: float | None = knob(
        _("seuil du garde-fou"),
        _("Pertinence en dessous de laquelle la question est refusée. Vide : profil du modèle."),
        None,
        _RATIO,
        tab=_("Garde-fou"),
    )
    guard_rail_message: str = knob(
        _("message de refus"), _("Vide : rien trouvé, à quoi l’on répond, que faire."), "", 2_000
    )
    courtesies: bool = knob(
        _("répondre aux formules de politesse"),
        _("« Bonjour », « merci » ou « qui es-tu ? » reçoivent une réponse toute prête, sans recherche."),
        True,
    )
    presentation: str = knob(
        _("ce à quoi ce service répond"), _("Une phrase, après un bonjour et dans un refus."), "", 1_000
    )
    contact: str = knob(_("à qui s’adresser"), _("Où rien n’a été trouvé : « Écrivez à accueil@exemple.fr. »"), "", 500)
    ask_a_person: bool = knob(
        _("demander à quelqu’un"),
        _("Sous une réponse, proposer de poser la question à l’équipe, qui répond ici."),
        False,
        tab=_("Demander à quelqu’un"),
    )
    person_hours: str = knob(
        _("heures et délai de réponse"),
        _("Montrés avec la demande : « Du lundi au vendredi, 9 h – 17 h ; réponse sous deux jours. »"),
        "",
        500,
    )
    record_unanswered: bool = knob(
        _("garder les questions sans réponse"),
        _("Refusées ou signalées, sans auteur."),
        True,
        tab=_("Questions sans réponse"),
    )
    match_count: int = knob(
        _("passages recherchés"), _("Nombre de passages donnés au modèle de langage."), 5, (1, 50), tab=_("Recherche")
    )
    match_threshold: float = knob(
        _("similarité minimale d’un passage"), _("Pour le retenir. −1 : aucun minimum."), -1.0, _RATIO
    )
    show_cited_pages: bool = knob(
        _("montrer la page citée"), _("Ouvrir la page du PDF d’où vient un passage ; jamais le fichier."), True
    )
    context_exchanges: int = knob(_("échanges de contexte"), _("Précédents, donnés au modèle."), 3, (0, 50))
    summarise_exchanges: bool = knob(
        _("résumé des échanges"),
        _("Donner au modèle un résumé des échanges, qu’il écrit après chaque réponse : un appel de plus."),
        False,
    )
    rewrite_follow_ups: bool = knob(
        _("reformulation des suites"),
        _("Par le modèle, avant la recherche ; sinon, une suite est cherchée avec la question d’avant."),
        True,
    )
    tools_enabled: bool = knob(_("outils"), _("Proposer des outils au modèle de langage."), True, tab=_("Outils"))
    tool_mode: str = knob(_("choix des outils"), _("Direct jusqu’à 15 outils environ, local au-delà."), ToolMode.DIRECT)
    tool_top_k: int = knob(_("outils proposés"), _("Pour une question, hors outils résidents et récents."), 5, (1, 50))
    tool_threshold: float | None = knob(
        _("seuil de choix d’un outil"), _("Similarité minimale. Vide : profil du modèle."), None, _RATIO
    )
    max_rounds: int = knob(_("relances après outils"), _("Au plus, pour une question."), 10, (1, 50))
    max_tool_calls: int = knob(_("appels d’outils par relance"), _("Les suivants ne sont pas faits."), 10, (1, 50))
    context_messages: int = knob(_("messages de contexte"), _("Donnés au modèle qui a des outils."), 25, (2, 500))
    history_messages: int = knob(
        _("messages d’historique"), _("Relus, pour un modèle qui a des outils."), 50, (2, 1_000)
    )
    system_prompt: str = knob(
        _("consigne du modèle"),
        _("Ton et rôle, ajoutés aux règles de citation."),
        "",
        20_000,
        tab=_("Modèle de langage"),
    )
    llm_model: str = knob(_("modèle de langage"), _("Vide : celui de la variable LLM_MODEL."), "", 200, kind="line")
    temperature: float = knob(_("température"), _("De 0 (constant) à 2 (libre)."), 0.2, (0.0, 2.0))
    max_answer_tokens: int = knob(_("longueur maximale d’une réponse"), _("En tokens."), 1024, (16, 32_000))
    strict_answers: bool = knob(
        _("réponse du modèle sous contrôle strict"),
        _("Pour un petit modèle : citer les passages dès que ceux de sa réponse ne nomment pas ce qui est demandé."),
        False,
    )
    context_tokens: int = knob(_("fenêtre du modèle"), _("En tokens, si le serveur ne la dit pas."), 0, (0, 10**7))
    generate_questions: bool = knob(
        _("questions écrites par le modèle"),
        _("En arrière-plan, faire écrire les questions auxquelles un passage répond."),
        True,
    )
    generate_titles: bool = knob(_("titres par le modèle"), _("Sinon, le début de la première question."), False)
    api_source_lines: bool = knob(
        _("sources écrites dans les réponses de l’API"),
        _("À la fin du texte de /v1, pour les logiciels qui n’affichent que lui."),
        False,
        tab=_("API"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteKnobs:
    """The settings that only the site has."""

    asks_per_minute_user: int = knob(
        _("questions par minute et par personne"),
        _("Utilisateur connecté, ou visiteur. 0 : sans limite."),
        30,
        (0, 100_000),
        tab=_("Limites"),
    )
    asks_per_minute_key: int = knob(
        _("questions par minute et par clé d’API"), _("0 : sans limite."), 120, (0, 100_000)
    )
    asks_per_minute_address: int = knob(
        _("questions par minute et par adresse"), _("0 : sans limite."), 240, (0, 100_000)
    )
    question_calls_per_day: int = knob(
        _("appels au modèle par jour, pour écrire des questions"),
        _("Ce nombre atteint, l’écriture reprend le lendemain. 0 : sans limite."),
        5_000,
        (0, 10_000_000),
        tab=_("Questions écrites"),
    )


def declared(*tables: type[Any]) -> dict[str, Knob]:
    """The settings of these tables, by name; one that begins no tab belongs to that of the one before."""
    found: dict[str, Knob] = {}
    tab: Any = None
    for each in chain.from_iterable(map(fields, tables)):
        tab = each.metadata["tab"] or tab
        found[each.name] = Knob(name=each.name, default=each.default, **each.metadata | {"tab": tab})
    return found


#: Every setting that an agent or a deployment may override, by name.
KNOBS = declared(Knobs)
SITE_KNOBS = declared(Knobs, SiteKnobs)
#: Those that nothing reads where no language model is configured.
OF_A_MODEL = frozenset(
    name
    for name, knob in SITE_KNOBS.items()
    if knob.tab in (KNOBS["tools_enabled"].tab, KNOBS["llm_model"].tab, SITE_KNOBS["question_calls_per_day"].tab)
)


def validate_settings(values: Any, knobs: Mapping[str, Knob] = SITE_KNOBS) -> None:
    """Require known names and valid values in a level's JSON; each error names its setting."""
    if not isinstance(values, dict):
        raise ValidationError(_("Un objet JSON est attendu."))
    known = {key: value for key, value in values.items() if key in knobs}
    errors = [_("%(key)s : réglage inconnu.") % {"key": key} for key in values if key not in known]
    for key, value in known.items():
        try:
            knobs[key].clean(value)
        except ValidationError as error:
            errors += [f"{key} : {message}" for message in error.messages]
    if errors:
        raise ValidationError(errors)


def setting_fields(knobs: Mapping[str, Knob] = KNOBS) -> dict[str, forms.Field]:
    """A new field for each setting, by its name; none is required."""
    return {name: each.form_field() for name, each in knobs.items()}
