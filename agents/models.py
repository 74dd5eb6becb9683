"""Agents, their deployments, and the settings staff may change, at three levels.

`RuntimeSettings` is the one home of every knob: its fields, defaults and help texts. `Agent` repeats each knob as an
optional field and `Deployment.config_overlay` may hold any of them by name; `agents.effective` resolves the three.
Nothing else reads a knob.
"""

import hashlib
import secrets
from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, URLValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents.face import style_of, validate_accent, worded


class IndexingMethod(models.TextChoices):
    """How chunks become points (seed 001, section 4.1)."""

    QA_ATOMIC = "qr_atomique", _("Q/R Atomique")
    LEGACY = "legacy", _("Classique (legacy)")

    @property
    def description(self) -> str:
        return str(_INDEXING_METHOD_DESCRIPTIONS[self.value])


_INDEXING_METHOD_DESCRIPTIONS = {
    "qr_atomique": _(
        "Génère des paires Question/Réponse pour chaque chunk + un point source. Optimal pour les FAQ et documentation."
    ),
    "legacy": _("Indexation simple du contenu brut. Pour la rétrocompatibilité."),
}


class MemoryLearning(models.TextChoices):
    """What becomes of an answer that the model wrote (seed 000, section 5)."""

    OFF = "off", _("Ne rien retenir")
    REVIEW = "review", _("Retenir, après relecture")
    VALID = "valid", _("Retenir tout de suite")


def _ratio(label: Any, help_text: Any, *, default: float | None = None) -> "models.FloatField[Any, Any]":
    """A similarity; one without a default may be left empty."""
    options = {"null": True, "blank": True} if default is None else {"default": default}
    return models.FloatField(
        label, help_text=help_text, validators=[MinValueValidator(-1.0), MaxValueValidator(1.0)], **options
    )


def _count(
    label: Any, help_text: Any, *, default: int, within: tuple[int, int], since_first_release: bool = False
) -> Any:
    """`since_first_release`: added to a published table, so that the database knows the default, too."""
    least, most = within
    options: dict[str, Any] = {"db_default": default} if since_first_release else {}
    return models.PositiveIntegerField(
        label,
        help_text=help_text,
        default=default,
        validators=[MinValueValidator(least), MaxValueValidator(most)],
        **options,
    )


def _money(label: Any, help_text: Any) -> Any:
    """An amount in the currency of the site's prices, which is not named anywhere."""
    return models.DecimalField(
        label,
        help_text=help_text,
        max_digits=12,
        decimal_places=4,
        default=Decimal(0),
        db_default=Decimal(0),
        validators=[MinValueValidator(0)],
    )


class ToolMode(models.TextChoices):
    """How the tools of a question are chosen (seed 003)."""

    DIRECT = "direct", _("Direct : tous les outils permis")
    LOCAL = "local", _("Local : les plus proches, index en base")
    EXTERNAL = "external", _("Externe : les plus proches, base vectorielle")


class CategoryUse(models.TextChoices):
    """What a search does with the category that its passages agree on."""

    INFORM = "off", _("Informer seulement")
    BOOST = "boost", _("Favoriser cette catégorie")
    FILTER = "filter", _("Ne garder que cette catégorie")


