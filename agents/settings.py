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
            "direct_answers",
            _("réponses directes"),
            _("Répondre par une question-réponse existante quand elle correspond, sans modèle de langage."),
            True,
        ),
        _ratio(
            "direct_answer_threshold",
            _("seuil de réponse directe"),
            _("Similarité à partir de laquelle une question-réponse répond seule. Vide : profil du modèle."),
        ),
        _switch(
            "shadow_mode",
            _("mode d’observation"),
            _("Une réponse enregistrée n’est pas donnée : la trace dit seulement qu’elle l’aurait été."),
            False,
        ),
        _switch(
            "verify_answers",
            _("vérification par le modèle"),
            _(
                "Quand seuls des mots ordinaires distinguent deux questions proches, demander au modèle de langage "
                "si une même réponse convient aux deux. Jamais contre un nombre, une date, un nom ou une négation."
            ),
            False,
        ),
    ),
    _("Mémoire"): (
        _switch(
            "memory",
            _("réponses en mémoire"),
            _("Redonner une réponse déjà validée à la même question, sans modèle de langage."),
            True,
        ),
        _ratio(
            "memory_threshold",
            _("seuil de la mémoire"),
            _("Similarité à partir de laquelle une réponse en mémoire peut être redonnée. Vide : profil du modèle."),
        ),
        _count(
            "memory_max_age_days",
            _("âge maximal en mémoire"),
            _("En jours. Une réponse plus ancienne, et non confirmée depuis, n’est plus donnée."),
            180,
            (1, 36_500),
        ),
        _switch(
            "withhold_stale_answers",
            _("retenir les réponses validées à relire"),
            _(
                "Une réponse validée tirée d’un échange repasse à relire quand un de ses passages change : ne plus "
                "la donner jusqu’à sa relecture."
            ),
            True,
        ),
        _choice(
            "memory_learning",
            _("apprentissage"),
            _("Ce que deviennent les réponses rédigées par le modèle de langage."),
            MemoryLearning.REVIEW,
        ),
    ),
    _("Demande de précision"): (
        _switch(
            "clarification",
            _("demander une précision"),
            _(
                "Quand plusieurs questions enregistrées sont proches sans qu’aucune ne corresponde, demander "
                "laquelle était voulue, sans modèle de langage."
            ),
            True,
        ),
        _ratio(
            "clarification_band",
            _("bande de précision"),
            _("Écart sous le seuil de réponse directe jusqu’où une question enregistrée peut être proposée."),
            0.0,
        ),
        _ratio(
            "clarification_margin",
            _("écart entre propositions"),
            _("Une question enregistrée plus loin de la première que cet écart n’est pas proposée."),
            0.1,
        ),
    ),
    _("Pages du web"): (
        _count(
            "page_refresh_hours",
            _("relecture des pages du web"),
            _("En heures. Une adresse du web est relue à cet intervalle, sauf réglage de sa part. 0 : jamais."),
            24,
            (0, 8_760),
        ),
    ),
    _("Garde-fou"): (
        _ratio(
            "guard_rail_threshold",
            _("seuil du garde-fou"),
            _(
                "Pertinence (similarité, et mots de la question retrouvés) en dessous de laquelle la question est "
                "refusée. Vide : profil du modèle."
            ),
        ),
        _text(
            "guard_rail_message",
            _("message de refus"),
            _("Vide : que rien n’a été trouvé, ce à quoi ce service répond, et que faire."),
            2_000,
        ),
        _switch(
            "courtesies",
            _("répondre aux formules de politesse"),
            _(
                "« Bonjour », « merci », « qui es-tu ? » ou un simple « ? » reçoivent une réponse toute prête, "
                "sans recherche ni modèle de langage. Une réponse validée de nature « formule de politesse » passe "
                "avant elle."
            ),
            True,
        ),
        _text(
            "presentation",
            _("ce à quoi ce service répond"),
            _(
                "Une phrase ou deux, montrées après un bonjour et dans le message de refus. Vide : le nom du "
                "déploiement, ses documents et ses réponses validées."
            ),
            1_000,
        ),
        _text(
            "contact",
            _("à qui s’adresser"),
            _(
                "Qui peut aider, où rien n’a été trouvé : « Écrivez à accueil@exemple.fr. » Vide : personne n’est "
                "nommé."
            ),
            500,
        ),
    ),
    _("Questions sans réponse"): (
        _switch(
            "record_unanswered",
            _("garder les questions sans réponse"),
            _(
                "Les questions refusées ou signalées sont gardées, sans leur auteur, pour préparer des réponses "
                "validées."
            ),
            True,
        ),
    ),
    _("Recherche"): (
        _count(
            "match_count", _("passages recherchés"), _("Nombre de passages donnés au modèle de langage."), 6, (1, 50)
        ),
        _ratio(
            "match_threshold",
            _("similarité minimale d’un passage"),
            _("Un passage en dessous n’est pas retenu. −1 : aucun minimum."),
            -1.0,
        ),
        _count(
            "extractive_passages",
            _("passages cités sans modèle"),
            _("Nombre de passages cités quand aucun modèle de langage n’est configuré."),
            3,
            (1, 10),
        ),
        _switch(
            "show_cited_pages",
            _("montrer la page citée"),
            _(
                "Qui lit une réponse peut ouvrir la page du PDF d’où vient un passage cité, le passage surligné ; "
                "d’un document sans pages, le passage avec celui d’avant et celui d’après. Le reste n’est pas "
                "montré, et le fichier n’est jamais donné."
            ),
            True,
        ),
        _count(
            "context_exchanges",
            _("échanges de contexte"),
            _("Nombre d’échanges précédents (question et réponse) envoyés au modèle de langage."),
            3,
            (0, 50),
        ),
        _switch(
            "summarise_exchanges",
            _("résumé des échanges"),
            _(
                "Donner au modèle de langage un résumé des échanges de contexte au lieu de leur texte. Il l’écrit "
                "après chaque réponse, quand les échanges sont longs : un appel de plus."
            ),
            False,
        ),
        _switch(
            "rewrite_follow_ups",
            _("reformulation des suites"),
            _(
                "Faire reformuler par le modèle de langage une question qui s’appuie sur l’échange précédent, "
                "avant toute recherche. Sinon, elle est cherchée avec la question précédente, sans réponse "
                "enregistrée."
            ),
            True,
        ),
    ),
    _("Outils"): (
        _switch("tools_enabled", _("outils"), _("Proposer des outils au modèle de langage."), True),
        _choice(
            "tool_mode",
            _("choix des outils"),
            _("Direct jusqu’à 15 outils environ, local au-delà, externe avec Qdrant."),
            ToolMode.DIRECT,
        ),
        _count(
            "tool_top_k",
            _("outils proposés"),
            _("Nombre d’outils choisis pour une question, hors outils résidents et récents."),
            5,
            (1, 50),
        ),
        _ratio(
            "tool_threshold",
            _("seuil de choix d’un outil"),
            _("Un outil en dessous n’est pas proposé. Vide : profil du modèle d’embedding."),
        ),
        _count(
            "max_rounds",
            _("relances après outils"),
            _("Rappels du modèle après des outils, au plus, pour une question."),
            10,
            (1, 50),
        ),
        _count(
            "max_tool_calls",
            _("appels d’outils par relance"),
            _("Au-delà, les derniers appels demandés ne sont pas faits."),
            10,
            (1, 50),
        ),
        _count(
            "context_messages",
            _("messages de contexte"),
            _("Messages de la conversation envoyés au modèle, au plus, quand il a des outils."),
            25,
            (2, 500),
        ),
        _count(
            "history_messages",
            _("messages d’historique"),
            _("Messages de la conversation relus, au plus, quand le modèle a des outils."),
            50,
            (2, 1_000),
        ),
    ),
    _("Modèle de langage"): (
        _text(
            "system_prompt",
            _("consigne du modèle"),
            _("Ton et rôle, ajoutés aux règles de citation. Vide : aucune consigne particulière."),
            20_000,
        ),
        _text(
            "llm_model",
            _("modèle de langage"),
            _("Vide : le modèle de la variable d’environnement LLM_MODEL."),
            200,
            is_line=True,
        ),
        Knob("temperature", "number", _("température"), _("De 0 (constant) à 2 (libre)."), 0.2, 0.0, 2.0),
        _count(
            "max_answer_tokens",
            _("longueur maximale d’une réponse"),
            _("En tokens, pour une réponse du modèle de langage."),
            1024,
            (16, 32_000),
        ),
        _count("context_tokens", _("fenêtre du modèle"), _("En tokens, si le serveur ne la dit pas."), 0, (0, 10**7)),
        _switch(
            "generate_questions",
            _("questions écrites par le modèle"),
            _(
                "Après l’indexation, en arrière-plan, faire écrire par le modèle de langage les questions "
                "auxquelles un passage répond, dans la limite du budget du site."
            ),
            True,
        ),
        _switch(
            "generate_titles",
            _("titres par le modèle"),
            _("Sinon, le titre d’une conversation est le début de sa première question."),
            False,
        ),
        _switch(
            "api_source_lines",
            _("sources écrites dans les réponses de l’API"),
            _(
                "Ajouter la liste des sources à la fin du texte rendu par /v1, pour les logiciels qui n’affichent "
                "que lui."
            ),
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
            _("Toutes les personnes derrière une même adresse, sauf les clés d’API. 0 : sans limite."),
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
            _(
                "Les questions des passages sont écrites après l’indexation, en arrière-plan. Ce nombre atteint, "
                "l’écriture reprend le lendemain. 0 : sans limite."
            ),
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
