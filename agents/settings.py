"""The settings that staff may change: one table of knobs, from which forms, checks and texts are made.

A level (the site, an agent, a deployment) stores what it sets itself as JSON, by the knob's name; what it does not
name, it inherits (`agents.effective`). A knob that nobody would turn is a constant in the module that uses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Kind = Literal["switch", "count", "number", "choice", "line", "text"]

#: What JSON holds for each kind.
_TYPES: dict[Kind, type | tuple[type, ...]] = {
    "switch": bool,
    "count": int,
    "number": (int, float),
    "choice": str,
    "line": str,
    "text": str,
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
    label: str | Promise
    help: str | Promise
    default: Any
    #: Of a number; of a text, the most is its length.
    least: float | None = None
    most: float | None = None
    choices: tuple[tuple[str, Any], ...] = ()

    def field(self, widget: Any = None) -> forms.Field:
        """The knob's form field; a field left empty inherits from the level above."""
        options: dict[str, Any] = {"label": self.label, "help_text": self.help, "required": False}
        if widget is not None:
            options["widget"] = widget
        match self.kind:
            case "switch":
                return forms.NullBooleanField(**options)
            case "choice":
                return forms.TypedChoiceField(choices=[("", "---------"), *self.choices], **options)
            case "count":
                return forms.IntegerField(min_value=self.least, max_value=self.most, **options)  # type: ignore[arg-type]
            case "number":
                return forms.FloatField(min_value=self.least, max_value=self.most, **options)
        return forms.CharField(max_length=int(self.most or 0), **options)

    def clean(self, value: Any) -> Any:
        """The value as JSON stores it. Raises `ValidationError` for one that this knob cannot have."""
        if value is None and self.default is not None:
            raise ValidationError(_("Cette valeur ne peut pas être vide."))
        if self.kind == "switch" and not isinstance(value, bool):
            raise ValidationError(_("Oui ou non (true, false) est attendu."))
        # Forms read "6" as a number and a list as its text; code reads what is stored.
        is_of_kind = isinstance(value, _TYPES[self.kind]) and isinstance(value, bool) == (self.kind == "switch")
        if value is not None and not is_of_kind:
            raise ValidationError(RegexValidator.message)
        return self.field().clean(value)


def _switch(name: str, label: Any, text: Any, default: bool) -> Knob:
    return Knob(name, "switch", label, text, default)


def _ratio(name: str, label: Any, text: Any, default: float | None = None) -> Knob:
    """A similarity."""
    return Knob(name, "number", label, text, default, -1.0, 1.0)


def _count(name: str, label: Any, text: Any, default: int, within: tuple[int, int]) -> Knob:
    return Knob(name, "count", label, text, default, *within)


def _choice(name: str, label: Any, text: Any, default: models.TextChoices) -> Knob:
    return Knob(name, "choice", label, text, default.value, choices=tuple(type(default).choices))


def _text(name: str, label: Any, text: Any, most: int, *, is_line: bool = False) -> Knob:
    return Knob(name, "line" if is_line else "text", label, text, "", most=most)