class RuntimeSettings(models.Model):
    """Site-wide defaults: one row. A threshold left empty comes from the embedding model's measured profile."""

    direct_answers = models.BooleanField(
        _("réponses directes"),
        default=True,
        help_text=_("Répondre par une question-réponse existante quand elle correspond, sans modèle de langage."),
    )
    direct_answer_threshold = _ratio(
        _("seuil de réponse directe"),
        _("Similarité à partir de laquelle une question-réponse répond seule. Vide : profil du modèle."),
    )
    shadow_mode = models.BooleanField(
        _("mode d’observation"),
        default=False,
        help_text=_("Une réponse enregistrée n’est pas donnée : la trace dit seulement qu’elle l’aurait été."),
    )
    verify_answers = models.BooleanField(
        _("vérification par le modèle"),
        default=False,
        help_text=_(
            "Quand seuls des mots ordinaires distinguent deux questions proches, demander au modèle de langage si "
            "une même réponse convient aux deux. Jamais contre un nombre, une date, un nom ou une négation."
        ),
    )
    memory = models.BooleanField(
        _("réponses en mémoire"),
        default=True,
        help_text=_("Redonner une réponse déjà validée à la même question, sans modèle de langage."),
    )
    memory_threshold = _ratio(
        _("seuil de la mémoire"),
        _("Similarité à partir de laquelle une réponse en mémoire peut être redonnée. Vide : profil du modèle."),
    )
    memory_max_age_days = _count(
        _("âge maximal en mémoire"),
        _("En jours. Une réponse plus ancienne, et non confirmée depuis, n’est plus donnée."),
        default=180,
        within=(1, 36_500),
    )
    memory_auto_prune = models.BooleanField(
        _("purge automatique de la mémoire"),
        default=True,
        help_text=_("Supprimer les réponses trop anciennes quand une question les rencontre."),
    )
    withhold_stale_answers = models.BooleanField(
        _("retenir les réponses validées à relire"),
        default=True,
        db_default=True,
        help_text=_(
            "Une réponse validée tirée d’un échange repasse à relire quand un de ses passages change : ne plus la donner "
            "jusqu’à sa relecture."
        ),
    )
    memory_learning = models.CharField(
        _("apprentissage"),
        max_length=20,
        choices=MemoryLearning.choices,
        default=MemoryLearning.REVIEW,
        help_text=_("Ce que deviennent les réponses rédigées par le modèle de langage."),
    )
    clarification = models.BooleanField(
        _("demander une précision"),
        default=True,
        help_text=_(
            "Quand plusieurs questions enregistrées sont proches sans qu’aucune ne corresponde, demander laquelle était "
            "voulue, sans modèle de langage."
        ),
    )
    clarification_band = _ratio(
        _("bande de précision"),
        _("Écart sous le seuil de réponse directe jusqu’où une question enregistrée peut être proposée."),
        default=0.0,
    )
    clarification_margin = _ratio(
        _("écart entre propositions"),
        _("Une question enregistrée plus loin de la première que cet écart n’est pas proposée."),
        default=0.1,
    )
    dispatch_margin = _ratio(
        _("avance du spécialiste"),
        _(
            "Quand un déploiement a plusieurs agents : avance que le plus proche doit avoir sur les autres pour répondre ; "
            "sinon l’agent par défaut répond. Vide : mesure du modèle d’embedding."
        ),
    )
    page_refresh_hours = _count(
        _("relecture des pages du web"),
        _("En heures. Une adresse du web est relue à cet intervalle, sauf réglage de sa part. 0 : jamais."),
        default=24,
        within=(0, 8_760),
    )
    gone_page_checks = _count(
        _("relectures avant de désactiver une page disparue"),
        _("Une page introuvable autant de fois de suite ne sert plus à répondre. 0 : elle reste."),
        default=3,
        within=(0, 100),
    )
    guard_rail_threshold = _ratio(
        _("seuil du garde-fou"),
        _(
            "Pertinence (similarité, et mots de la question retrouvés) en dessous de laquelle la question est refusée "
            "comme hors domaine. Vide : profil du modèle."
        ),
    )
    guard_rail_message = models.TextField(
        _("message hors domaine"),
        blank=True,
        default="",
        max_length=2_000,
        help_text=_("Vide : que rien n’a été trouvé, ce à quoi ce service répond, et que faire."),
    )
    courtesies = models.BooleanField(
        _("répondre aux formules de politesse"),
        default=True,
        db_default=True,
        help_text=_(
            "« Bonjour », « merci », « qui es-tu ? » ou un simple « ? » reçoivent une réponse toute prête, sans recherche ni "
            "modèle de langage. Une réponse validée de nature « formule de politesse » passe avant elle."
        ),
    )
    presentation = models.TextField(
        _("ce à quoi ce service répond"),
        blank=True,
        default="",
        db_default="",
        max_length=1_000,
        help_text=_(
            "Une phrase ou deux, montrées après un bonjour et dans le message hors domaine. Vide : le nom du déploiement, ses "
            "documents et ses réponses validées."
        ),
    )
    contact = models.TextField(
        _("à qui s’adresser"),
        blank=True,
        default="",
        db_default="",
        max_length=500,
        help_text=_(
            "Qui peut aider, où rien n’a été trouvé : « Écrivez à accueil@exemple.fr. » Vide : personne n’est nommé."
        ),
    )
    record_unanswered = models.BooleanField(
        _("garder les questions sans réponse"),
        default=True,
        help_text=_(
            "Les questions refusées ou mal répondues sont gardées, sans leur auteur, pour préparer des réponses validées."
        ),
    )
    unanswered_threshold = _ratio(
        _("seuil des questions sans réponse"),
        _(
            "En dessous, une réponse tirée des documents compte comme question sans réponse. Vide : à mi-chemin "
            "entre le garde-fou et la réponse directe."
        ),
    )
    match_count = _count(
        _("passages recherchés"), _("Nombre de passages donnés au modèle de langage."), default=6, within=(1, 50)
    )
    match_threshold = _ratio(
        _("similarité minimale d’un passage"),
        _("Un passage en dessous n’est pas retenu. −1 : aucun minimum."),
        default=-1.0,
    )
    category_use = models.CharField(
        _("catégorie détectée"),
        max_length=20,
        choices=CategoryUse.choices,
        default=CategoryUse.INFORM,
        db_default=CategoryUse.INFORM,
        help_text=_(
            "Ce que la recherche fait de la catégorie sur laquelle les passages s’accordent. Mesuré sur 736 questions "
            "(CNIL, service-public.fr), la réponse est parmi les 5 premiers passages en informant (79,2 %), en favorisant "
            "(79,6 %), en filtrant (78,7 %)."
        ),
    )
    extractive_passages = _count(
        _("passages cités sans modèle"),
        _("Nombre de passages cités quand aucun modèle de langage n’est configuré."),
        default=3,
        within=(1, 10),
    )
    show_cited_pages = models.BooleanField(
        _("montrer la page citée"),
        default=True,
        db_default=True,
        help_text=_(
            "Qui lit une réponse peut ouvrir la page du PDF d’où vient un passage cité, le passage surligné ; d’un document "
            "sans pages, le passage avec celui d’avant et celui d’après. Le reste n’est pas montré, et le fichier n’est jamais donné."
        ),
    )
    context_exchanges = _count(
        _("échanges de contexte"),
        _("Nombre d’échanges précédents (question et réponse) envoyés au modèle de langage."),
        default=3,
        within=(0, 50),
    )
    summarise_exchanges = models.BooleanField(
        _("résumé des échanges"),
        default=False,
        help_text=_(
            "Donner au modèle de langage un résumé des échanges de contexte au lieu de leur texte. Il l’écrit après "
            "chaque réponse, quand les échanges sont longs : un appel de plus."
        ),
    )
    rewrite_follow_ups = models.BooleanField(
        _("reformulation des suites"),
        default=True,
        help_text=_(
            "Faire reformuler par le modèle de langage une question qui s’appuie sur l’échange précédent, avant toute "
            "recherche. Sinon, elle est cherchée avec la question précédente, sans réponse enregistrée."
        ),
    )
    tools_enabled = models.BooleanField(
        _("outils"), default=True, help_text=_("Proposer des outils au modèle de langage.")
    )
    tool_mode = models.CharField(
        _("choix des outils"),
        max_length=20,
        choices=ToolMode.choices,
        default=ToolMode.DIRECT,
        help_text=_("Direct jusqu’à 15 outils environ, local au-delà, externe avec Qdrant."),
    )
    tool_top_k = _count(
        _("outils proposés"),
        _("Nombre d’outils choisis pour une question, hors outils résidents et récents."),
        default=5,
        within=(1, 50),
    )
    tool_threshold = _ratio(
        _("seuil de choix d’un outil"), _("Un outil en dessous n’est pas proposé. Vide : profil du modèle d’embedding.")
    )
    tool_recent_calls = _count(
        _("fenêtre des outils récents"),
        _("Les outils des derniers appels de la conversation, autant que ce nombre, restent proposés. 0 : aucun."),
        default=10,
        within=(0, 100),
        since_first_release=True,
    )
    max_rounds = _count(
        _("relances après outils"),
        _("Rappels du modèle après des outils, au plus, pour une question."),
        default=10,
        within=(1, 50),
    )
    max_tool_calls = _count(
        _("appels d’outils par relance"),
        _("Au-delà, les derniers appels demandés ne sont pas faits."),
        default=10,
        within=(1, 50),
    )
    saturation = _count(
        _("relances sans progrès"),
        _("Après autant de relances aux mêmes appels ou aux mêmes résultats, la boucle s’arrête."),
        default=3,
        within=(2, 50),
    )
    context_messages = _count(
        _("messages de contexte"),
        _("Messages de la conversation envoyés au modèle, au plus, quand il a des outils."),
        default=25,
        within=(2, 500),
    )
    history_messages = _count(
        _("messages d’historique"),
        _("Messages de la conversation relus, au plus, quand le modèle a des outils."),
        default=50,
        within=(2, 1_000),
    )
    system_prompt = models.TextField(
        _("consigne du modèle"),
        blank=True,
        default="",
        max_length=20_000,
        help_text=_("Ton et rôle, ajoutés aux règles de citation. Vide : aucune consigne particulière."),
    )
    llm_model = models.CharField(
        _("modèle de langage"),
        max_length=200,
        blank=True,
        default="",
        help_text=_("Vide : le modèle de la variable d’environnement LLM_MODEL."),
    )
    temperature = models.FloatField(
        _("température"),
        default=0.2,
        validators=[MinValueValidator(0.0), MaxValueValidator(2.0)],
        help_text=_("De 0 (constant) à 2 (libre)."),
    )
    max_answer_tokens = _count(
        _("longueur maximale d’une réponse"),
        _("En tokens, pour une réponse du modèle de langage."),
        default=1024,
        within=(16, 32_000),
    )
    generate_questions = models.BooleanField(
        _("questions écrites par le modèle"),
        default=True,
        help_text=_(
            "Après l’indexation, en arrière-plan, faire écrire par le modèle de langage les questions auxquelles un passage "
            "répond, dans la limite du budget du site."
        ),
    )
    generate_titles = models.BooleanField(
        _("titres par le modèle"),
        default=False,
        help_text=_("Sinon, le titre d’une conversation est le début de sa première question."),
    )
    api_source_lines = models.BooleanField(
        _("sources écrites dans les réponses de l’API"),
        default=False,
        help_text=_(
            "Ajouter la liste des sources à la fin du texte rendu par /v1, pour les logiciels qui n’affichent que lui."
        ),
    )

    # Of the site alone: who asks too much does so whichever the deployment.
    asks_per_minute_user = _count(
        _("questions par minute et par personne"),
        _("Utilisateur connecté, ou visiteur. 0 : sans limite."),
        default=30,
        within=(0, 100_000),
    )
    asks_per_minute_key = _count(
        _("questions par minute et par clé d’API"), _("0 : sans limite."), default=120, within=(0, 100_000)
    )
    asks_per_minute_address = _count(
        _("questions par minute et par adresse"),
        _("Toutes les personnes derrière une même adresse, sauf les clés d’API. 0 : sans limite."),
        default=240,
        within=(0, 100_000),
    )
    sign_ins_per_minute = _count(
        _("essais de connexion par minute"),
        _("Par adresse, et par nom d’utilisateur. 0 : sans limite."),
        default=10,
        within=(0, 100_000),
    )
    # Of the site alone as well: one account pays for the questions of every agent.
    question_calls_per_day = _count(
        _("appels au modèle par jour, pour écrire des questions"),
        _(
            "Les questions des passages sont écrites après l’indexation, en arrière-plan. Ce nombre atteint, l’écriture reprend "
            "le lendemain. 0 : sans limite."
        ),
        default=5_000,
        within=(0, 10_000_000),
        since_first_release=True,
    )
    prompt_price = _money(
        _("prix d’un million de tokens lus par le modèle"),
        _("Celui de votre fournisseur. 0 : gratuit, un modèle sur vos machines par exemple."),
    )
    completion_price = _money(_("prix d’un million de tokens écrits par le modèle"), _("Dans la même monnaie."))
    #: How many calls may write questions, and at which prices answers are counted.
    QUESTION_BUDGET: ClassVar = ("question_calls_per_day", "prompt_price", "completion_price")
    READER_LIMITS: ClassVar = (
        "asks_per_minute_user",
        "asks_per_minute_key",
        "asks_per_minute_address",
        "sign_ins_per_minute",
    )
    #: Fields that no agent or deployment overrides.
    SITE_ONLY: ClassVar = (*READER_LIMITS, *QUESTION_BUDGET)

    class Meta:
        verbose_name = _("réglages du site")
        verbose_name_plural = _("réglages du site")
        constraints: ClassVar = [models.CheckConstraint(condition=models.Q(pk=1), name="runtime_settings_one_row")]

    def __str__(self) -> str:
        return str(_("Réglages du site"))

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.pk = 1
        super().save(*args, **kwargs)

    @classmethod
    def load(cls) -> "RuntimeSettings":
        """The stored row, or the defaults where none has been saved yet."""
        return cls.objects.filter(pk=1).first() or cls(pk=1)

    @classmethod
    def knobs(cls) -> "dict[str, models.Field[Any, Any]]":
        """Every setting that an agent or a deployment may override, by name."""
        return {
            field.name: field
            for field in cls._meta.concrete_fields
            if not field.primary_key and field.name not in cls.SITE_ONLY
        }


