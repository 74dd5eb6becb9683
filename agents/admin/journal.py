"""The journal: who changed what, before and after, with a button that takes a change of a setting or a text back."""

from typing import Any

import auditlog.admin  # noqa: F401  # its page is taken out below, whichever of the two is loaded first
from auditlog.models import LogEntry
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import FieldDoesNotExist, PermissionDenied, ValidationError
from django.db import IntegrityError
from django.db.models import F, Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import NoReverseMatch, URLPattern, path
from django.utils import formats, timezone
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from agents.admin_base import ReadOnlyAdmin, admin_url, clipped, require, require_no_limit, signed_in
from agents.errors import ApplicationError
from agents.history import INDEX_IN_SERVICE, LOGGED, MASK, PHRASINGS, restorable, take_back
from agents.settings import SITE_KNOBS

ORIGINS = {
    "admin": _("administration"),
    "api": _("interface de programmes"),
    "page": _("page"),
    "import": _("import"),
    "restore": _("restauration"),
    "worker": _("tâche de fond"),
    "command": _("commande"),
}
_COLUMN_NAMES = {
    "file_hash": _("Empreinte du fichier"),
    INDEX_IN_SERVICE: _("Index en service (retour en arrière)"),
    PHRASINGS: _("Autres formulations"),
}
_ACTIONS = {0: _("créé"), 1: _("modifié"), 2: _("supprimé"), 3: _("consulté")}

admin.site.unregister(LogEntry)


class _KindFilter(admin.SimpleListFilter):
    title = _("objet")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        kinds = {label: _kind_name(ContentType.objects.get_by_natural_key(*label.split("."))) for label in LOGGED}
        return sorted(kinds.items(), key=lambda kind: kind[1])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        label = self.value()
        if label not in LOGGED:
            return queryset
        return queryset.filter(content_type=ContentType.objects.get_by_natural_key(*label.split(".")))


