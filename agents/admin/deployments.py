"""Agents, deployments and the site's settings, each with what it would inherit; `knowledge` is linked by address."""

from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Count, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldBooleanSwitchWidget

from agents.admin_base import StaffAdmin, StaffInline, admin_url, link, linked
from agents.branding import logo_png
from agents.effective import (
    InheritedSetting,
    inherited_settings,
    inherited_text,
    measured_thresholds,
    unmeasured_model,
    value_text,
)
from agents.llm.base import language_model
from agents.models import (
    OVERLAY_KNOBS,
    VERIFIER_CHECK,
    Agent,
    Audience,
    Deployment,
    IndexingMethod,
    Job,
    JobKind,
    JobStatus,
    Logo,
    RuntimeSettings,
    Specialist,
)
from agents.roles import limit_of
from agents.settings import KNOBS, OF_A_MODEL, SITE_KNOBS, Knob, setting_fields

TEXT_ROWS = 3


class SettingsForm(forms.ModelForm[Any]):
    """Edit a row that holds settings, by a field for each of `knobs` (added below); one left empty inherits."""

    #: The column that holds the settings, and which there are.
    column: ClassVar[str] = "settings"
    knobs: ClassVar[Mapping[str, Knob]] = KNOBS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = getattr(self.instance, self.column)
        self.stored = stored if isinstance(stored, dict) else {}
        self.initial = {**self.stored, **self.initial}
        for name in hidden_knobs(self.instance):
            self.fields.pop(name, None)
        measured = measured_thresholds()
        for setting in self.inherited():
            if field := self.fields.get(setting.name):
                _describe_field(field, setting, measured)
        if method := self.fields.get("indexing_method"):
            method.help_text += " ".join(f"{each.label} : {each.description}" for each in IndexingMethod)
        for field in self.fields.values():
            # Most texts here are a few lines; the theme's ten would push the settings off the page.
            if isinstance(field.widget, forms.Textarea):
                field.widget.attrs["rows"] = TEXT_ROWS

    def inherited(self) -> list[InheritedSetting]:
        return inherited_settings()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        # What was not asked for when the page was opened stays as it is.
        given = self.stored | {name: cleaned[name] for name in cleaned if self.add_prefix(name) in self.data}
        values = {name: given[name] for name in self.knobs if given.get(name) not in (None, "")}
        setattr(self.instance, self.column, values)
        if cleaned.get("verify_answers") and self._fails_the_verifier(values):
            said = _("Ce modèle a échoué à juger des paires de questions : voyez « Vérifier le modèle de langage ».")
            self.add_error("verify_answers", said)
        return cleaned

    def _fails_the_verifier(self, values: Mapping[str, Any]) -> bool:
        """Whether the last check of the model that would be used found that it tells no questions apart."""
        above = next((each.value for each in self.inherited() if each.name == "llm_model"), "")
        llm = language_model()
        model = values.get("llm_model") or above or (llm.default_model if llm else "")
        checks = Job.objects.filter(kind=JobKind.MODEL_CHECK, status=JobStatus.DONE, report__model=model)
        rows = last.report["rows"] if (last := checks.order_by("-pk").first()) else []
        return any(row["check"] == VERIFIER_CHECK and not row["passed"] for row in rows)


class RuntimeSettingsForm(SettingsForm):
    """The site's values; an empty one is the default, or that of the embedding model's profile."""

    column = "values"
    knobs = SITE_KNOBS

    def inherited(self) -> list[InheritedSetting]:
        return [
            InheritedSetting(name, knob.default, "profile" if knob.default is None else "default")
            for name, knob in SITE_KNOBS.items()
        ]


class DeploymentForm(SettingsForm):
    """A deployment, whose overlay may also name an indexing method."""

    column = "config_overlay"
    knobs = OVERLAY_KNOBS

    logo_file = forms.FileField(
        label=_("Logo"),
        required=False,
        widget=UnfoldAdminFileFieldWidget(attrs={"accept": "image/png,image/jpeg,image/webp"}),
        help_text=_(
            "PNG, JPEG ou WebP, 2 Mo au plus ; réduit à 480 × 160 pixels. Sur papier sombre, il est posé sur du blanc."
        ),
    )
    without_logo = forms.BooleanField(label=_("Retirer le logo"), required=False, widget=UnfoldBooleanSwitchWidget)

    class Meta:
        model = Deployment
        exclude = ("config_overlay", "logo")  # noqa: DJ006  # written by `save`

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None:  # Nobody reads the agent's documents before somebody says who may.
            self.initial = {"is_active": False, "audience": Audience.SIGNED_IN, **self.initial}
        if (logo := self.instance.logo_id) and (field := self.fields.get("logo_file")):
            image = '<img src="{}" alt="" height="40"><br>{}'
            field.help_text = format_html(image, reverse("logo", args=[logo]), field.help_text)

    def clean_logo_file(self) -> bytes | None:
        file = self.cleaned_data.get("logo_file")
        return logo_png(file) if file else None

    def inherited(self) -> list[InheritedSetting]:
        return inherited_settings(self.instance.agent if self.instance.agent_id else None)

    def save(self, commit: bool = True) -> Any:
        if self.cleaned_data.get("logo_file"):
            self.instance.logo = Logo.of(self.cleaned_data["logo_file"])
        elif self.cleaned_data.get("without_logo"):
            self.instance.logo = None
        return super().save(commit)