def _inheritable(knob: "models.Field[Any, Any]") -> "models.Field[Any, Any]":
    """A copy of a site-wide knob in which empty means: inherit."""
    copy = knob.clone()
    copy.null, copy.blank, copy.default = True, True, None
    copy.db_default = models.NOT_PROVIDED
    return copy


class Agent(models.Model):
    """A persona with documents of its own. Each knob of `RuntimeSettings` is also a field here; empty inherits."""

    slug = models.SlugField(_("identifiant"), unique=True, max_length=80)
    name = models.CharField(_("nom"), max_length=200)
    description = models.TextField(
        _("description"),
        blank=True,
        default="",
        help_text=_("Ce que cet agent sait ; montrée sur la page de conversation."),
    )
    indexing_method = models.CharField(
        _("méthode d’indexation"), max_length=20, choices=IndexingMethod.choices, default=IndexingMethod.QA_ATOMIC
    )
    created_at = models.DateTimeField(_("créé le"), auto_now_add=True)

    class Meta:
        verbose_name = _("agent")
        verbose_name_plural = _("agents")
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    def methods_in_use(self) -> set[IndexingMethod]:
        """Every method that this agent or one of its deployments reads: each has a collection of its own."""
        return (
            {IndexingMethod(self.indexing_method)}
            | {deployment.effective_indexing_method for deployment in self.deployments.all()}
            | {specialist.deployment.method_of(self) for specialist in self.specialties.select_related("deployment")}
        )


