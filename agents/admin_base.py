"""What the admin pages of every app share: rows that are only looked at, links, and small pieces of markup.

Markup made here is escaped (`format_html`); its classes are those of the admin theme, or of `agents/admin.css`.
"""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlencode

from auditlog.models import LogEntry as JournalLine
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.admin.options import get_content_type_for_model
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ERROR_FLAG
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import FieldDoesNotExist, PermissionDenied, ValidationError
from django.db import DataError
from django.db.models import Field, JSONField, Model, QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext

from agents.history import LOGGED
from agents.models import JobStatus
from agents.roles import OWNED, limit_of, may_reach, visible, within
from agents.texts import storable_value

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

    # The theme ships no types; to the checker its classes are those they extend.
    ThemedAdmin = ModelAdmin[Any]
    ThemedInline = admin.TabularInline[Any, Any]
else:
    from unfold.admin import ModelAdmin as ThemedAdmin
    from unfold.admin import TabularInline as ThemedInline

logger = logging.getLogger(__name__)

#: Rows that one action of the admin deletes for good; a form names at most a thousand.
ADMIN_MAX_DELETED = 500
#: Of a search in the admin, so many words and characters count: each word is a condition on every searched column.
ADMIN_SEARCH_MAX_WORDS = 20
ADMIN_SEARCH_MAX_CHARACTERS = 500

Tone = Literal["neutral", "good", "warning", "bad", "busy"]
JOB_TONES: dict[str, Tone] = {
    JobStatus.RUNNING: "busy",
    JobStatus.DONE: "good",
    JobStatus.PARTLY_FAILED: "bad",
    JobStatus.FAILED: "bad",
}
#: How often the page of a job that is not over asks again.
REFRESH_SECONDS = 3


class _OwnAgentsOnly:
    """Forms offer whoever is limited to agents (`agents.roles`) nothing of the others."""

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        return _narrowed(super().formfield_for_dbfield(db_field, request, **kwargs), request)  # type: ignore[misc]


def _narrowed(field: Any, request: HttpRequest) -> Any:
    choices = getattr(field, "queryset", None)
    if choices is not None and choices.model._meta.label_lower in OWNED:
        field.queryset = visible(request, choices)
    return field


class _StorableJSONField(forms.JSONField):
    """Half a character, or a NUL, is no error of the server: PostgreSQL stores neither."""

    def to_python(self, value: Any) -> Any:
        return storable_value(super().to_python(value))


