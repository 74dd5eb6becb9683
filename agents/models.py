"""Agents, their deployments, and what each level of settings stores.

`agents.settings` is the table of knobs; `agents.effective` resolves the levels. Nothing else reads a setting.
"""

import hashlib
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Self, TypeVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents.branding import style_of, validate_accent, worded
from agents.settings import SITE_KNOBS, Knobs, declared, knob, validate_settings


class IndexingMethod(models.TextChoices):
    """How chunks become points (seed 001, section 4.1)."""

    QA_ATOMIC = "qr_atomique", _("Q/R Atomique")
    LEGACY = "legacy", _("Classique (legacy)")

    @property
    def description(self) -> Any:
        if self is IndexingMethod.LEGACY:
            return _("Indexation simple du contenu brut. Pour la rétrocompatibilité.")
        return _(
            "Génère des paires Question/Réponse pour chaque chunk + un point source. "
            "Optimal pour les FAQ et documentation."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayKnobs:
    """What a deployment alone overrides, of its agent's columns."""

    indexing_method: str = knob(_("Méthode d’indexation"), "", IndexingMethod.QA_ATOMIC, tab=_("Indexation"))


OVERLAY_KNOBS = declared(OverlayKnobs, Knobs)


class RuntimeSettings(models.Model):
    """What the site sets for all agents, and what the program notes of it: one row."""

    values = models.JSONField(_("réglages"), blank=True, default=dict, validators=[validate_settings])
    #: Every change of the tools replaces it (`tools_registry.models`); processes compare it with what they hold.
    tools_version = models.CharField(max_length=32, default="", db_default="", editable=False)
    #: The last day on which a model wrote questions, and how many calls that took so far.
    questions_day = models.DateField(null=True, editable=False)
    questions_calls = models.PositiveIntegerField(default=0, db_default=0, editable=False)

    class Meta:
        verbose_name = _("réglages du site")
        verbose_name_plural = _("réglages du site")
        constraints: ClassVar = [models.CheckConstraint(condition=models.Q(pk=1), name="runtime_settings_one_row")]

    def __str__(self) -> str:
        return str(_("Réglages du site"))

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Only what staff set: never what the program has noted meanwhile."""
        self.pk = 1
        self.noted()
        super().save(update_fields=["values"])

    @classmethod
    def load(cls) -> "RuntimeSettings":
        """The stored row, or an empty one where none has been saved yet."""
        return cls.objects.filter(pk=1).first() or cls(pk=1)

    @classmethod
    def noted(cls) -> "models.QuerySet[RuntimeSettings]":
        """The stored row, for what the program notes; made where none has been saved yet."""
        row = cls.objects.filter(pk=1)
        if not row.exists():
            RuntimeSettings.objects.bulk_create([RuntimeSettings(pk=1)], ignore_conflicts=True)
        return row

    def get(self, name: str) -> Any:
        """The site's value of a setting, else the default."""
        value = self.values.get(name)
        return SITE_KNOBS[name].default if value in (None, "") else value


class Agent(models.Model):
    """A persona with documents of its own, and the settings in which it differs from the site."""

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
    settings = models.JSONField(
        _("réglages"),
        blank=True,
        default=dict,
        validators=[validate_settings],
        help_text=_("Réglages qui l’emportent sur ceux du site."),
    )
    created_at = models.DateTimeField(_("créé le"), auto_now_add=True)

    class Meta:
        verbose_name = _("agent")
        verbose_name_plural = _("agents")
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    def settings_deployment(self) -> "Deployment | None":
        """The deployment whose form has all settings: the only one of an agent that sets nothing itself."""
        found = [] if self.settings else list(self.deployments.all()[:2])
        return found[0] if len(found) == 1 and not self.specialties.exists() else None

    def methods_in_use(self) -> set[IndexingMethod]:
        """Every method that this agent or one of its deployments reads: each has a collection of its own."""
        return (
            {IndexingMethod(self.indexing_method)}
            | {deployment.method_of(self) for deployment in self.deployments.all()}
            | {specialist.deployment.method_of(self) for specialist in self.specialties.select_related("deployment")}
        )


class Audience(models.TextChoices):
    PUBLIC = "public", _("Tout le monde")
    SIGNED_IN = "signed_in", _("Utilisateurs connectés")
    GROUPS = "groups", _("Certains groupes")


def new_public_key() -> str:
    """A key that names a deployment to the widget; other sites' pages show it, and it grants nothing alone."""
    return f"rpk_{secrets.token_urlsafe(18)}"


#: A host and a port, as they go into a header of the page: nothing in them may end a directive or name every host.
_ORIGIN = re.compile(r"(https?)://([a-z0-9.-]+|\[[0-9a-f]*:[0-9a-f:.]*\])(?::([0-9]{0,5}))?/*")


def valid_origin(text: str) -> str:
    """`https://www.example.org[:port]`, in lower case; raises where it is none (a path, a wildcard, no host)."""
    found = _ORIGIN.fullmatch(text.strip().lower())
    if found is None or int(found[3] or 0) > 65_535:
        raise ValidationError(
            _("« %(text)s » n’est pas une origine. Exemple : https://www.example.org"),
            params={"text": text.strip()[:100]},
        )
    scheme, host, port = found.groups()
    is_usual = not port or int(port) == {"http": 80, "https": 443}[scheme]
    return f"{scheme}://{host}" if is_usual else f"{scheme}://{host}:{int(port)}"


def validate_origins(text: str) -> None:
    """One origin a line."""
    for line in text.split():
        valid_origin(line)


class Logo(models.Model):
    """A logo, keyed by the hash of its bytes for caches; a replaced one stays, for the journal to restore."""

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
    # A site's own face (`agents.branding`).
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
            "Des boutons et des liens : #rrvvbb, assombrie sur papier clair, éclaircie sur papier sombre, jusqu’à être lue. "
            "Vide : celle de Répondant."
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
        help_text=_("Nomme ce guichet dans la balise du widget. Elle n’est pas secrète."),
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
        verbose_name = _("guichet")
        verbose_name_plural = _("guichets")
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

    def method_of(self, agent: Agent) -> IndexingMethod:
        """The method by which an agent of this deployment is searched: the overlay's, where it has a known one."""
        overlay = self.config_overlay.get("indexing_method")
        if overlay in IndexingMethod.values:
            return IndexingMethod(overlay)
        return IndexingMethod(agent.indexing_method)

    @property
    def origins(self) -> list[str]:
        """The sites that may show the widget, as browsers write them; what a script left malformed is no site."""
        found = []
        for line in self.allowed_origins.split():
            with suppress(ValidationError):
                found.append(valid_origin(line))
        return found

    def clean(self) -> None:
        try:
            validate_settings(self.config_overlay, OVERLAY_KNOBS)
        except ValidationError as error:
            raise ValidationError({"config_overlay": error.messages}) from error


class Specialist(models.Model):
    """A further agent of a deployment, beside its own, which is the default one."""

    deployment = models.ForeignKey(
        Deployment, on_delete=models.CASCADE, related_name="specialists", verbose_name=_("guichet")
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
            raise ValidationError({"agent": _("C’est déjà l’agent par défaut de ce guichet.")})


class Role(models.Model):
    """A ready-made role (`agents.roles`): its group, and the rights ever given to it."""

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
    """Limits a person, or a group's members, to these agents (`agents.roles`); to none where the list is empty."""

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


class ProviderGroup(models.Model):
    """A group of the organisation's provider or directory, and the group here that its members are put into."""

    name = models.CharField(_("nom chez le fournisseur"), max_length=255)
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="+", verbose_name=_("groupe d’ici"))

    class Meta:
        verbose_name = _("groupe de l’organisation")
        verbose_name_plural = _("groupes de l’organisation")
        constraints: ClassVar = [models.UniqueConstraint(fields=["name", "group"], name="one_line_of_a_provider_group")]

    def __str__(self) -> str:
        return f"{self.name} → {self.group}"


#: The row of a model check that `verify_answers` depends on.
VERIFIER_CHECK = "verifier"


class JobKind(models.TextChoices):
    """Every kind of background job; `settings.JOBS` names the function of each."""

    DOCUMENTS = "documents", _("Documents")
    REBUILD = "rebuild", _("Reconstruction")
    SYNC = "sync", _("Mise à jour")
    REFRESH = "refresh", _("Relecture du web")
    QUESTIONS = "questions", _("Écriture de questions")
    MODEL_CHECK = "model_check", _("Vérification du modèle")
    GOLDEN = "golden", _("Questions de référence")
    #: What indexes lack is looked for: of an agent, or every few minutes of all.
    RECONCILE = "reconcile", _("Comparaison des index")
    REMOVE_POINTS = "remove_points", _("Retrait de points")
    DROP_INDEXES = "drop_indexes", _("Retrait d’index")
    ANSWERS = "answers", _("Points des réponses validées")
    REMOVE_ANSWERS = "remove_answers", _("Retrait de réponses validées")
    TOOLS = "tools", _("Index des outils")
    TOOL_SOURCE = "tool_source", _("Lecture d’une source d’outils")
    HELP_MAIL = "help_mail", _("Courriel d’une réponse")
    #: Every few seconds: what a dead process left is taken up again, and what is due is begun.
    RECOVER = "recover", _("Reprise des travaux")
    RETENTION = "retention", _("Nettoyage")
    FIGURES = "figures", _("Compte des jours")
    #: Of each person who wants it, every night.
    WORK_MAIL = "work_mail", _("Courriel du travail du jour")
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


_J = TypeVar("_J", bound="Job")


class JobQuerySet(models.QuerySet[_J]):
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


def by_whom(label: Any, **options: Any) -> "models.ForeignKey[Any, Any]":
    """The column of a person who did something, empty once their account is deleted."""
    person = {"to": settings.AUTH_USER_MODEL, "on_delete": models.SET_NULL, "related_name": "+", "verbose_name": label}
    return models.ForeignKey(null=True, blank=True, **person, **options)


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