for _name, _knob in RuntimeSettings.knobs().items():
    Agent.add_to_class(_name, _inheritable(_knob))


class Audience(models.TextChoices):
    PUBLIC = "public", _("Tout le monde")
    SIGNED_IN = "signed_in", _("Utilisateurs connectés")
    GROUPS = "groups", _("Certains groupes")


def new_public_key() -> str:
    """Names a deployment to the widget. It stands in the pages of other sites, so it is no secret and opens nothing
    alone.
    """
    return f"rpk_{secrets.token_urlsafe(18)}"


def valid_origin(text: str) -> str:
    """`https://www.example.org[:port]`, in lower case; raises where it is none (a path, a wildcard, no host)."""
    try:
        parts = urlsplit(text.strip().lower())
        usual = {"http": 80, "https": 443}.get(parts.scheme)
        port = f":{parts.port}" if parts.port not in (None, usual) else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    host = parts.hostname or ""
    is_whole = parts.scheme in ("http", "https") and not (parts.path.strip("/") or parts.query)
    # What goes into a header of the page: nothing there may end a directive or name every host.
    plain = host.isascii() and all(letter.isalnum() or letter in ".-:" for letter in host)
    if not host or not is_whole or not plain or "@" in parts.netloc or parts.fragment:
        raise ValidationError(
            _("« %(text)s » n’est pas une origine. Exemple : https://www.example.org"),
            params={"text": text.strip()[:100]},
        )
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def validate_origins(text: str) -> None:
    """One origin a line."""
    for line in text.split():
        valid_origin(line)


