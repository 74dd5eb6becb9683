"""Tools as staff see them: what they are, what was decided about them, how well they are described and used; and the
sources of remote tools, whose tools stand in the list of all tools, inactive at first. Nothing outside this app imports it.
"""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import CharField, Count, Exists, Model, OuterRef, Q, QuerySet
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator, format_lazy
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from agents import jobs
from agents.admin_base import (
    REFRESH_SECONDS,
    ConditionFilter,
    StaffAdmin,
    Tone,
    admin_page,
    admin_url,
    badge,
    bullets,
    link,
    long_text,
    require,
    stacked,
)
from agents.database import short_write
from agents.models import OPEN_JOBS, Job, JobKind
from agents.network import host_of
from agents.roles import visible
from tools_registry.catalog import SIGNED_IN_TAG, STAFF_TAG, apply_override, declared_tools, forget_recent
from tools_registry.errors import ToolSourceError
from tools_registry.evaluation import assess_tool
from tools_registry.execution import ToolCall, execute_calls
from tools_registry.index import enqueue_index, ensure_overrides
from tools_registry.models import SourceKind, ToolOverride, ToolSource, replace_tools_token
from tools_registry.sources.base import header_problem, sent_requests
from tools_registry.tool import ToolContext, ToolSpec

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList

else:
    from unfold.views import ChangeList

_GOOD, _FAIR = 75, 50
_QUALITY = ("quality_explained", "selected", "calls", "failure", "schema")
_TAGS = {SIGNED_IN_TAG: _("toute personne connectée"), STAFF_TAG: _("l’équipe")}

PARAMETER_PREFIX = "parameter_"
_LONGEST_PARAMETER = 1_000
_LONGEST_EXAMPLES = 20_000
#: Of the code's text, beside the field that replaces it.
_SHOWN = 600
_ROWS = 4
#: In characters: from here on, a document is not written into the page that edits its source.
_LONG_DOCUMENT = 100_000


