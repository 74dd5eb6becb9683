"""The journal: who changed what, before and after, with a button that restores a setting or a text."""

from typing import Any

import auditlog.admin  # noqa: F401  # its page is taken out below, whichever of the two is loaded first
from auditlog.models import LogEntry
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import NoReverseMatch
from django.utils import formats, timezone
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from agents.admin_base import ReadOnlyAdmin, admin_url, clipped, moment_text, require, require_no_limit
from agents.errors import ApplicationError
from agents.history import INDEX_IN_SERVICE, LOGGED, MASK, PHRASINGS, may_restore, restorable, restore
from agents.models import OVERLAY_KNOBS
from agents.settings import SITE_KNOBS

_COLUMN_NAMES = {
    "file_hash": _("Fichier"),
    INDEX_IN_SERVICE: _("Index en service (retour en arrière)"),
    PHRASINGS: _("Autres formulations"),
}
_Used = admin.RelatedOnlyFieldListFilter
_ACTIONS = {0: _("créé"), 1: _("modifié"), 2: _("supprimé"), 3: _("consulté")}

admin.site.unregister(LogEntry)


@require_POST
def restore_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Restore what stood before one change."""
    require(request, "auditlog.view_logentry")
    require_no_limit(request)
    line = get_object_or_404(_readable(request, LogEntry.objects.select_related("content_type")), pk=pk)
    try:
        restore(line, by=request.user)
        messages.success(request, gettext("Les valeurs d’avant sont rétablies."))
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
    except ApplicationError as error:
        messages.error(request, str(error.public_message))
    return HttpResponseRedirect(admin_url(LogEntry, "change", pk))


@admin.register(LogEntry)
class JournalAdmin(ReadOnlyAdmin):
    purpose = _("Qui a changé quoi, et quand ; un réglage ou un texte se rétablit d’un bouton.")
    change_form_template = "admin/auditlog/logentry/change_form.html"
    list_display = ("when", "who", "what", "changed")
    list_display_links = ("when", "what")
    list_filter = (("content_type", _Used), "action", ("actor", _Used))
    list_select_related = ("content_type", "actor")
    search_fields = ("object_repr", "=object_pk", "additional_data__who")
    date_hierarchy = "timestamp"
    ordering = ("-timestamp", "-id")
    show_full_result_count = False
    fields = ()
    own_pages = (("<int:pk>/restore/", restore_change, "restore"),)

    def get_queryset(self, request: HttpRequest) -> QuerySet[LogEntry]:
        return _readable(request, super().get_queryset(request))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup in ("object_pk", "content_type__id__exact") or super().lookup_allowed(lookup, value, request)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        may = restorable(row) and may_restore(row, request.user)
        moment = formats.date_format(timezone.localtime(row.timestamp), "DATETIME_FORMAT")
        return {
            "said": f"{self.what(row)} · {_ACTIONS[row.action]}",
            "meta": " · ".join(filter(None, (moment, self.who(row)))),
            "rows": _shown_changes(row),
            "object_url": _object_url(row),
            "restore_url": admin_url(LogEntry, "restore", row.pk) if may else "",
        }

    @admin.display(description=_("quand"), ordering="timestamp")
    def when(self, line: LogEntry) -> str:
        return moment_text(line.timestamp)

    @admin.display(description=_("qui"), ordering=F("actor__username").asc(nulls_last=True))
    def who(self, line: LogEntry) -> str:
        return str((line.additional_data or {}).get("who") or line.actor or "–")

    @admin.display(description=_("objet"), ordering="object_repr")
    def what(self, line: LogEntry) -> str:
        return f"{capfirst(line.content_type.name)} : {Truncator(line.object_repr).chars(80)}"

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
        if name in ("file_hash", "logo"):  # hashes
            was, now = (gettext("un fichier") if each else "" for each in change)
            change = (was, gettext("un autre") if was and now else now)
        before, after = (_shown(choices.get(each, each) if isinstance(each, str) else each) for each in change[:2])
        if before != after or MASK in (before, after):
            rows.append((label, before, after))
    return rows


def _column(line: LogEntry, name: str) -> tuple[str, dict[Any, Any]]:
    """What a column is called, and its values where it has choices."""
    if name in _COLUMN_NAMES:
        return str(_COLUMN_NAMES[name]), {}
    knob = SITE_KNOBS.get(name) or OVERLAY_KNOBS.get(name)
    if knob is not None and line.content_type.app_label == "agents":
        return str(capfirst(str(knob.label))), knob.choices
    model = line.content_type.model_class()
    try:
        field: Any = model._meta.get_field(name) if model else None
        return str(capfirst(field.verbose_name)), dict(getattr(field, "flatchoices", ()))
    except (FieldDoesNotExist, AttributeError):
        # A column of an earlier release, or of the other side of a relation.
        return name, {}


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return gettext("oui") if value else gettext("non")
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "–"
    return formats.localize(value) if isinstance(value, float) else str(value if value not in (None, "") else "–")


def _object_url(line: LogEntry) -> str:
    model = line.content_type.model_class()
    if model is None or not model._default_manager.filter(pk=line.object_pk).exists():
        return ""
    try:
        return admin_url(model, "change", line.object_pk)
    except NoReverseMatch:
        return ""