#: By the title of their tab in the admin.
GROUPS: dict[Any, tuple[Knob, ...]] = {
    _("Réponses directes"): (
        _switch(
            "direct_answers", _("réponses directes"), _("Donner telle quelle la question-réponse qui convient."), True
        ),
        _ratio(
            "direct_answer_threshold", _("seuil de réponse directe"), _("Similarité minimale. Vide : profil du modèle.")
        ),
        _switch(
            "verify_answers",
            _("vérification par le modèle"),
            _(
                "Demander au modèle si deux questions proches ont une même réponse (jamais contre un nombre, une date, un nom)."
            ),
            False,
        ),
    ),
    _("Mémoire"): (
        _switch("memory", _("réponses en mémoire"), _("Redonner la réponse validée à la même question."), True),
        _ratio("memory_threshold", _("seuil de la mémoire"), _("Similarité minimale. Vide : profil du modèle.")),
        _count(
            "memory_max_age_days", _("âge maximal en mémoire"), _("En jours depuis sa confirmation."), 180, (1, 36_500)
        ),
        _switch(
            "withhold_stale_answers",
            _("retenir les réponses validées à relire"),
            _("Ne plus donner une réponse validée dont un passage a changé, jusqu’à sa relecture."),
            True,
        ),
        _choice(
            "memory_learning", _("apprentissage"), _("Des réponses rédigées par le modèle."), MemoryLearning.REVIEW
        ),
    ),
    _("Demande de précision"): (
        _switch(
            "clarification",
            _("demander une précision"),
            _("Entre plusieurs questions enregistrées proches, demander laquelle était voulue."),
            True,
        ),
        _ratio(
            "clarification_band", _("bande de précision"), _("Écart sous le seuil de réponse directe, proposé."), 0.0
        ),
        _ratio("clarification_margin", _("écart entre propositions"), _("Au-delà, rien d’autre n’est proposé."), 0.1),
    ),
    _("Pages du web"): (
        _count("page_refresh_hours", _("relecture des pages du web"), _("En heures. 0 : jamais."), 24, (0, 8_760)),
    ),
    _("Garde-fou"): (
        _ratio(
            "guard_rail_threshold",
            _("seuil du garde-fou"),
            _("Pertinence en dessous de laquelle la question est refusée. Vide : profil du modèle."),
        ),
        _text(
            "guard_rail_message", _("message de refus"), _("Vide : rien trouvé, à quoi l’on répond, que faire."), 2_000
        ),
        _switch(
            "courtesies",
            _("répondre aux formules de politesse"),
            _("« Bonjour », « merci » ou « qui es-tu ? » reçoivent une réponse toute prête, sans recherche."),
            True,
        ),
        _text(
            "presentation", _("ce à quoi ce service répond"), _("Une phrase, après un bonjour et dans un refus."), 1_000
        ),
        _text("contact", _("à qui s’adresser"), _("Où rien n’a été trouvé : « Écrivez à accueil@exemple.fr. »"), 500),
    ),
    _("Questions sans réponse"): (
        _switch(
            "record_unanswered", _("garder les questions sans réponse"), _("Refusées ou signalées, sans auteur."), True
        ),
    ),
    _("Recherche"): (
        _count(
            "match_count", _("passages recherchés"), _("Nombre de passages donnés au modèle de langage."), 6, (1, 50)
        ),
        _ratio(
            "match_threshold", _("similarité minimale d’un passage"), _("Pour le retenir. −1 : aucun minimum."), -1.0
        ),
        _switch(
            "show_cited_pages",
            _("montrer la page citée"),
            _("Ouvrir la page du PDF d’où vient un passage ; jamais le fichier."),
            True,
        ),
        _count("context_exchanges", _("échanges de contexte"), _("Précédents, donnés au modèle."), 3, (0, 50)),
        _switch(
            "summarise_exchanges",
            _("résumé des échanges"),
            _("Donner au modèle un résumé des échanges, qu’il écrit après chaque réponse : un appel de plus."),
            False,
        ),
        _switch(
            "rewrite_follow_ups",
            _("reformulation des suites"),
            _("Par le modèle, avant la recherche ; sinon, une suite est cherchée avec la question d’avant."),
            True,
        ),
    ),
    _("Outils"): (
        _switch("tools_enabled", _("outils"), _("Proposer des outils au modèle de langage."), True),
        _choice(
            "tool_mode", _("choix des outils"), _("Direct jusqu’à 15 outils environ, local au-delà."), ToolMode.DIRECT
        ),
        _count(
            "tool_top_k", _("outils proposés"), _("Pour une question, hors outils résidents et récents."), 5, (1, 50)
        ),
        _ratio("tool_threshold", _("seuil de choix d’un outil"), _("Similarité minimale. Vide : profil du modèle.")),
        _count("max_rounds", _("relances après outils"), _("Au plus, pour une question."), 10, (1, 50)),
        _count("max_tool_calls", _("appels d’outils par relance"), _("Les suivants ne sont pas faits."), 10, (1, 50)),
        _count("context_messages", _("messages de contexte"), _("Donnés au modèle qui a des outils."), 25, (2, 500)),
        _count(
            "history_messages", _("messages d’historique"), _("Relus, pour un modèle qui a des outils."), 50, (2, 1_000)
        ),
    ),
    _("Modèle de langage"): (
        _text("system_prompt", _("consigne du modèle"), _("Ton et rôle, ajoutés aux règles de citation."), 20_000),
        _text("llm_model", _("modèle de langage"), _("Vide : celui de la variable LLM_MODEL."), 200, is_line=True),
        Knob("temperature", "number", _("température"), _("De 0 (constant) à 2 (libre)."), 0.2, 0.0, 2.0),
        _count("max_answer_tokens", _("longueur maximale d’une réponse"), _("En tokens."), 1024, (16, 32_000)),
        _count("context_tokens", _("fenêtre du modèle"), _("En tokens, si le serveur ne la dit pas."), 0, (0, 10**7)),
        _switch(
            "generate_questions",
            _("questions écrites par le modèle"),
            _("En arrière-plan, faire écrire les questions auxquelles un passage répond."),
            True,
        ),
        _switch("generate_titles", _("titres par le modèle"), _("Sinon, le début de la première question."), False),
        _switch(
            "api_source_lines",
            _("sources écrites dans les réponses de l’API"),
            _("À la fin du texte de /v1, pour les logiciels qui n’affichent que lui."),
            False,
        ),
    ),
    _("Limites"): (
        _count(
            "asks_per_minute_user",
            _("questions par minute et par personne"),
            _("Utilisateur connecté, ou visiteur. 0 : sans limite."),
            30,
            (0, 100_000),
        ),
        _count(
            "asks_per_minute_key", _("questions par minute et par clé d’API"), _("0 : sans limite."), 120, (0, 100_000)
        ),
        _count(
            "asks_per_minute_address",
            _("questions par minute et par adresse"),
            _("0 : sans limite."),
            240,
            (0, 100_000),
        ),
        _count(
            "sign_ins_per_minute",
            _("essais de connexion par minute"),
            _("Par adresse, et par nom d’utilisateur. 0 : sans limite."),
            10,
            (0, 100_000),
        ),
    ),
    _("Questions écrites"): (
        _count(
            "question_calls_per_day",
            _("appels au modèle par jour, pour écrire des questions"),
            _("Ce nombre atteint, l’écriture reprend le lendemain. 0 : sans limite."),
            5_000,
            (0, 10_000_000),
        ),
    ),
}


#: Tabs whose settings no agent and no deployment overrides.
SITE_GROUPS = (_("Limites"), _("Questions écrites"))
SITE_KNOBS = {knob.name: knob for group, knobs in GROUPS.items() for knob in knobs}
#: Every setting that an agent or a deployment may override, by name.
KNOBS = {knob.name: knob for group, knobs in GROUPS.items() if group not in SITE_GROUPS for knob in knobs}


def setting_errors(key: str, value: Any, knobs: Mapping[str, Knob] = KNOBS) -> list[str]:
    """What is wrong with one entry of a level's JSON."""
    if (knob := knobs.get(key)) is None:
        return [_("%(key)s : réglage inconnu.") % {"key": key}]
    try:
        knob.clean(value)
    except ValidationError as error:
        return [f"{key} : {message}" for message in error.messages]
    return []


def validate_settings(values: Any) -> None:
    """Require known names and valid values in a level's JSON; each error names its setting."""
    if not isinstance(values, dict):
        raise ValidationError(_("Un objet JSON est attendu."))
    errors = [message for key, value in values.items() for message in setting_errors(key, value, SITE_KNOBS)]
    if errors:
        raise ValidationError(errors)