class ToolOverrideForm(forms.ModelForm[ToolOverride]):
    """What staff decide for one tool; `form_for_tool` adds a field for each of its parameters."""

    extra_tags = forms.MultipleChoiceField(
        label=_("Droits ajoutés"),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("Il faut aussi faire partie de ces groupes, en plus des droits du code."),
    )

    examples = forms.CharField(
        label=_("Formulations"),
        required=False,
        max_length=_LONGEST_EXAMPLES,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": _ROWS}),
        help_text=format_lazy("{}. {}", ToolOverride._meta.get_field("examples").help_text, _("Une par ligne.")),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = self.instance.extra_tags if isinstance(self.instance.extra_tags, list) else []
        if "extra_tags" in self.fields:
            self.fields["extra_tags"].choices = tag_choices(stored)  # type: ignore[attr-defined]
            self.initial["extra_tags"] = stored
        self.initial["examples"] = "\n".join(self.instance.examples)
        if "needs_approval" in self.fields:
            self.fields["needs_approval"].widget.choices = [
                ("unknown", gettext("Comme le code")),
                ("true", gettext("Oui")),
                ("false", gettext("Non")),
            ]
        if "description" in self.fields:
            self.fields["description"].widget.attrs["rows"] = _ROWS
        for name, text in (self.instance.parameters or {}).items():
            self.initial.setdefault(PARAMETER_PREFIX + str(name), text)

    def clean_examples(self) -> list[str]:
        lines: str = self.cleaned_data["examples"]
        return list(dict.fromkeys(line.strip() for line in lines.splitlines() if line.strip()))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        # Texts of parameters that the tool no longer has are kept: it may have them again.
        kept = dict(self.instance.parameters or {})
        for name in self.fields:
            if name.startswith(PARAMETER_PREFIX):
                kept[name.removeprefix(PARAMETER_PREFIX)] = cleaned.get(name) or ""
        self.instance.parameters = {name: text for name, text in kept.items() if text}
        return cleaned


def form_for_tool(declared: ToolSpec | None) -> type[ToolOverrideForm]:
    """The form with the code's texts beside the fields, and one field a parameter."""
    fields: dict[str, Any] = {}
    for name, inner in (declared.properties if declared else {}).items():
        text = inner.get("description") if isinstance(inner, dict) else ""
        fields[PARAMETER_PREFIX + name] = forms.CharField(
            label=name,
            required=False,
            max_length=_LONGEST_PARAMETER,
            widget=UnfoldAdminTextInputWidget,
            help_text=_code_text(str(text or "")),
        )
    return type("ToolForm", (ToolOverrideForm,), fields)


def _code_text(text: str) -> str:
    if not text:
        return gettext("Texte du code : aucun.")
    return gettext("Texte du code : « %(text)s »") % {"text": Truncator(text).chars(_SHOWN)}


def tag_choices(stored: Sequence[object]) -> list[tuple[str, str]]:
    """The groups, the tags that everyone signed in or of the staff holds, and whatever is stored."""
    groups = Group.objects.order_by("name").values_list("name", flat=True)
    names = dict.fromkeys([*groups, SIGNED_IN_TAG, STAFF_TAG, *map(str, stored)])
    return [(name, str(_TAGS.get(name, name))) for name in names]


class _ToolChangeList(ChangeList):
    """Gives each row its tool."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        attach_tools(list(self.result_list))


def attach_tools(rows: Sequence[Any]) -> None:
    """Set `declared` and `effective` (None where nothing declares the tool any more) on each row."""
    declared = declared_tools(pk__in=[row.pk for row in rows])
    for row in rows:
        row.declared = declared.get(row.tool_name)
        row.effective = None if row.declared is None else apply_override(row.declared, row)


class CallForm(forms.Form):
    arguments = forms.CharField(
        label=_("Arguments"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 8}),
        help_text=_("Un objet JSON, comme le modèle l’écrirait. L’appel est réel."),
    )


@require_http_methods(["GET", "POST"])
def try_tool(request: HttpRequest, tool_id: int) -> HttpResponse:
    """« Essayer cet outil »: one real call, under the rights of whoever types its arguments; secrets are not shown."""
    require(request, "tools_registry.change_tooloverride")
    tool: Any = get_object_or_404(visible(request, ToolOverride.objects.select_related("source")), pk=tool_id)
    attach_tools([tool])
    spec: ToolSpec | None = tool.effective
    if spec is None:
        raise Http404(gettext("Plus rien ne déclare cet outil."))
    names = spec.parameters.get("required")
    empty = dict.fromkeys(names, "") if isinstance(names, list) else {}
    form = CallForm(request.POST or None, initial={"arguments": json.dumps(empty, ensure_ascii=False, indent=2)})
    result, sent = None, list[str]()
    if request.method == "POST" and form.is_valid():
        call = ToolCall("try", spec.name, form.cleaned_data["arguments"])
        with sent_requests() as sent:
            run, whose = async_to_sync(execute_calls), ToolContext(user_id=request.user.pk)
            (result,) = run([call], tools=[spec], context=whose, approved=[call.id])
    title, page = gettext("Essayer « %(tool)s »") % {"tool": spec.name}, "admin/tools_registry/tooloverride/call.html"
    return admin_page(request, page, model=ToolOverride, title=title, form=form, result=result, sent=sent)


class NeverSelectedFilter(ConditionFilter):
    title = _("usage")
    parameter_name = "usage"
    conditions: ClassVar = {
        "never_selected": (_("Jamais proposé"), lambda rows: rows.filter(selected=0)),
        "failing": (_("En échec"), lambda rows: rows.filter(failed__gt=0)),
        "waiting": (_("À vérifier"), lambda rows: rows.filter(source__isnull=False, is_present=True, is_active=False)),
    }


@admin.register(ToolOverride)
class ToolOverrideAdmin(StaffAdmin):
    purpose = _("Les actions que le modèle de langage peut demander.")
    form = ToolOverrideForm
    is_erasable = False
    change_list_template = "admin/tools_registry/tooloverride/change_list.html"
    list_display = ("tool_name", "origin", "state", "summary", "asks", "rights", "quality", "selected", "calls")
    list_filter = (("source", AutocompleteSelectFilter), NeverSelectedFilter, "is_active", "agents")
    list_filter_submit = True
    list_select_related = ("source",)
    search_fields = ("tool_name", "remote_name", "description", "declared_description")
    ordering = ("tool_name",)
    actions = ("activate", "deactivate")
    list_per_page = 50
    autocomplete_fields = ("agents",)
    own_pages = (("<int:tool_id>/call/", try_tool, "call"),)
    readonly_fields = ("tool_name", "origin", "trial", "rights", "code_text", *_QUALITY)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return _ToolChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolOverride]:
        tools: QuerySet[ToolOverride] = super().get_queryset(request)
        return tools.defer("vector", "declared_parameters", "operation", "source__document", "source__problems")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        tool = super().get_object(request, object_id, from_field)
        if tool is not None:
            attach_tools([tool])
        return tool

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = form_for_tool(getattr(obj, "declared", None))
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        declared = getattr(obj, "declared", None) if self.has_change_permission(request, obj) else None
        parameters = (PARAMETER_PREFIX + name for name in (declared.properties if declared else ()))
        texts = ("code_text", "description", "examples", *parameters)
        return (
            (None, {"fields": ("tool_name", "origin", "is_active", "trial")}),
            (_("Textes"), {"fields": texts}),
            (_("Droits"), {"fields": ("rights", "extra_tags", "needs_approval", "agents")}),
            (_("Qualité et usage"), {"fields": _QUALITY}),
        )

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Tools that the code gained since the last index have their row, too."""
        if self.has_view_permission(request):
            ensure_overrides()
        page: HttpResponse = super().changelist_view(request, extra_context)
        return page

    @admin.action(description=_("Activer"), permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[ToolOverride]) -> None:
        self._decide(request, queryset.filter(is_present=True), is_active=True)

    @admin.action(description=_("Désactiver"), permissions=["change"])
    def deactivate(self, request: HttpRequest, queryset: QuerySet[ToolOverride]) -> None:
        self._decide(request, queryset, is_active=False)

    def _decide(self, request: HttpRequest, queryset: QuerySet[ToolOverride], *, is_active: bool) -> None:
        """For all of them at once, and what a signal does for each row."""
        keys = list(queryset.exclude(is_active=is_active).values_list("pk", flat=True))
        if keys:
            with short_write():
                ToolOverride.objects.filter(pk__in=keys).update(is_active=is_active)
                replace_tools_token()
                transaction.on_commit(forget_recent)
                enqueue_index()
        text = ngettext("%(count)d outil modifié.", "%(count)d outils modifiés.", len(keys))
        self.message_user(request, text % {"count": len(keys)})

    @admin.display(description=_("état"))
    def state(self, tool: Any) -> SafeString:
        if tool.declared is None:
            return badge(gettext("absent"), "warning")
        if not tool.is_active:
            return badge(gettext("à vérifier"), "warning") if tool.source_id else badge(gettext("inactif"))
        # Of the last call: an error that a later call did not meet again is past.
        if tool.last_error and (tool.last_called_at is None or tool.last_error_at >= tool.last_called_at):
            return stacked(badge(gettext("en échec"), "bad"), tool.last_error[:200])
        return badge(gettext("actif"), "good")

    @admin.display(description=_("description"))
    def summary(self, tool: Any) -> str:
        return Truncator(tool.effective.description if tool.effective else tool.declared_description).chars(160)

    @admin.display(description=_("demande l’accord"))
    def asks(self, tool: Any) -> str:
        return gettext("oui") if tool.effective is not None and tool.effective.needs_approval else gettext("non")

    @admin.display(description=_("origine"))
    def origin(self, tool: Any) -> SafeString:
        spec: ToolSpec | None = tool.declared
        if tool.source is not None:
            return stacked(badge("OpenAPI" if tool.source.kind == SourceKind.OPENAPI else "MCP"), tool.source.name)
        label = badge(gettext("code"))
        return stacked(label, gettext("résident")) if spec is not None and spec.is_always_on else label

    @admin.display(description=_("essai"))
    def trial(self, tool: Any) -> SafeString:
        return link(admin_url(ToolOverride, "call", tool.pk), _("Essayer cet outil"))

    @admin.display(description=_("droits demandés"))
    def rights(self, tool: Any) -> str:
        spec: ToolSpec | None = tool.effective
        if spec is None or not spec.tags:
            return gettext("tout le monde") if spec is not None else "–"
        return ", ".join(sorted(str(_TAGS.get(tag, tag)) for tag in spec.tags))

    @admin.display(description=_("qualité"))
    def quality(self, tool: Any) -> SafeString | str:
        if tool.effective is None:
            return "–"
        score, findings = assess_tool(tool.effective)
        first = max(findings, key=lambda f: f.points).text if findings else ""
        return stacked(_score_badge(score), first) if first else _score_badge(score)

    @admin.display(description=_("qualité de la description"))
    def quality_explained(self, tool: Any) -> SafeString | str:
        if tool.effective is None:
            return "–"
        score, findings = assess_tool(tool.effective)
        lost = format_html_join("", "<li>{} (−{})</li>", [(f.text, f.points) for f in findings])
        return format_html("{}<ul>{}</ul>", _score_badge(score), lost)

    @admin.display(description=_("appelé"), ordering="called")
    def calls(self, tool: Any) -> str:
        if not tool.failed:
            return str(tool.called)
        return gettext("%(called)d (dont %(failed)d en échec)") % {"called": tool.called, "failed": tool.failed}

    @admin.display(description=_("dernière erreur"))
    def failure(self, tool: Any) -> str:
        return tool.last_error or "–"

    @admin.display(description=_("description du code"))
    def code_text(self, tool: Any) -> SafeString | str:
        return long_text(tool.declared.description) if tool.declared is not None else "–"

    @admin.display(description=_("ce que le modèle reçoit"))
    def schema(self, tool: Any) -> SafeString | str:
        if tool.effective is None:
            return "–"
        return long_text(json.dumps(tool.effective.as_function(), ensure_ascii=False, indent=2))


def _score_badge(score: int) -> SafeString:
    tone: Tone = "good" if score >= _GOOD else "warning" if score >= _FAIR else "bad"
    return badge(f"{score} / 100", tone)


class ToolSourceForm(forms.ModelForm[ToolSource]):
    """A source; its lists are a line for each host and a box for each group."""

    allowed_hosts = forms.CharField(
        label=_("Hôtes permis"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": _ROWS}),
        help_text=_(
            "Un par ligne, par exemple « api.exemple.fr » : les serveurs que cette source peut appeler, avec leur port "
            "s’il n’est pas habituel."
        ),
    )
    tags = forms.MultipleChoiceField(
        label=_("Droits demandés"),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("Il faut faire partie de tous ces groupes pour utiliser ses outils. Aucun : tout le monde."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tags, hosts = self.instance.tags, self.instance.allowed_hosts
        if "tags" in self.fields:
            stored = tags if isinstance(tags, list) else []
            self.fields["tags"].choices = tag_choices(stored)  # type: ignore[attr-defined]
            self.initial["tags"] = stored
        if "allowed_hosts" in self.fields:
            self.initial["allowed_hosts"] = "\n".join(map(str, hosts or []))
        for name in ("headers", "chosen"):
            if name in self.fields:
                self.fields[name].widget.attrs["rows"] = _ROWS
        self.is_long = len(self.instance.document) > _LONG_DOCUMENT
        if self.is_long and "document" in self.fields:
            self.initial["document"] = ""
            self.fields["document"].help_text = gettext(
                "Le document actuel est trop long pour cette page ; vide, il est gardé."
            )

    def clean_document(self) -> str:
        given: str = self.cleaned_data["document"]
        # The row still holds what is stored: a form of a model fills it afterwards.
        return self.instance.document if self.is_long and not given.strip() else given

    def clean_headers(self) -> dict[str, str]:
        headers: dict[str, str] = self.cleaned_data["headers"] or {}
        if problem := header_problem(headers):
            raise ValidationError(gettext("En-tête refusé : %(problem)s.") % {"problem": problem}, code="invalid")
        return headers

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        if url:
            try:
                host_of(url, ToolSourceError)
            except ToolSourceError as error:
                raise ValidationError(gettext("Une adresse http ou https est attendue."), code="invalid") from error
        return url

    def clean_allowed_hosts(self) -> list[str]:
        return list(dict.fromkeys(self.cleaned_data["allowed_hosts"].split()))


def _readings() -> QuerySet[Job]:
    """The readings that are queued or under way."""
    return Job.objects.filter(kind=JobKind.TOOL_SOURCE, status__in=OPEN_JOBS)


def _read_soon(request: HttpRequest, sources: Iterable[ToolSource]) -> None:
    for source in sources:
        jobs.enqueue(JobKind.TOOL_SOURCE, key=str(source.pk))
        said = gettext("%(source)s : la lecture commence ; cette liste dit où elle en est.")
        messages.info(request, said % {"source": source})


@require_POST
def read_now(request: HttpRequest, source_id: int) -> HttpResponse:
    require(request, "tools_registry.change_toolsource")
    _read_soon(request, visible(request, ToolSource.objects.filter(pk=source_id)))
    return HttpResponseRedirect(admin_url(ToolSource, "changelist"))


@admin.register(ToolSource)
class ToolSourceAdmin(StaffAdmin):
    purpose = _("Serveurs MCP et services OpenAPI dont viennent des outils.")
    form = ToolSourceForm
    change_list_template = "admin/tools_registry/toolsource/change_list.html"
    change_form_template = "admin/tools_registry/toolsource/change_form.html"
    list_display = ("name", "slug", "kind", "tools", "state", "refreshed_at", "is_active")
    list_filter = ("kind", "is_active")
    list_select_related = False
    search_fields = ("name", "slug", "url")
    conditional_fields: ClassVar = {
        "command": "kind == 'mcp_stdio'",
        "url": "kind != 'mcp_stdio'",
        **dict.fromkeys(("document", "chosen"), "kind == 'openapi'"),
    }
    ordering = ("name",)
    actions = ("refresh",)
    own_pages = (("<int:source_id>/read/", read_now, "read"),)
    readonly_fields = ("tools", "refreshed_at", "last_error", "unusable")
    fieldsets = (
        (None, {"fields": ("name", "slug", "kind", "is_active")}),
        (_("Où"), {"fields": ("command", "url", "document", "chosen", "allowed_hosts", "headers")}),
        (_("Droits et bornes"), {"fields": ("tags", "is_personal", "timeout_seconds")}),
        (_("Dernière lecture"), {"fields": ("tools", "refreshed_at", "last_error", "unusable")}),
    )

    annotations: ClassVar = {
        "is_reading": Exists(_readings().filter(key=Cast(OuterRef("pk"), CharField()))),
        "present": Count("tools", filter=Q(tools__is_present=True)),
        "allowed": Count("tools", filter=Q(tools__is_present=True, tools__is_active=True)),
    }

    def get_queryset(self, request: HttpRequest) -> QuerySet[ToolSource]:
        sources: QuerySet[ToolSource] = super().get_queryset(request)
        return sources.defer("document")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        shown = {"refresh_seconds": REFRESH_SECONDS if _readings().exists() else 0}
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """A new source is read at once."""
        super().save_model(request, obj, form, change)
        if not change:
            _read_soon(request, [obj])

    @admin.action(description=_("Lire la liste des outils"), permissions=["change"])
    def refresh(self, request: HttpRequest, queryset: QuerySet[ToolSource]) -> None:
        _read_soon(request, queryset)

    @admin.display(description=_("outils permis"))
    def tools(self, source: Any) -> SafeString | str:
        if source.pk is None:
            return "–"
        address = admin_url(ToolOverride, "changelist", source__id__exact=source.pk)
        return link(address, f"{source.allowed} / {source.present}")

    @admin.display(description=_("état"))
    def state(self, source: Any) -> SafeString:
        if source.is_reading:
            return badge(gettext("en lecture"), "busy")
        if source.last_error:
            return stacked(badge(gettext("en erreur"), "bad"), source.last_error[:200])
        if source.refreshed_at is None:
            return badge(gettext("jamais lue"), "warning")
        if source.problems:
            count = len(source.problems)
            text = ngettext("%(count)d outil écarté", "%(count)d outils écartés", count)
            return stacked(badge(gettext("lue"), "good"), text % {"count": count})
        return badge(gettext("lue"), "good")

    @admin.display(description=_("outils écartés"))
    def unusable(self, source: ToolSource) -> SafeString | str:
        """What the model is not offered, and why."""
        return bullets("{} : {}", [tuple(row[:2]) for row in source.problems])