class Logo(models.Model):
    """A logo under the hash of its bytes, so that browsers keep it for ever. A replaced one stays: the journal may
    bring it back.
    """

    digest = models.CharField(_("empreinte"), primary_key=True, max_length=64)
    png = models.BinaryField(_("image"))

    class Meta:
        verbose_name = _("logo")
        verbose_name_plural = _("logos")

    def __str__(self) -> str:
        return self.digest[:12]

    @classmethod
    def of(cls, png: bytes) -> "Logo":
        logo, _is_new = cls.objects.get_or_create(digest=hashlib.sha256(png).hexdigest(), defaults={"png": png})
        return logo


def _words(label: Any, help_text: Any, most: int) -> "models.TextField[Any, Any]":
    return models.TextField(label, blank=True, default="", db_default="", max_length=most, help_text=help_text)


class Deployment(models.Model):
    """Where an agent is offered, to whom, and with which settings of its own."""

    slug = models.SlugField(_("identifiant"), unique=True, max_length=80)
    name = models.CharField(_("nom"), max_length=200)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="deployments", verbose_name=_("agent"))
    welcome = models.TextField(_("message d’accueil"), blank=True, default="", help_text=_("Montré sur une page vide."))
    suggestions = models.TextField(_("questions proposées"), blank=True, default="", help_text=_("Une par ligne."))
    # A site's own face (`agents.face`).
    name_en = _words(_("nom en anglais"), _("Vide : le nom."), 200)
    welcome_en = _words(_("message d’accueil en anglais"), _("Vide : le message d’accueil."), 2_000)
    organisation = _words(
        _("organisme"), _("« Rédigée par … », sous une réponse, le nomme. Vide : le modèle de langage."), 120
    )
    accent = models.CharField(
        _("couleur"),
        max_length=7,
        blank=True,
        default="",
        db_default="",
        validators=[validate_accent],
        help_text=_(
            "Des boutons et des liens, sur papier clair : #rrvvbb, assez foncée pour être lue. Celle du thème sombre en est "
            "tirée. Vide : celle de Répondant."
        ),
    )
    logo = models.ForeignKey(Logo, models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("logo"))
    notice = _words(
        _("mention sous la question"),
        _("Vie privée, conditions : une phrase ou deux, sous le champ de la question."),
        500,
    )
    notice_en = _words(_("mention en anglais"), _("Vide : la mention."), 500)
    legal_url = models.CharField(
        _("mentions légales"),
        max_length=500,
        blank=True,
        default="",
        db_default="",
        validators=[URLValidator(["http", "https"])],
        help_text=_("Adresse de la page à laquelle mène la mention. Vide : pas de lien."),
    )
    audience = models.CharField(_("public"), max_length=20, choices=Audience.choices, default=Audience.PUBLIC)
    groups = models.ManyToManyField(Group, blank=True, verbose_name=_("groupes"))
    is_active = models.BooleanField(_("actif"), default=True)
    public_key = models.CharField(
        _("clé publique"),
        max_length=60,
        unique=True,
        default=new_public_key,
        editable=False,
        help_text=_("Nomme ce déploiement dans la balise du widget. Elle n’est pas secrète."),
    )
    allowed_origins = models.TextField(
        _("sites autorisés"),
        blank=True,
        default="",
        validators=[validate_origins],
        help_text=_("Sites qui peuvent afficher le widget, un par ligne : https://www.example.org. Vide : aucun."),
    )
    config_overlay = models.JSONField(
        _("réglages propres"),
        blank=True,
        default=dict,
        help_text=_("Réglages qui l’emportent sur ceux de l’agent et du site."),
    )
    created_at = models.DateTimeField(_("créé le"), auto_now_add=True)

    class Meta:
        verbose_name = _("déploiement")
        verbose_name_plural = _("déploiements")
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def shown_name(self) -> str:
        return worded(self.name, self.name_en)

    @property
    def shown_welcome(self) -> str:
        return worded(self.welcome, self.welcome_en)

    @property
    def shown_notice(self) -> str:
        return worded(self.notice, self.notice_en)

    @property
    def style(self) -> str:
        return style_of(self.accent)

    @property
    def effective_indexing_method(self) -> IndexingMethod:
        """The overlay's method, or the agent's where it has none or an unknown one (seed 001, section 4.4)."""
        return self.method_of(self.agent)

    def method_of(self, agent: Agent) -> IndexingMethod:
        """The method that one of this deployment's agents is searched by."""
        overlay = self.config_overlay.get("indexing_method")
        if overlay in IndexingMethod.values:
            return IndexingMethod(overlay)
        return IndexingMethod(agent.indexing_method)

    @property
    def origins(self) -> list[str]:
        """The sites that may show the widget, as browsers write them; what a script left malformed is no site."""
        found = []
        for line in self.allowed_origins.split():
            try:
                found.append(valid_origin(line))
            except ValidationError:
                continue
        return found

    def clean(self) -> None:
        """Known keys with valid values only; each error names its key."""
        if not isinstance(self.config_overlay, dict):
            raise ValidationError({"config_overlay": _("Un objet JSON est attendu.")})
        errors = [message for key, value in self.config_overlay.items() for message in overlay_errors(key, value)]
        if errors:
            raise ValidationError({"config_overlay": errors})