class _OwnRowsFilter(admin.RelatedFieldListFilter):
    """A filter by what agents own names, to whoever works on some agents, those of their own."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> Any:
        related = field.remote_field.model
        if limit_of(request.user) is None or related._meta.label_lower not in OWNED:
            return super().field_choices(field, request, model_admin)
        return field.get_choices(
            include_blank=False,
            ordering=self.field_admin_ordering(field, request, model_admin),
            limit_choices_to={"pk__in": visible(request, related._default_manager.all()).values("pk")},
        )


admin.FieldListFilter.register(lambda field: bool(field.remote_field), _OwnRowsFilter, take_priority=True)


class StaffInline(_OwnAgentsOnly, ThemedInline):
    """Rows within the page of another."""


class StaffAdmin(_OwnAgentsOnly, ThemedAdmin):
    """Bounded searches, no look-up in what no form shows, its reader's rows alone (`agents.roles`)."""

    formfield_overrides: ClassVar[Any] = {JSONField: {"form_class": _StorableJSONField}}
    #: What its list is for, in words; the list and the page « Avancé » say it.
    purpose: Any = ""
    #: Whether its rows are deleted from their own pages.
    is_erasable = True
    list_before_template = "admin/purpose.html"
    #: What its columns show beside what a row holds: counts, and texts of other tables.
    annotations: ClassVar[dict[str, Any]] = {}
    #: Pages beside the list: the address below the list's, the view, and the page's name (as `admin_url` takes it).
    own_pages: Iterable[tuple[str, Callable[..., Any], str]] = ()

    def get_urls(self) -> list[Any]:
        prefix, wrap = f"{self.opts.app_label}_{self.opts.model_name}", self.admin_site.admin_view
        pages = [path(address, wrap(view), name=f"{prefix}_{name}") for address, view, name in self.own_pages]
        return [*pages, *super().get_urls()]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """What the template of a row's page is told beside what Django tells it; without a row, one is added."""
        return {}

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        context |= self.page_context(request, kwargs.get("obj"))
        return super().render_change_form(request, context, *args, **kwargs)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = visible(request, super().get_queryset(request)).annotate(**self.annotations)
        return rows

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Fields that a form declares itself, and those of the model, offer what the reader works on."""
        made = super().get_form(request, obj, change=change, **kwargs)
        if limit_of(request.user) is not None:
            for name in made.declared_fields:
                # The form's own field serves others too.
                made.base_fields[name] = _narrowed(deepcopy(made.base_fields[name]), request)
        return made

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may_reach(request, self.model, change=False) and super().has_module_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_reach(request, self.model, change=False) and super().has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may_reach(request, self.model, change=True) and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_reach(request, self.model, change=True) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """From pages of this model where `is_erasable`; with a row of another, of which Django asks too, always."""
        page = request.resolver_match.url_name if request.resolver_match else ""
        if (page or "").startswith(f"{self.opts.app_label}_{self.opts.model_name}_"):
            may = self.is_erasable and self.has_view_permission(request, obj)
        else:
            may = True
        return may and may_reach(request, self.model, change=True) and super().has_delete_permission(request, obj)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """A value that no row can have leads to the whole list; filters look it up as late as the page is drawn."""
        if not may_reach(request, self.model, change=request.method == "POST"):
            raise PermissionDenied
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
        try:
            if not chosen:
                response = super().changelist_view(request, extra_context)
                return response.render() if isinstance(response, TemplateResponse) else response
            self.model._default_manager.filter(pk__in=chosen).exists()
        except (ValueError, OverflowError, ValidationError, DataError):
            if not chosen and not set(request.GET) - {ERROR_FLAG}:
                raise  # Nobody gave a value: it is a fault of ours.
            logger.warning("The list %s cannot be drawn as asked for.", self.opts.label, exc_info=True)
            return HttpResponseRedirect(f"{request.path}?{ERROR_FLAG}=1")
        return super().changelist_view(request, extra_context)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The row's lines of the journal, which can be restored, where it has any and the reader may open it."""
        # Rows of a proxy are logged as rows of its table.
        kind = ContentType.objects.get_for_model(self.model)
        is_logged = f"{kind.app_label}.{kind.model}" in LOGGED
        may_read = request.user.has_perm("auditlog.view_logentry") and may_reach(request, JournalLine, change=False)
        if not (is_logged and may_read):
            return super().history_view(request, object_id, extra_context)
        found = {"content_type__id__exact": kind.pk, "object_pk": unquote(object_id)}
        return HttpResponseRedirect(admin_url(JournalLine, "changelist", **found))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By the first words only; a NUL, which some databases refuse, is in none of them."""
        words = search_term.replace("\0", "")[:ADMIN_SEARCH_MAX_CHARACTERS].split(" ")
        return super().get_search_results(request, queryset, " ".join(words[:ADMIN_SEARCH_MAX_WORDS]))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """A column that no form shows (a hash, a token) is looked up only where the list offers it."""
        if not super().lookup_allowed(lookup, value, request) or not _PATTERNS.isdisjoint(lookup.split(LOOKUP_SEP)):
            return False
        name, _sep, rest = lookup.partition(LOOKUP_SEP)
        try:
            column = self.opts.pk if name == "pk" else self.opts.get_field(name)
        except FieldDoesNotExist:
            return True
        if isinstance(column, JSONField) and rest:
            return False  # a value inside could be guessed bit by bit
        # What Django lets through of other tables is what the list offers.
        if not isinstance(column, Field) or column.primary_key or column.editable:
            return True
        if column.is_relation and rest in _WHOLE_ROW:
            return True
        filters = (f[0] if isinstance(f, tuple | list) else f for f in self.get_list_filter(request))
        return name == self.date_hierarchy or name in filters


#: How no filter and no link of ours compares: patterns cost what their writer likes.
_PATTERNS = frozenset("regex iregex contains icontains startswith istartswith endswith iendswith iexact range".split())
#: Look-ups of a related row by its number, which our own links use.
_WHOLE_ROW = ("", "exact", "id__exact", "pk__exact")
_DATABASE_KEY = re.compile(r"[0-9]{1,18}")


class ReadOnlyAdmin(StaffAdmin):
    """Rows that the program writes: no page adds or changes one. They are erasable where people's words stand."""

    is_erasable = False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, Any] = super().get_actions(request)
        if (name := "delete_selected") in actions:
            actions[name] = (_delete_some, name, gettext("Supprimer la sélection"))
        return actions

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        """The log says that a row was deleted, by whom and which; the words that were to go are not its name there."""
        logged = super().log_deletions(request, queryset)
        LogEntry.objects.filter(
            content_type=get_content_type_for_model(self.model),
            object_id__in=[str(row.pk) for row in queryset],
            action_flag=DELETION,
        ).update(object_repr=str(self.opts.verbose_name))
        return logged

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        context["title"] = capfirst(self.opts.verbose_name)
        return super().render_change_form(request, context, *args, **kwargs)


