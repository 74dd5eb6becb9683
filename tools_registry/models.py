"""What staff decide about tools, where remote tools come from, and what is derived from both (index, usage).

Tools are named, not rows: `ToolOverride` has a row for each name ever seen; an empty field leaves the tool's own.
"""

import uuid
from typing import ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents.models import Agent, RuntimeSettings
from agents.network import host_of

NAME_LENGTH = 64


def new_token() -> str:
    return uuid.uuid4().hex


def tools_token() -> str:
    """What every change of the tools (texts, rights, sources, vectors) replaces; empty before the first one."""
    # Written out: every question with tools comes here, and building this statement costs more than running it.
    for row in RuntimeSettings.objects.raw(f"SELECT * FROM {RuntimeSettings._meta.db_table} WHERE id = 1"):  # noqa: S608
        return row.tools_version
    return ""


def replace_tools_token() -> None:
    """Have every process read the tools again; random, so that a change that is rolled back is never taken for the next."""
    RuntimeSettings.noted().update(tools_version=new_token())


class SourceKind(models.TextChoices):
    MCP_STDIO = "mcp_stdio", _("Serveur MCP local (stdio)")
    MCP_HTTP = "mcp_http", _("Serveur MCP (HTTP)")
    OPENAPI = "openapi", _("Document OpenAPI")


class ToolSource(models.Model):
    """A server or a document that brings tools. Its address and commands obey the operator's allow-lists."""

    slug = models.SlugField(
        _("identifiant"),
        unique=True,
        max_length=20,
        help_text=_("Début du nom de ses outils."),
        validators=[RegexValidator(r"^[a-zA-Z0-9_-]+$")],
    )
    name = models.CharField(_("nom"), max_length=200)
    kind = models.CharField(_("nature"), max_length=20, choices=SourceKind.choices)
    command = models.CharField(
        _("commande"),
        max_length=80,
        blank=True,
        default="",
        help_text=_("Pour stdio : un nom de la variable MCP_STDIO_SERVERS."),
    )
    url = models.CharField(
        _("adresse"),
        blank=True,
        default="",
        max_length=500,
        help_text=_("Du serveur MCP, ou du document OpenAPI quand il n’est pas collé ci-dessous."),
    )
    document = models.TextField(_("document OpenAPI"), blank=True, default="", max_length=30_000_000)
    chosen = models.TextField(
        _("chemins et étiquettes à lire"),
        blank=True,
        default="",
        db_default="",
        max_length=10_000,
        help_text=_(
            "Une ligne par choix : « /repos/* », « GET /repos/* », « tag:issues », ou le nom d’une opération. Vide : tout."
        ),
    )
    allowed_hosts = models.JSONField(
        _("hôtes permis"),
        blank=True,
        default=list,
        help_text=_("Noms des serveurs que cette source peut appeler, avec leur port s’il n’est pas habituel."),
    )
    headers = models.JSONField(
        _("en-têtes"),
        blank=True,
        default=dict,
        help_text=_(
            'Par exemple {"Authorization": "Bearer ${TOOL_SECRET_CRM}"} : les secrets sont nommés, jamais écrits.'
        ),
    )
    tags = models.JSONField(
        _("droits"),
        blank=True,
        default=list,
        help_text=_("Noms de groupes dont il faut faire partie pour utiliser ses outils."),
    )
    is_personal = models.BooleanField(
        _("résultats personnels"),
        default=True,
        help_text=_("Les réponses faites avec ses outils ne sont jamais gardées pour d’autres."),
    )
    timeout_seconds = models.FloatField(
        _("délai (secondes)"), default=20.0, validators=[MinValueValidator(0.1), MaxValueValidator(120.0)]
    )
    is_active = models.BooleanField(_("active"), default=True)
    refreshed_at = models.DateTimeField(_("liste lue le"), null=True, blank=True, editable=False)
    last_error = models.TextField(_("dernière erreur"), blank=True, default="", editable=False)
    #: Of the last reading: [name, reason] of each tool that cannot be used.
    problems = models.JSONField(
        blank=True, default=list, db_default=models.Value([], models.JSONField()), editable=False
    )

    class Meta:
        verbose_name = _("source d’outils")
        verbose_name_plural = _("sources d’outils")
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.kind == SourceKind.MCP_STDIO and not self.command:
            raise ValidationError({"command": _("Une source stdio a besoin d’une commande.")})
        if self.kind == SourceKind.MCP_HTTP and not self.url:
            raise ValidationError({"url": _("Un serveur MCP a besoin d’une adresse.")})
        if self.kind == SourceKind.OPENAPI and not (self.url or self.document):
            raise ValidationError({"document": _("Donnez le document ou son adresse.")})
        if self.kind == SourceKind.OPENAPI and not self.allowed_hosts:
            if not self.url:
                raise ValidationError({"allowed_hosts": _("Nommez au moins un hôte permis.")})
            self.allowed_hosts = [host_of(self.url)]
        for name in ("allowed_hosts", "tags"):
            value = getattr(self, name)
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise ValidationError({name: _("Une liste de textes est attendue.")})