class Specialist(models.Model):
    """A further agent of a deployment, beside its own, which is the default one."""

    deployment = models.ForeignKey(
        Deployment, on_delete=models.CASCADE, related_name="specialists", verbose_name=_("déploiement")
    )
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="specialties", verbose_name=_("agent"))
    position = models.PositiveSmallIntegerField(_("rang"), default=0, help_text=_("À score égal, le premier répond."))

    class Meta:
        verbose_name = _("autre agent")
        verbose_name_plural = _("autres agents")
        ordering: ClassVar = ["position", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["deployment", "agent"], name="one_place_per_agent_and_deployment")
        ]

    def __str__(self) -> str:
        return f"{self.deployment} · {self.agent}"

    def clean(self) -> None:
        if self.agent_id is not None and self.agent_id == self.deployment.agent_id:
            raise ValidationError({"agent": _("C’est déjà l’agent par défaut de ce déploiement.")})


def overlay_errors(key: str, value: Any) -> list[str]:
    """What is wrong with one entry of `config_overlay`."""
    if key == "indexing_method":
        if value in IndexingMethod.values:
            return []
        return [_("indexing_method : « %(value)s » n’est pas une méthode connue.") % {"value": value}]
    knob = RuntimeSettings.knobs().get(key)
    if knob is None:
        return [_("%(key)s : réglage inconnu.") % {"key": key}]
    try:
        knob.clean(value, None)
    except ValidationError as error:
        return [f"{key} : {message}" for message in error.messages]
    return []