def _describe_field(field: forms.Field, setting: InheritedSetting, measured: Mapping[str, float | None]) -> None:
    """The inherited value first: it is what staff look for."""
    if isinstance(field, forms.NullBooleanField):
        inherited = value_text(setting.name, setting.value)
        field.widget.choices = [
            ("unknown", _("Hériter (%(value)s)") % {"value": inherited}),
            ("true", _("Oui")),
            ("false", _("Non")),
        ]
    else:
        field.widget.attrs["placeholder"] = _("Hériter")
    field.help_text = f"{inherited_text(setting, measured)}. {field.help_text}"


for _form in (SettingsForm, RuntimeSettingsForm, DeploymentForm):
    _form.declared_fields.update(setting_fields(_form.knobs))
    _form.base_fields.update(_form.declared_fields)


#: What the page of a first agent does, one step after the other (`config.first_agent`).
FIRST_AGENT_RIGHTS = tuple(
    "agents.add_agent agents.add_deployment agents.change_deployment knowledge.add_document chat.view_turn".split()
)


def hidden_knobs(row: Any) -> frozenset[str]:
    """What the form of a row does not ask for, and keeps as it is."""
    if isinstance(row, Agent) and row.settings_deployment():
        return frozenset(KNOBS)
    return OF_A_MODEL if language_model() is None else frozenset()


def setting_fieldsets(knobs: Mapping[str, Knob]) -> list[Any]:
    """A folded part of the page for each group of settings."""
    tabs = groupby(knobs.values(), attrgetter("tab"))
    return [(tab, {"classes": ("collapse",), "fields": [knob.name for knob in group]}) for tab, group in tabs]


class SettingsAdmin(StaffAdmin):
    """Tells the page that the embedding model in use has no measured thresholds: direct answers are off."""

    form: type[SettingsForm]
    change_list_template = "admin/agents/change_list.html"

    def __getattr__(self, name: str) -> Any:
        """How a page that may only be looked at shows a setting, for which there is no column."""
        if (knob := self.form.knobs.get(name)) is None:
            raise AttributeError(name)

        def shown(row: Model) -> str:
            value = getattr(row, self.form.column).get(name)
            return "" if value in (None, "") else value_text(name, value)

        shown.short_description = knob.label  # type: ignore[attr-defined]
        return shown

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        sets, hidden = super().get_fieldsets(request, obj), hidden_knobs(obj)
        return [each for each in sets if not hidden.issuperset(each[1]["fields"])]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        may_begin = limit_of(request.user) is None and request.user.has_perms(FIRST_AGENT_RIGHTS)
        links = {"begin_url": reverse("admin-first-agent") if may_begin else ""}
        return super().changelist_view(request, {**links, **(extra_context or {})})

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """What the agent of the page knows, beside the notice; the site's own values belong to none."""
        agent = row if isinstance(row, Agent) else getattr(row, "agent", None)
        panel = {} if agent is None else {"index_panel": _index_panel(request, agent)}
        return {"unmeasured_model": unmeasured_model(), **panel}


@admin.register(Agent)
class AgentAdmin(SettingsAdmin):
    purpose = _("Un ensemble de documents avec ses réglages.")
    form = SettingsForm
    change_form_template = "admin/agents/agent/change_form.html"
    list_display = ("name", "slug", "indexing_method")
    list_filter = ("indexing_method",)
    search_fields = ("name", "slug", "description")
    #: An agent's identifier names its index: it is chosen once.
    readonly_fields = ("slug",)
    fieldsets = ((None, {"fields": ("name", "slug", "description", "indexing_method")}), *setting_fieldsets(KNOBS))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """An agent is made with its first desk (`config.first_agent`)."""
        return False