class ToolOverride(models.Model):
    """What staff decided for one tool, and what the source of a remote one declared when its list was last read."""

    tool_name = models.CharField(_("outil"), max_length=NAME_LENGTH, unique=True, editable=False)
    source = models.ForeignKey(
        ToolSource, models.SET_NULL, null=True, editable=False, related_name="tools", verbose_name=_("source")
    )
    remote_name = models.CharField(max_length=200, default="", db_default="", editable=False)
    declared_description = models.TextField(default="", db_default="", editable=False)
    declared_parameters = models.JSONField(
        default=dict, db_default=models.Value({}, models.JSONField()), editable=False
    )
    operation = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()), editable=False)
    declared_approval = models.BooleanField(default=False, db_default=False, editable=False)
    is_present = models.BooleanField(_("présent"), default=True, db_default=True, editable=False)
    description = models.TextField(
        _("description"),
        blank=True,
        default="",
        max_length=4_000,
        help_text=_("Remplace la description de l’outil. Vide : celle du code."),
    )
    parameters = models.JSONField(
        _("descriptions des paramètres"),
        blank=True,
        default=dict,
        help_text=_("Par nom de paramètre ; un paramètre absent garde sa description."),
    )
    extra_tags = models.JSONField(
        _("droits ajoutés"),
        blank=True,
        default=list,
        help_text=_("Noms de groupes dont il faut aussi faire partie pour utiliser l’outil, en plus de ceux du code."),
    )
    agents = models.ManyToManyField(
        Agent,
        blank=True,
        related_name="+",
        verbose_name=_("agents"),
        help_text=_("Agents qui proposent cet outil. Aucun : tous."),
    )
    needs_approval = models.BooleanField(
        _("accord d’une personne"),
        null=True,
        blank=True,
        default=None,
        help_text=_("Demander l’accord de l’utilisateur avant chaque exécution."),
    )
    is_active = models.BooleanField(_("actif"), default=True)
    examples = models.JSONField(
        _("formulations"),
        blank=True,
        default=list,
        db_default=models.Value([], models.JSONField()),
        help_text=_("Formulations : des questions telles que vos utilisateurs les posent, qui demandent cet outil"),
    )
    selected = models.PositiveBigIntegerField(_("proposé"), default=0, db_default=0, editable=False)
    called = models.PositiveBigIntegerField(_("appelé"), default=0, db_default=0, editable=False)
    failed = models.PositiveBigIntegerField(_("en échec"), default=0, db_default=0, editable=False)
    last_called_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(default="", db_default="", editable=False)
    last_error_at = models.DateTimeField(null=True, editable=False)
    #: The index, which `index_tools` rebuilds: what the vector (float32) was made of, and with which embedder.
    digest = models.CharField(max_length=64, default="", db_default="", editable=False)
    recipe = models.JSONField(null=True, editable=False)
    vector = models.BinaryField(null=True)

    class Meta:
        verbose_name = _("outil")
        verbose_name_plural = _("outils")
        ordering: ClassVar = ["tool_name"]
        # Tools of code have no source, and none of them is the same as another.
        constraints: ClassVar = [models.UniqueConstraint(fields=["source", "remote_name"], name="tool_of_source_once")]

    def __str__(self) -> str:
        return self.tool_name