def _delete_some(model_admin: ReadOnlyAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> TemplateResponse | None:
    """Django's own action, within what one request may name and one transaction should do."""
    if queryset.count() > ADMIN_MAX_DELETED:
        text = gettext("Supprimez %(limit)d éléments au plus à la fois.")
        model_admin.message_user(request, text % {"limit": ADMIN_MAX_DELETED}, messages.ERROR)
        return None
    return delete_selected(model_admin, request, queryset)


class ConditionFilter(admin.SimpleListFilter):
    """A filter of our own: for each of its values the words, and what it keeps of the rows."""

    conditions: ClassVar[dict[str, tuple[Any, Callable[[QuerySet[Any]], QuerySet[Any]]]]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(value, words) for value, (words, _keep) in self.conditions.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        _words, keep = self.conditions.get(self.value() or "", ("", None))
        return queryset if keep is None else keep(queryset)


def database_keys(texts: Iterable[str]) -> list[int]:
    """Keys out of an address or a form; whatever no database takes for one is left out."""
    return [int(text) for text in texts if _DATABASE_KEY.fullmatch(text)]


def require(request: HttpRequest, *permissions: str, row: Model | None = None) -> None:
    """End a page here for who lacks a right to it, or does not work on the agent of its row."""
    if not request.user.has_perms(permissions):
        raise PermissionDenied
    if row is not None and not within(request, row):
        raise Http404


def require_no_limit(request: HttpRequest) -> None:
    """End a page here for who works on some agents only."""
    if limit_of(request.user) is not None:
        raise PermissionDenied


def admin_page(request: HttpRequest, template: str, *, model: type[Model], **context: Any) -> TemplateResponse:
    """A page of the admin that is no form of one row; it stands among the pages of `model`."""
    return TemplateResponse(request, template, {**admin.site.each_context(request), "opts": model._meta, **context})


def admin_url(model: type[Model] | str, page: str, *args: Any, **query: Any) -> str:
    """The address of an admin page: `admin_url("knowledge.document", "changelist", agent__id__exact=3)`."""
    label = model if isinstance(model, str) else model._meta.label_lower
    address = reverse(f"admin:{label.lower().replace('.', '_')}_{page}", args=args)
    return f"{address}?{urlencode(query, doseq=True)}" if query else address


def signed_in(request: HttpRequest) -> AbstractBaseUser | None:
    """Who acts; the views of the admin are behind its sign-in."""
    return request.user if isinstance(request.user, AbstractBaseUser) else None


def change_link(row: Model | None) -> SafeString | str:
    """A link to a row's own page, or a dash where there is none."""
    if row is None:
        return "–"
    return link(admin_url(type(row), "change", quote(row.pk)), str(row))


def linked(row: str, words: Any, *, ordering: str | None = None) -> Callable[[Any, Any], Any]:
    """A column that leads to the row at that path, such as `"conversation.deployment"`."""

    @admin.display(description=words, ordering=ordering)
    def column(_admin: Any, of: Any) -> SafeString | str:
        return change_link(attrgetter(row)(of))

    return column


def open_to(*rights: str) -> Callable[[Any, HttpRequest], bool]:
    """Whether a user has all of these rights: the `has_…_permission` of an action of ours."""
    return lambda _admin, request: request.user.has_perms(rights)


def link(address: str, text: Any) -> SafeString:
    return format_html('<a href="{}" class="text-link underline">{}</a>', address, text)


def count_link(count: int, address: str) -> SafeString | str:
    """A count that leads to the rows counted; zero leads nowhere."""
    return link(address, count) if count else "0"


def progress_bar(percent: int, text: str) -> SafeString:
    return format_html(
        '<span class="rp-progress"><span class="rp-progress-track" role="progressbar" aria-label="{2}" aria-valuenow="{0}" '
        'aria-valuemin="0" aria-valuemax="100"><span style="width:{0}%"></span></span><span>{1}</span></span>',
        percent,
        text,
        gettext("Avancement"),
    )


def badge(text: Any, tone: Tone = "neutral") -> SafeString:
    """A short state; the tone only repeats what the text says."""
    return format_html('<span class="rp-badge rp-badge--{}">{}</span>', tone, text)


def clipped(text: str, characters: int = 140) -> SafeString:
    """The beginning of a text, on one line of a list."""
    return format_html('<span class="rp-clip">{}</span>', Truncator(text).chars(characters))


def stacked(first: Any, second: Any) -> SafeString:
    """Two pieces in one cell, one under the other: a state and its reason."""
    return format_html('<span class="rp-stack"><span>{}</span><span class="rp-clip">{}</span></span>', first, second)


def rounded(number: float, digits: int) -> str:
    """A number in the reader's notation. (`number_format` alone cuts digits off instead of rounding.)"""
    return formats.number_format(round(number, digits), digits)


def long_text(text: str) -> SafeString | str:
    """A text of many lines, as it was written."""
    return format_html('<div class="rp-text">{}</div>', text) if text else "–"


def bullets(item: str, rows: Iterable[Sequence[Any]]) -> SafeString | str:
    """A list with one item a row, or a dash where there is no row; `item` is the markup of one."""
    items = format_html_join("", f"<li>{item}</li>", rows)
    return format_html('<ul class="rp-text">{}</ul>', items) if items else "–"


def moment_text(moment: datetime) -> str:
    return formats.date_format(timezone.localtime(moment), "SHORT_DATETIME_FORMAT")


def duration_text(seconds: float) -> str:
    """« 3 min 20 s »."""
    whole = max(0, round(seconds))
    if whole < 60:
        return gettext("%(seconds)d s") % {"seconds": whole}
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return gettext("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": rest}
    hours, minutes = divmod(minutes, 60)
    return gettext("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}