# --- Who of the staff may do what ------------------------------------------------------------------------------------


class Role(models.Model):
    """A ready-made role (`agents.staff.roles`): its group, and the rights it was ever given. Neither a right that a
    site took away nor a group that it deleted is made anew.
    """

    code = models.CharField(max_length=30, primary_key=True)
    group = models.OneToOneField(Group, null=True, on_delete=models.SET_NULL, related_name="role")
    given = models.JSONField(default=list)

    class Meta:
        default_permissions = ()
        verbose_name = _("rôle")
        verbose_name_plural = _("rôles")

    def __str__(self) -> str:
        return self.code


class AgentLimit(models.Model):
    """That a person, or a group's members, work on these agents only (`agents.staff.scope`); on none where it names
    none.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    group = models.OneToOneField(Group, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    agents = models.ManyToManyField(Agent, blank=True, related_name="+", verbose_name=_("agents"))

    class Meta:
        verbose_name = _("limite à des agents")
        verbose_name_plural = _("limites à des agents")
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(user=None) ^ models.Q(group=None), name="limit_of_one")
        ]

    def __str__(self) -> str:
        return str(self.user or self.group)


# --- Work ------------------------------------------------------------------------------------------------------------


class JobKind(models.TextChoices):
    """Every kind of work that is not done while somebody waits for a page; `settings.JOBS` names what carries each out."""

    #: Every few seconds: what a dead process left is taken up again, and what is due is begun.
    RECOVER = "recover", _("Reprise des travaux")
    #: Every night: what is past its time is deleted.
    RETENTION = "retention", _("Nettoyage")
    #: After that: the figures of the days that are over.
    FIGURES = "figures", _("Compte des jours")
    #: No work: a worker that lives holds this row.
    WORKER = "worker", _("Worker")
    #: No work: what readiness writes to see that the database can be written.
    PROBE = "probe", _("Sonde d’écriture")


class JobStatus(models.TextChoices):
    QUEUED = "queued", _("En attente")
    RUNNING = "running", _("En cours")
    DONE = "done", _("Terminé")
    #: It ran to its end, and a part of it failed.
    PARTLY_FAILED = "partly_failed", _("En partie en échec")
    FAILED = "failed", _("En échec")
    CANCELLED = "cancelled", _("Annulé")


#: What staff and monitoring count as failed.
JOB_FAILURES = (JobStatus.FAILED, JobStatus.PARTLY_FAILED)
OPEN_JOBS = (JobStatus.QUEUED, JobStatus.RUNNING)
#: What staff may have tried again.
GIVEN_UP_JOBS = (*JOB_FAILURES, JobStatus.CANCELLED)


class JobQuerySet(models.QuerySet["Job"]):
    def due(self) -> Self:
        """Queued jobs that a worker could begin now."""
        return self.filter(Q(not_before=None) | Q(not_before__lte=timezone.now()), status=JobStatus.QUEUED)

    def expired(self) -> Self:
        """Running jobs whose process no longer renews its lease."""
        running = self.filter(status=JobStatus.RUNNING, lease_expires_at__lt=timezone.now())
        return running.exclude(kind=JobKind.WORKER)

    def claim(self, pk: int, owner: str) -> bool:
        """Take a job that is due, or one whose lease ran out; one winner however many try at once."""
        now = timezone.now()
        free = (self.due() | self.expired()).filter(pk=pk)
        return bool(
            free.update(
                status=JobStatus.RUNNING,
                lease_owner=owner,
                lease_expires_at=now + timedelta(seconds=settings.JOB_LEASE_SECONDS),
                attempts=F("attempts") + 1,
                started_at=now,
                finished_at=None,
                not_before=None,
                error="",
            )
        )

    def renew(self, pk: int, owner: str) -> bool:
        """Extend the lease; `False` where the job is not this owner's any more."""
        expires = timezone.now() + timedelta(seconds=settings.JOB_LEASE_SECONDS)
        return bool(self.filter(pk=pk, lease_owner=owner, status=JobStatus.RUNNING).update(lease_expires_at=expires))