@admin.register(LogEntry)
class JournalAdmin(ReadOnlyAdmin):
    purpose = _("Qui a changé quoi, quand et par où ; un réglage ou un texte se rétablit d’un bouton.")
    change_form_template = "admin/auditlog/logentry/change_form.html"
    list_display = ("when", "who", "origin", "what", "changed")
    list_display_links = ("when", "what")
    list_filter = (_KindFilter, "action", ("actor", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("content_type", "actor")
    search_fields = ("object_repr", "=object_pk", "additional_data__who")
    date_hierarchy = "timestamp"
    ordering = ("-timestamp", "-id")
    show_full_result_count = False
    fields = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[LogEntry]:
        return _readable(request, super().get_queryset(request))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup in ("object_pk", "content_type__id__exact") or super().lookup_allowed(lookup, value, request)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(restore_change)
        return [path("<int:pk>/restore/", view, name="auditlog_logentry_restore"), *super().get_urls()]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        line: LogEntry = kwargs["obj"]
        may = restorable(line) and _may_restore(request, line)
        moment = formats.date_format(timezone.localtime(line.timestamp), "DATETIME_FORMAT")
        context |= {
            "said": f"{self.what(line)} · {_ACTIONS[line.action]}",
            "meta": " · ".join(filter(None, (moment, self.who(line), self.origin(line)))),
            "rows": _shown_changes(line),
            "object_url": _object_url(line),
            "restore_url": admin_url(LogEntry, "restore", line.pk) if may else "",
        }
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("quand"), ordering="timestamp")
    def when(self, line: LogEntry) -> str:
        return formats.date_format(timezone.localtime(line.timestamp), "SHORT_DATETIME_FORMAT")

    @admin.display(description=_("qui"), ordering=F("actor__username").asc(nulls_last=True))
    def who(self, line: LogEntry) -> str:
        return str((line.additional_data or {}).get("who") or line.actor or "–")

    @admin.display(description=_("par où"))
    def origin(self, line: LogEntry) -> str:
        name = (line.additional_data or {}).get("origin", "")
        return str(ORIGINS.get(name, name))

    @admin.display(description=_("objet"), ordering="object_repr")
    def what(self, line: LogEntry) -> str:
        return f"{_kind_name(line.content_type)} : {Truncator(line.object_repr).chars(80)}"

    @admin.display(description=_("changement"))
    def changed(self, line: LogEntry) -> Any:
        if line.action != LogEntry.Action.UPDATE:
            return _ACTIONS[line.action]
        return clipped(" ; ".join(f"{name} : {new}" for name, _old, new in _shown_changes(line)))


def _readable(request: HttpRequest, lines: QuerySet[LogEntry]) -> QuerySet[LogEntry]:
    """Lines about rows that the reader may look at in the pages on which they stand."""
    kinds = []
    for label, rule in LOGGED.items():
        options = admin.site._registry[apps.get_model(rule.page or label)]
        if options.has_view_permission(request):
            kinds.append(ContentType.objects.get_by_natural_key(*label.split(".")).pk)
    return lines.filter(content_type__in=kinds)


def _shown_changes(line: LogEntry) -> list[tuple[str, str, str]]:
    """Column, before, after; of related rows what was added or taken. Without what nobody sees: empty in place of none."""
    rows = []
    for name, change in sorted((line.changes or {}).items()):
        label, choices = _column(line, name)
        if isinstance(change, dict):
            objects = ", ".join(map(str, change.get("objects", ())))
            change = ("", objects) if change.get("operation") == "add" else (objects, "")
        before, after = (_shown(choices.get(each, each) if isinstance(each, str) else each) for each in change[:2])
        if before != after or MASK in (before, after):
            rows.append((label, before, after))
    return rows


def _column(line: LogEntry, name: str) -> tuple[str, dict[Any, Any]]:
    """What a column is called, and its values where it has choices."""
    if name in _COLUMN_NAMES:
        return str(_COLUMN_NAMES[name]), {}
    if name in SITE_KNOBS and line.content_type.app_label == "agents":
        return str(capfirst(str(SITE_KNOBS[name].label))), dict(SITE_KNOBS[name].choices)
    model = line.content_type.model_class()
    try:
        field: Any = model._meta.get_field(name) if model else None
        return str(capfirst(field.verbose_name)), dict(getattr(field, "flatchoices", ()))
    except (FieldDoesNotExist, AttributeError):
        # A column of an earlier release, or of the other side of a relation.
        return name, {}


def _kind_name(kind: ContentType) -> str:
    model = kind.model_class()
    return str(capfirst(model._meta.verbose_name)) if model is not None else kind.model


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return gettext("oui") if value else gettext("non")
    return "–" if value in (None, "") else str(value)


def _object_url(line: LogEntry) -> str:
    model = line.content_type.model_class()
    if model is None or not model._default_manager.filter(pk=line.object_pk).exists():
        return ""
    try:
        return admin_url(model, "change", line.object_pk)
    except NoReverseMatch:
        return ""


def _may_restore(request: HttpRequest, line: LogEntry) -> bool:
    """The right to change such a row, and this one."""
    model: type[Model] | None = line.content_type.model_class()
    options = admin.site._registry.get(model) if model is not None else None
    if model is None:
        return False
    row = model._default_manager.filter(pk=line.object_pk).first()
    if row is None:
        return False
    may = request.user.has_perm(f"{model._meta.app_label}.change_{model._meta.model_name}")
    if options is None or isinstance(options, ReadOnlyAdmin):
        return may
    return may and options.has_change_permission(request, row)


@require_POST
def restore_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Put back what stood before one change."""
    require(request, "auditlog.view_logentry")
    require_no_limit(request)
    lines = _readable(request, LogEntry.objects.select_related("content_type"))
    line = get_object_or_404(lines, pk=pk)
    if not restorable(line):
        raise Http404(gettext("Ce changement ne se rétablit pas."))
    if not _may_restore(request, line):
        raise PermissionDenied
    try:
        take_back(line, by=signed_in(request))
    except (ValidationError, IntegrityError) as error:
        reasons = error.messages if isinstance(error, ValidationError) else [gettext("La base refuse ces valeurs.")]
        for reason in reasons:
            messages.error(request, reason)
    except ApplicationError as error:
        messages.error(request, str(error.public_message))
    else:
        messages.success(request, gettext("Les valeurs d’avant sont rétablies."))
    return HttpResponseRedirect(admin_url(LogEntry, "change", pk))