def _index_panel(request: HttpRequest, agent: Agent) -> dict[str, Any]:
    return {
        "counts": _counts(agent),
        "may_index": request.user.has_perm("knowledge.add_indexbuild"),
        "may_add": request.user.has_perm("knowledge.add_document"),
        "add_url": admin_url("knowledge.document", "add", agent=agent.pk),
        "rebuild_url": admin_url("knowledge.indexbuild", "rebuild", agent=agent.pk),
        "builds_url": admin_url("knowledge.indexbuild", "changelist", agent__id__exact=agent.pk),
    }


def _counts(agent: Any) -> list[tuple[Any, int, str]]:
    """What an agent has: title, count, and the address of the list that is counted."""
    own, chunks = {"agent__id__exact": agent.pk}, {"document__agent__id__exact": agent.pk}
    found = agent.documents.aggregate(
        documents=Count("pk", distinct=True),
        passages=Count("chunks"),
        waiting=Count("chunks", filter=Q(chunks__units_origin="waiting")),
    )
    waiting = admin_url("knowledge.chunk", "changelist", **chunks, units_origin__exact="waiting")
    # Without a model they wait for nothing.
    asked = [(_("Passages en attente de questions"), found["waiting"], waiting)] if language_model() else []
    return [
        (_("Documents"), found["documents"], admin_url("knowledge.document", "changelist", **own)),
        (_("Passages"), found["passages"], admin_url("knowledge.chunk", "changelist", **chunks)),
        *asked,
        (_("Guichets"), agent.deployments.count(), admin_url(Deployment, "changelist", **own)),
    ]


class SpecialistInline(StaffInline):
    model = Specialist
    fields = ("position", "agent")
    autocomplete_fields = ("agent",)
    classes = ("collapse",)
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Specialist]:
        """Those of the agents that its reader works on; the others stay as they are."""
        rows: QuerySet[Specialist] = super().get_queryset(request)
        limit = limit_of(request.user)
        return rows if limit is None else rows.filter(agent__in=limit)


#: What a desk says and shows, before everything finer.
_OF_A_DESK = "welcome suggestions presentation contact guard_rail_message guard_rail_threshold logo_file".split()
_APPEARANCE = tuple("without_logo accent organisation notice legal_url name_en welcome_en notice_en".split())


@admin.register(Deployment)
class DeploymentAdmin(SettingsAdmin):
    purpose = _("Un endroit où un agent est proposé : une adresse, un public, un accueil.")
    form = DeploymentForm
    change_form_template = "admin/agents/deployment/change_form.html"
    list_display = ("name", "page", "agent_link", "audience", "is_active")
    list_filter = ("is_active", "audience", "agent")
    list_select_related = ("agent",)
    search_fields = ("name", "slug", "agent__name")
    autocomplete_fields = ("agent",)
    inlines = (SpecialistInline,)
    conditional_fields: ClassVar = {"groups": "audience == 'groups'"}
    prepopulated_fields: ClassVar = {"slug": ("name",)}
    readonly_fields = ("public_key",)
    fieldsets = (
        (None, {"fields": ("name", "agent", "is_active", "audience", "groups", *_OF_A_DESK)}),
        (_("Apparence"), {"classes": ("collapse",), "fields": _APPEARANCE}),
        (_("Adresse et widget"), {"classes": ("collapse",), "fields": ("slug", "allowed_origins", "public_key")}),
        *setting_fieldsets({name: knob for name, knob in OVERLAY_KNOBS.items() if name not in _OF_A_DESK}),
    )

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        script = request.build_absolute_uri(reverse("widget-script")) if row is not None and row.origins else ""
        return super().page_context(request, row) | {"widget_script": script}

    @admin.display(description=_("page de conversation"), ordering="slug")
    def page(self, deployment: Deployment) -> str:
        return link(reverse("chat-deployment", args=[deployment.slug]), f"/d/{deployment.slug}/")

    agent_link = linked("agent", _("agent"), ordering="agent__name")


@admin.register(RuntimeSettings)
class RuntimeSettingsAdmin(SettingsAdmin):
    """One row: its list is its form, and it is neither added nor deleted."""

    purpose = _("Ce qui vaut pour tous les agents qui ne disent pas autre chose.")
    form = RuntimeSettingsForm
    change_form_template = "admin/agents/runtimesettings/change_form.html"
    list_display = ("__str__",)
    fieldsets = setting_fieldsets(SITE_KNOBS)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> RuntimeSettings | None:
        """The stored row, or the defaults where none was saved yet; looking writes nothing."""
        return RuntimeSettings.load() if object_id == "1" else None

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return HttpResponseRedirect(admin_url(RuntimeSettings, "change", 1))