class Job(models.Model):
    """Work as a row: what to do, which process holds it until when, how far it is, what came out (`agents.jobs`)."""

    kind = models.CharField(_("travail"), max_length=20, choices=JobKind.choices)
    #: What it is about. Of one kind and key one job is open at a time; without a key, any number.
    key = models.CharField(max_length=200, blank=True, default="", editable=False)
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="jobs", verbose_name=_("agent")
    )
    payload = models.JSONField(default=dict, blank=True, editable=False)
    #: Raised by everybody who asks for it while it is open: it runs once more where it was raised during a run.
    asked = models.PositiveIntegerField(default=1, editable=False)
    status = models.CharField(_("état"), max_length=20, choices=JobStatus.choices, default=JobStatus.QUEUED)
    #: What `done` and `total` count now, and since when.
    phase = models.CharField(_("étape"), max_length=20, blank=True, default="")
    phase_started_at = models.DateTimeField(null=True, blank=True, editable=False)
    done = models.PositiveIntegerField(_("fait"), default=0)
    total = models.PositiveIntegerField(_("à faire"), default=0)
    report = models.JSONField(_("bilan"), default=dict, blank=True)
    error = models.TextField(_("erreur"), blank=True, default="")
    attempts = models.PositiveSmallIntegerField(_("essais"), default=0)
    lease_owner = models.CharField(max_length=200, blank=True, default="", editable=False)
    lease_expires_at = models.DateTimeField(null=True, blank=True, editable=False)
    #: When the next attempt, or the next run, may begin.
    not_before = models.DateTimeField(_("prochain essai"), null=True, blank=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        verbose_name=_("demandé par"),
    )
    created_at = models.DateTimeField(_("demandé le"), auto_now_add=True)
    started_at = models.DateTimeField(_("commencé le"), null=True, blank=True)
    finished_at = models.DateTimeField(_("fini le"), null=True, blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        verbose_name = _("travail")
        verbose_name_plural = _("travaux")
        ordering: ClassVar = ["-created_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["kind", "key"],
                condition=Q(status__in=["queued", "running"]) & ~Q(key=""),
                name="one_open_job_of_a_key",
            )
        ]
        indexes: ClassVar = [models.Index(fields=["status", "kind"])]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} · {self.agent}" if self.agent else self.get_kind_display()
