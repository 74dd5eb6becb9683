"""Categories, documents, passages and indexations, as staff see them.

Passages are edited beside what their document says; indexations are only looked at. What takes time is queued by the verbs of
`knowledge.indexing`, and its progress is a page of its own. The rows of the table vector store have no page.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import get_language_info, gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from agents.admin_base import (
    ReadOnlyAdmin,
    StaffAdmin,
    Tone,
    admin_url,
    badge,
    change_link,
    count_link,
    link,
    long_text,
    progress_bar,
    rounded,
    stacked,
)
from agents.inheritance import ModelProfile, register_profile_source
from agents.models import Agent
from knowledge import admin_views
from knowledge.calibrated import load_calibrations
from knowledge.calibration import Rate, threshold_profile
from knowledge.editing import document_text, edit_chunk
from knowledge.embeddings.base import embedder
from knowledge.exceptions import KnowledgeError
from knowledge.forms import ChunkForm, DocumentForm, WebSourceForm
from knowledge.indexing.documents import store_document
from knowledge.indexing.jobs import (
    enqueue_documents,
    enqueue_refresh,
    enqueue_sync,
    leftover_points,
)
from knowledge.indexing.refresh import next_reading
from knowledge.models import (
    BuildStatus,
    Category,
    Chunk,
    Document,
    DocumentStatus,
    IndexBuild,
    OverlapKind,
    PageState,
    PairVerdict,
    QuestionOverlap,
    ThresholdCalibration,
    UnitsOrigin,
    WebPage,
    WebSource,
)

#: How often the page of an indexation that is not over asks again.
REFRESH_SECONDS = 3
#: An indexation that nobody has taken for this long has probably no worker.
UNCLAIMED_AFTER = timedelta(seconds=60)
_DOCUMENT_TONES: dict[str, Tone] = {
    DocumentStatus.PENDING: "busy",
    DocumentStatus.INDEXED: "good",
    DocumentStatus.FAILED: "bad",
}
_BUILD_TONES: dict[str, Tone] = {
    BuildStatus.QUEUED: "neutral",
    BuildStatus.RUNNING: "busy",
    BuildStatus.DONE: "good",
    BuildStatus.STAGED: "warning",
    BuildStatus.FAILED: "bad",
    BuildStatus.CANCELLED: "neutral",
}
_ORIGIN_TONES: dict[str, Tone] = {
    UnitsOrigin.WAITING: "warning",
    UnitsOrigin.FOUND: "good",
    UnitsOrigin.GENERATED: "busy",
    UnitsOrigin.STAFF: "good",
}


def _profile_in_use() -> ModelProfile:
    """The measured thresholds of the embedding model in use, for the settings pages of `agents`."""
    model = embedder().recipe.model
    load_calibrations()
    profile = threshold_profile(model)
    if profile is None:
        return ModelProfile(model=model, thresholds={})
    return ModelProfile(
        model=model,
        thresholds={
            "direct_answer_threshold": profile.direct_answer,
            "guard_rail_threshold": profile.guard_rail,
            "memory_threshold": profile.memory,
        },
    )


register_profile_source(_profile_in_use)


@admin.register(Category)
class CategoryAdmin(StaffAdmin):
    list_display = ("name", "documents")
    list_filter = ()
    list_select_related = False
    search_fields = ("name",)
    ordering = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Category]:
        categories: QuerySet[Category] = super().get_queryset(request)
        return categories.annotate(document_count=Count("document"))

    @admin.display(description=_("documents"), ordering="document_count")
    def documents(self, category: Any) -> str:
        return count_link(
            category.document_count,
            admin_url(Document, "changelist", category__id__exact=category.pk),
        )


@admin.register(Document)
class DocumentAdmin(StaffAdmin):
    form = DocumentForm
    change_list_template = "admin/knowledge/document/change_list.html"
    show_add_link = False  # the page has a button with a text instead
    list_display = (
        "name",
        "state",
        "agent",
        "category",
        "source_type",
        "language_name",
        "passages",
        "indexed_at",
    )
    list_filter = (
        "status",
        "enabled",
        "page__state",
        "agent",
        "category",
        "source_type",
        "language",
        ("page__source", AutocompleteSelectFilter),
    )
    list_select_related = ("agent", "category", "page")
    search_fields = ("name", "title")
    ordering = ("name",)
    actions = ("index_again",)
    readonly_fields = (
        "name",
        "title",
        "agent",
        "source_type",
        "language_name",
        "state",
        "passages",
        "page_link",
        "page_source",
        "page_checked",
        "file_link",
        "created_at",
        "indexed_at",
    )
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "state",
                    "name",
                    "title",
                    "agent",
                    "source_type",
                    "language_name",
                    "passages",
                )
            },
        ),
        (_("Modifier"), {"fields": ("category", "enabled", "replacement")}),
        (_("Fichier"), {"fields": ("file_link", "created_at", "indexed_at")}),
    )
    page_fieldset = (_("Page du web"), {"fields": ("page_link", "page_source", "page_checked")})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Document]:
        documents: QuerySet[Document] = super().get_queryset(request)
        return documents.annotate(
            chunk_count=Count("chunks"),
            waiting_count=Count("chunks", filter=Q(chunks__units_origin=UnitsOrigin.WAITING)),
        )

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Who may only look has no file to choose, and a page is replaced by its next reading alone."""
        first, edited, last = self.fieldsets
        if not self.has_change_permission(request, obj):
            edited = (_("Réglages"), {"fields": ("category", "enabled")})
        elif isinstance(obj, Document) and obj.url:
            edited = (_("Modifier"), {"fields": ("category", "enabled")})
        if isinstance(obj, Document) and obj.url:
            return (first, edited, self.page_fieldset, last)
        return (first, edited, last)

    def get_urls(self) -> list[URLPattern]:
        download = path(
            "<int:document_id>/file/",
            self.admin_site.admin_view(admin_views.download_file),
            name="knowledge_document_file",
        )
        return [download, *super().get_urls()]

    def add_view(
        self,
        request: HttpRequest,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Documents come as files, one or several at once."""
        return admin_views.add_documents(request)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        file = form.cleaned_data.get("replacement")
        if "enabled" in form.changed_data:
            self.message_user(request, _("L’index suit dans quelques instants."))
        if file is not None:
            store_document(agent=obj.agent, name=obj.name, data=file.read(), category=obj.category)
        if file is not None or "category" in form.changed_data:
            build = enqueue_documents(agent=obj.agent, document_ids=[obj.pk])
            self.message_user(
                request,
                format_html("{} {}", _("Le document va être indexé à nouveau."), _follow(build)),
            )

    @admin.action(description=_("Indexer à nouveau"), permissions=["change"])
    def index_again(self, request: HttpRequest, queryset: QuerySet[Document]) -> None:
        by_agent: defaultdict[Any, list[int]] = defaultdict(list)
        for document in queryset:
            by_agent[document.agent].append(document.pk)
        for agent, keys in by_agent.items():
            build = enqueue_documents(agent=agent, document_ids=keys)
            text = ngettext(
                "%(agent)s : %(count)d document va être indexé à nouveau.",
                "%(agent)s : %(count)d documents vont être indexés à nouveau.",
                len(keys),
            ) % {"agent": agent, "count": len(keys)}
            self.message_user(request, format_html("{} {}", text, _follow(build)))

    @admin.display(description=_("état"), ordering="status")
    def state(self, document: Document) -> SafeString:
        label = badge(
            document.get_status_display(), _DOCUMENT_TONES.get(document.status, "neutral")
        )
        page = _page_of(document)
        if page is not None and page.state not in (PageState.WAITING, PageState.PRESENT):
            tone: Tone = "warning" if document.enabled else "bad"
            label = format_html("{} {}", label, badge(page.get_state_display(), tone))
        if not document.enabled:
            label = format_html("{} {}", label, badge(_("Désactivé"), "warning"))
        reason = document.error or (page.error if page is not None else "")
        return stacked(label, reason) if reason else label

    @admin.display(description=_("adresse"))
    def page_link(self, document: Document) -> SafeString:
        return format_html(
            '<a href="{0}" class="text-link underline" target="_blank" rel="noopener noreferrer nofollow">{0}</a>',
            document.url,
        )

    @admin.display(description=_("suivie par"))
    def page_source(self, document: Document) -> str:
        page = _page_of(document)
        return change_link(page.source if page is not None else None)

    @admin.display(description=_("lue le"))
    def page_checked(self, document: Document) -> str:
        page = _page_of(document)
        if page is None or page.checked_at is None:
            return "–"
        return formats.date_format(timezone.localtime(page.checked_at), "SHORT_DATETIME_FORMAT")

    @admin.display(description=_("langue"), ordering="language", empty_value="–")
    def language_name(self, document: Document) -> str:
        try:
            return str(get_language_info(document.language)["name_translated"])
        except KeyError:  # a language that Django has no name for
            return document.language

    @admin.display(description=_("passages"), ordering="chunk_count")
    def passages(self, document: Any) -> str:
        address = admin_url(Chunk, "changelist", document__id__exact=document.pk)
        counted = count_link(document.chunk_count, address)
        if not document.waiting_count:
            return counted
        waiting = ngettext(
            "dont %(count)d en attente de questions",
            "dont %(count)d en attente de questions",
            document.waiting_count,
        ) % {"count": document.waiting_count}
        return stacked(counted, link(f"{address}&units_origin__exact=waiting", waiting))

    @admin.display(description=_("fichier"))
    def file_link(self, document: Document) -> str:
        if not document.file:
            return "–"
        return link(reverse("admin:knowledge_document_file", args=[document.pk]), _("Télécharger"))


def _page_of(document: Document) -> WebPage | None:
    return getattr(document, "page", None)


@admin.register(WebSource)
class WebSourceAdmin(StaffAdmin):
    """Addresses of the web. Saving one reads it; its pages are documents, which stay when the address is deleted."""

    form = WebSourceForm
    list_display = ("url", "state", "agent", "kind", "pages", "checked_at", "due_at")
    list_filter = ("kind", "is_active", "agent", "category")
    list_select_related = ("agent",)
    search_fields = ("url",)
    ordering = ("url",)
    autocomplete_fields = ("agent", "category")
    actions = ("read_again",)
    readonly_fields = ("state", "pages", "checked_at", "due_at", "readings")
    fieldsets = (
        (None, {"fields": ("agent", "url", "kind", "category", "refresh_hours", "is_active")}),
        (_("Lectures"), {"fields": ("state", "pages", "checked_at", "due_at", "readings")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[WebSource]:
        sources: QuerySet[WebSource] = super().get_queryset(request)
        lost = Q(pages__state__in=(PageState.GONE, PageState.LEFT, PageState.FAILED))
        return sources.annotate(page_count=Count("pages"), lost_count=Count("pages", filter=lost))

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.fieldsets if obj is not None else self.fieldsets[:1]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What an address is, and whose, is said once."""
        return (*self.readonly_fields, "agent", "url", "kind") if obj else self.readonly_fields

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.due_at = next_reading(obj) if change else None
        super().save_model(request, obj, form, change)
        if not change and obj.is_active:
            self._read(request, [obj])

    @admin.action(description=_("Relire maintenant"), permissions=["change"])
    def read_again(self, request: HttpRequest, queryset: QuerySet[WebSource]) -> None:
        self._read(request, queryset)

    def _read(self, request: HttpRequest, sources: Iterable[WebSource]) -> None:
        for source in sources:
            build = enqueue_refresh(source)
            text = _("%(url)s va être lue.") % {"url": source.url}
            self.message_user(request, format_html("{} {}", text, _follow(build)))

    @admin.display(description=_("état"), ordering="error")
    def state(self, source: WebSource) -> SafeString:
        if source.error:
            return stacked(badge(_("En échec"), "bad"), source.error)
        if not source.is_active:
            return badge(_("Non suivie"))
        if source.checked_at is None:
            return badge(_("Pas encore lue"), "busy")
        return badge(_("Lue"), "good")

    @admin.display(description=_("pages"), ordering="page_count")
    def pages(self, source: Any) -> str:
        address = admin_url(Document, "changelist", page__source__id__exact=source.pk)
        counted = count_link(source.page_count, address)
        if not source.lost_count:
            return counted
        lost = ngettext(
            "dont %(count)d disparue, sortie ou non lue",
            "dont %(count)d disparues, sorties ou non lues",
            source.lost_count,
        ) % {"count": source.lost_count}
        states = ",".join((PageState.GONE, PageState.LEFT, PageState.FAILED))
        return stacked(counted, link(f"{address}&page__state__in={states}", lost))

    @admin.display(description=_("dernières lectures"))
    def readings(self, source: WebSource) -> str:
        builds = source.builds.order_by("-pk")[:5]
        rows = [
            (
                change_link(
                    build,
                    formats.date_format(
                        timezone.localtime(build.created_at), "SHORT_DATETIME_FORMAT"
                    ),
                ),
                build.get_status_display(),
            )
            for build in builds
        ]
        if not rows:
            return "–"
        items = format_html_join("", "<li>{} : {}</li>", rows)
        return format_html('<ul class="rp-text">{}</ul>', items)


class EditedFilter(admin.SimpleListFilter):
    """What staff have changed, and where the document has changed since."""

    title = _("travail de l’équipe")
    parameter_name = "staff"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("conflict", _("Conflit à régler")),
            ("edited", _("Modifié par l’équipe")),
            ("disabled", _("Désactivé")),
            ("rejected", _("Questions écartées")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "conflict":
                return queryset.filter(conflict__isnull=False)
            case "edited":
                return queryset.filter(source__isnull=False)
            case "disabled":
                return queryset.filter(enabled=False)
            case "rejected":
                return queryset.exclude(rejected_units=[])
        return queryset


@admin.register(Chunk)
class ChunkAdmin(StaffAdmin):
    """Passages and their questions. They come from documents, so none is added or deleted here: one is switched off."""

    form = ChunkForm
    change_list_template = "admin/knowledge/chunk/change_list.html"
    change_form_template = "admin/knowledge/chunk/change_form.html"
    list_display = ("excerpt", "document_link", "rank", "category", "origin", "questions", "work")
    list_filter = (
        EditedFilter,
        "units_origin",
        "document__agent",
        ("document", AutocompleteSelectFilter),
        "category",
    )
    list_filter_submit = True
    list_select_related = ("document", "category")
    search_fields = ("content", "parent_context", "document__name", "document__title")
    ordering = ("document", "index")
    actions = ("enable", "disable", "ask_again")
    readonly_fields = (
        "document_link",
        "rank",
        "headings",
        "text",
        "source_text",
        "origin",
        "work",
        "units_list",
        "rejected",
        "summary",
        "keyword_list",
    )
    fieldsets = (
        (None, {"fields": ("seen", ("document_link", "rank"), "work", "enabled", "category")}),
        (_("Texte"), {"fields": ("parent_context", "content", "source_text")}),
        (_("Questions et réponses"), {"fields": ("origin", "units", "rejected")}),
        (_("Résumé"), {"fields": ("summary", "keyword_list")}),
    )
    shown_fieldsets = (
        (None, {"fields": ("document_link", "rank", "work", "headings", "category", "text")}),
        (_("Questions et réponses"), {"fields": ("origin", "units_list", "rejected")}),
        (_("Résumé"), {"fields": ("summary", "keyword_list")}),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    def delete_view(self, request: HttpRequest, *_args: Any, **_kwargs: Any) -> HttpResponse:
        """It would come back with the next reading of its document."""
        raise PermissionDenied

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        context = {"show_delete": False, **(extra_context or {})}
        return super().changeform_view(request, object_id, form_url, context)

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        if not self.has_change_permission(request, obj):
            return self.shown_fieldsets
        if not isinstance(obj, Chunk) or not obj.is_in_conflict:
            return self.fieldsets
        text = (_("Texte"), {"fields": ("parent_context", "content", "source_text", "settled")})
        return (self.fieldsets[0], text, *self.fieldsets[2:])

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("search/", wrap(admin_views.try_search), name="knowledge_chunk_search"),
            path(
                "<int:chunk_id>/resolve/",
                wrap(admin_views.resolve_chunk),
                name="knowledge_chunk_resolve",
            ),
            *super().get_urls(),
        ]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        chunk = kwargs.get("obj")
        if isinstance(chunk, Chunk):
            context["conflict"] = chunk.conflict
            context["before"] = chunk.source
            context["may_resolve"] = self.has_change_permission(request, chunk)
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        data = form.cleaned_data
        obj.enabled, obj.category = data["enabled"], data["category"]
        edit_chunk(
            obj,
            content=data["content"],
            parent_context=data["parent_context"],
            units=data["units"],
            settled=data["settled"],
        )
        self.message_user(request, _("L’index suit dans quelques instants."))

    @admin.action(description=_("Activer"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Chunk]) -> None:
        self._switch(request, queryset, on=True)

    @admin.action(description=_("Désactiver"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Chunk]) -> None:
        self._switch(request, queryset, on=False)

    @admin.action(description=_("Redemander des questions au modèle"), permissions=["change"])
    def ask_again(self, request: HttpRequest, queryset: QuerySet[Chunk]) -> None:
        """Only of passages that wait for some; those of staff and of documents stand."""
        waiting = queryset.filter(units_origin=UnitsOrigin.WAITING)
        by_agent: defaultdict[int, set[int]] = defaultdict(set)
        for agent_id, document_id in waiting.values_list("document__agent", "document"):
            by_agent[agent_id].add(document_id)
        count = waiting.update(asked_with="", rejected_units=[])
        for agent in Agent.objects.filter(pk__in=by_agent):
            enqueue_documents(agent=agent, document_ids=sorted(by_agent[agent.pk]))
        text = ngettext(
            "Des questions vont être demandées pour %(count)d passage.",
            "Des questions vont être demandées pour %(count)d passages.",
            count,
        )
        self.message_user(request, text % {"count": count})

    def _switch(self, request: HttpRequest, queryset: QuerySet[Chunk], *, on: bool) -> None:
        changed = queryset.exclude(enabled=on)
        by_agent: defaultdict[int, set[int]] = defaultdict(set)
        for agent_id, document_id in changed.values_list("document__agent", "document"):
            by_agent[agent_id].add(document_id)
        count = changed.update(enabled=on)
        for agent in Agent.objects.filter(pk__in=by_agent):
            enqueue_sync(agent=agent, document_ids=sorted(by_agent[agent.pk]))
        text = ngettext("%(count)d passage modifié.", "%(count)d passages modifiés.", count)
        self.message_user(request, text % {"count": count})

    @admin.display(description=_("équipe"))
    def work(self, chunk: Chunk) -> SafeString | str:
        states: list[tuple[Any, Tone]] = []
        if chunk.is_in_conflict:
            states.append((_("Conflit à régler"), "bad"))
        if chunk.is_edited:
            states.append((_("Modifié"), "busy"))
        if not chunk.enabled:
            states.append((_("Désactivé"), "warning"))
        return format_html_join(" ", "{}", ((badge(text, tone),) for text, tone in states)) or "–"

    @admin.display(description=_("texte du document"))
    def source_text(self, chunk: Chunk) -> str:
        return long_text(document_text(chunk))

    @admin.display(description=_("questions du modèle qui n’ont pas été gardées"))
    def rejected(self, chunk: Chunk) -> str:
        rows = [
            (each.get("question") or "…", each.get("reason", "")) for each in chunk.rejected_units
        ]
        if not rows:
            return "–"
        items = format_html_join("", "<li>{} <strong>({})</strong></li>", rows)
        return format_html('<ul class="rp-text">{}</ul>', items)

    @admin.display(description=_("texte"), ordering="content")
    def excerpt(self, chunk: Chunk) -> SafeString:
        return format_html('<span class="rp-clip">{}</span>', Truncator(chunk.content).chars(140))

    @admin.display(description=_("document"), ordering="document__name")
    def document_link(self, chunk: Chunk) -> str:
        return change_link(chunk.document)

    @admin.display(description=_("rang"), ordering="index")
    def rank(self, chunk: Chunk) -> int:
        return chunk.index + 1

    @admin.display(description=_("chemin de titres"))
    def headings(self, chunk: Chunk) -> str:
        return long_text(chunk.parent_context)

    @admin.display(description=_("texte"))
    def text(self, chunk: Chunk) -> str:
        return long_text(chunk.content)

    @admin.display(description=_("questions"), ordering="units_origin")
    def origin(self, chunk: Chunk) -> SafeString:
        tone = _ORIGIN_TONES.get(chunk.units_origin, "neutral")
        return badge(chunk.get_units_origin_display(), tone)

    @admin.display(description=_("nombre de questions"))
    def questions(self, chunk: Chunk) -> int:
        return len(chunk.knowledge_units)

    @admin.display(description=_("questions et réponses"))
    def units_list(self, chunk: Chunk) -> str:
        if not chunk.knowledge_units:
            return gettext("Aucune : ce passage n’est trouvé que par son texte.")
        pairs = format_html_join(
            "",
            "<div><dt>{}</dt><dd>{}</dd></div>",
            ((unit.get("question", ""), unit.get("answer", "")) for unit in chunk.knowledge_units),
        )
        return format_html('<dl class="rp-units">{}</dl>', pairs)

    @admin.display(description=_("mots-clés"))
    def keyword_list(self, chunk: Chunk) -> str:
        return ", ".join(map(str, chunk.keywords)) or "–"


@admin.register(QuestionOverlap)
class QuestionOverlapAdmin(ReadOnlyAdmin):
    """Stored questions that ask the same; the answers are corrected in their passages, or the pair is accepted."""

    list_display = ("pair", "finding", "answers", "places", "agent", "decision")
    list_filter = ("kind", "dismissed", "agent")
    list_select_related = ("agent", "first_chunk__document", "second_chunk__document")
    search_fields = ("first_question", "second_question", "first_answer", "second_answer")
    ordering = ("dismissed", "kind", "-similarity")
    actions = ("accept", "reopen")

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("knowledge.change_questionoverlap")

    @admin.action(description=_("Accepter telles quelles"), permissions=["decide"])
    def accept(self, request: HttpRequest, queryset: QuerySet[QuestionOverlap]) -> None:
        self._decide(request, queryset, dismissed=True)

    @admin.action(description=_("Remettre à examiner"), permissions=["decide"])
    def reopen(self, request: HttpRequest, queryset: QuerySet[QuestionOverlap]) -> None:
        self._decide(request, queryset, dismissed=False)

    def _decide(
        self, request: HttpRequest, queryset: QuerySet[QuestionOverlap], *, dismissed: bool
    ) -> None:
        count = queryset.update(dismissed=dismissed)
        text = ngettext("%(count)d paire modifiée.", "%(count)d paires modifiées.", count)
        self.message_user(request, text % {"count": count})

    @admin.display(description=_("questions"), ordering="first_question")
    def pair(self, overlap: QuestionOverlap) -> SafeString:
        return stacked(overlap.first_question, overlap.second_question)

    @admin.display(description=_("constat"), ordering="kind")
    def finding(self, overlap: QuestionOverlap) -> SafeString:
        tone: Tone = "bad" if overlap.kind == OverlapKind.CONTRADICTION else "warning"
        return stacked(badge(overlap.get_kind_display(), tone), rounded(overlap.similarity, 3))

    @admin.display(description=_("réponses"))
    def answers(self, overlap: QuestionOverlap) -> SafeString:
        cut = (Truncator(text).chars(160) for text in (overlap.first_answer, overlap.second_answer))
        return stacked(*cut)

    @admin.display(description=_("passages"))
    def places(self, overlap: QuestionOverlap) -> SafeString:
        return stacked(
            change_link(overlap.first_chunk) if overlap.first_chunk else overlap.first_source,
            change_link(overlap.second_chunk) if overlap.second_chunk else overlap.second_source,
        )

    @admin.display(description=_("décision"), ordering="dismissed")
    def decision(self, overlap: QuestionOverlap) -> SafeString:
        if overlap.dismissed:
            return badge(_("Acceptées"), "good")
        return badge(_("À examiner"), "warning")


@admin.register(IndexBuild)
class IndexBuildAdmin(ReadOnlyAdmin):
    change_form_template = "admin/knowledge/indexbuild/change_form.html"
    list_display = ("title", "agent", "state", "progress", "created_at")
    list_filter = ("status", "kind", "agent", "method")
    list_select_related = ("agent", "source")
    search_fields = ("agent__name", "agent__slug", "generation", "error")
    ordering = ("-created_at",)
    actions = ("retry",)
    readonly_fields = (
        "title",
        "state",
        "progress",
        "duration",
        "figures",
        "problems",
        "failure",
        "changes",
        "compared",
        "agent_link",
    )
    fieldsets = (
        (None, {"fields": ("state", "progress", "failure", "problems", "figures")}),
        (_("Ce qui changerait"), {"fields": ("changes", "compared")}),
        (
            _("Détails"),
            {
                "fields": (
                    "title",
                    "agent_link",
                    "generation",
                    "attempts",
                    "created_at",
                    "started_at",
                    "finished_at",
                    "duration",
                )
            },
        ),
    )

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path(
                "rebuild/", wrap(admin_views.rebuild_indexes), name="knowledge_indexbuild_rebuild"
            ),
            path(
                "rollback/",
                wrap(admin_views.roll_indexes_back),
                name="knowledge_indexbuild_rollback",
            ),
            path(
                "<int:build_id>/retry/",
                wrap(admin_views.retry_failed_build),
                name="knowledge_indexbuild_retry",
            ),
            *(
                path(
                    f"<int:build_id>/{verb}/",
                    wrap(view),
                    name=f"knowledge_indexbuild_{verb}",
                )
                for verb, view in admin_views.BUILD_DECISIONS.items()
            ),
            *super().get_urls(),
        ]

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What would change is shown where there was a look at it."""
        has_preview = isinstance(obj, IndexBuild) and obj.preview
        return self.fieldsets if has_preview else (self.fieldsets[0], self.fieldsets[2])

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("knowledge.change_indexbuild")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        build = kwargs.get("obj")
        if isinstance(build, IndexBuild):
            context["refresh_seconds"] = REFRESH_SECONDS if _is_going_on(build) else 0
            context["retry_allowed"] = self.has_retry_permission(request)
            over = (BuildStatus.FAILED, BuildStatus.CANCELLED)
            allowed = context["retry_allowed"]
            context["may_retry"] = allowed and build.status in over
            context["may_cancel"] = allowed and _is_going_on(build)
            context["may_decide"] = allowed and build.status == BuildStatus.STAGED
            context["leftover_points"] = _leftover(build)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("points"))
    def changes(self, build: IndexBuild) -> str:
        return gettext("%(added)d ajoutés, %(removed)d retirés, %(changed)d modifiés") % {
            key: build.preview.get(key, 0) for key in ("added", "removed", "changed")
        }

    @admin.display(description=_("ce que des questions réelles retrouvent"))
    def compared(self, build: IndexBuild) -> str:
        """Only the questions that retrieve something else; the others are counted."""
        asked = build.preview.get("questions", [])
        changed = [each for each in asked if each["is_changed"]]
        counted = gettext("%(changed)d questions sur %(all)d retrouvent autre chose.") % {
            "changed": len(changed),
            "all": len(asked),
        }
        if not changed:
            return counted
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            (
                (each["question"], _retrieved(each["before"]), _retrieved(each["after"]))
                for each in changed
            ),
        )
        return format_html(
            '<p>{}</p><div class="rp-table-wrap"><table class="rp-table"><thead><tr><th>{}</th><th>{}</th><th>{}</th>'
            "</tr></thead><tbody>{}</tbody></table></div>",
            counted,
            gettext("Question"),
            gettext("Aujourd’hui"),
            gettext("Après"),
            rows,
        )

    @admin.action(description=_("Réessayer"), permissions=["retry"])
    def retry(self, request: HttpRequest, queryset: QuerySet[IndexBuild]) -> None:
        admin_views.retry_builds(request, queryset)

    @admin.display(description=_("travail"), ordering="kind")
    def title(self, build: IndexBuild) -> str:
        if build.method:
            return f"{build.get_kind_display()} · {build.get_method_display()}"
        if build.source is not None:
            return f"{build.get_kind_display()} · {build.source}"
        count = len(build.document_ids)
        return ngettext("%(count)d document", "%(count)d documents", count) % {"count": count}

    @admin.display(description=_("agent"), ordering="agent__name")
    def agent_link(self, build: IndexBuild) -> str:
        return change_link(build.agent)

    @admin.display(description=_("état"), ordering="status")
    def state(self, build: IndexBuild) -> SafeString:
        label = badge(build.get_status_display(), _BUILD_TONES.get(build.status, "neutral"))
        hint = _state_hint(build)
        return stacked(label, hint) if hint else label

    @admin.display(description=_("avancement"))
    def progress(self, build: IndexBuild) -> str:
        if build.status == BuildStatus.DONE:
            return progress_bar(100, "100 %")
        if not build.total or build.status == BuildStatus.QUEUED:
            return "–"
        percent = min(100, 100 * build.done // build.total)
        phase = f"{build.get_phase_display()} : " if build.phase else ""
        bar = progress_bar(percent, f"{phase}{percent} % ({build.done} / {build.total})")
        return stacked(bar, pace) if (pace := _pace_text(build)) else bar

    @admin.display(description=_("durée"), ordering=F("finished_at") - F("started_at"))
    def duration(self, build: IndexBuild) -> str:
        if build.started_at is None:
            return "–"
        end = build.finished_at or timezone.now()
        return duration_text((end - build.started_at).total_seconds())

    @admin.display(description=_("erreur"))
    def failure(self, build: IndexBuild) -> str:
        return long_text(build.error)

    @admin.display(description=_("bilan"))
    def figures(self, build: IndexBuild) -> str:
        """The report's counts in words."""
        rows = [
            (label, formats.localize(build.report[key]))
            for key, label in _REPORT_LABELS.items()
            if key in build.report
        ]
        if not rows:
            return "–"
        return format_html(
            '<dl class="rp-figures">{}</dl>',
            format_html_join("", "<div><dt>{}</dt><dd>{}</dd></div>", rows),
        )

    @admin.display(description=_("fichiers en échec ou incomplets"))
    def problems(self, build: IndexBuild) -> str:
        rows = [
            (entry.get("item", ""), entry.get("reason", ""))
            for key in ("failed", "skipped")
            for entry in build.report.get(key, [])
        ]
        if not rows:
            return "–"
        items = format_html_join("", "<li><strong>{}</strong> : {}</li>", rows)
        return format_html('<ul class="rp-text">{}</ul>', items)


_REPORT_LABELS = {
    "documents": _("documents"),
    "chunks": _("passages"),
    "points": _("points"),
    "embedded": _("vecteurs calculés"),
    "reused": _("vecteurs repris"),
    "model_calls": _("appels au modèle"),
    "prompt_tokens": _("tokens lus par le modèle"),
    "completion_tokens": _("tokens écrits par le modèle"),
    "rejected": _("questions écartées"),
    "waiting": _("en attente de questions"),
    "pages": _("pages lues"),
    "unchanged": _("pages inchangées"),
    "gone": _("pages disparues"),
    "seconds": _("secondes"),
}


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


def _leftover(build: IndexBuild) -> int | None:
    """Of a rebuild that ended before its time; nothing is said of it while the store is away."""
    try:
        return leftover_points(build)
    except KnowledgeError:
        return None


def _retrieved(rows: list[dict[str, Any]] | None) -> SafeString | str:
    if rows is None:
        return gettext("L’index actuel ne peut pas être interrogé.")
    items = (
        (rounded(row["score"], 3), row["title"], row["question"] or row["excerpt"]) for row in rows
    )
    return format_html(
        '<ol class="rp-text">{}</ol>', format_html_join("", "<li>{} · {} · {}</li>", items)
    )


def _done_per_second(build: IndexBuild) -> float:
    """The rate since this phase began; zero where nothing can be said yet."""
    began = build.phase_started_at or build.started_at
    if build.status != BuildStatus.RUNNING or began is None or not build.done:
        return 0.0
    elapsed = (timezone.now() - began).total_seconds()
    return build.done / elapsed if elapsed > 0 else 0.0


def _pace_text(build: IndexBuild) -> str:
    """« 14,4 par seconde, encore 4 min 21 s », or nothing."""
    rate = _done_per_second(build)
    if not rate:
        return ""
    left = duration_text((build.total - build.done) / rate)
    return gettext("%(rate)s par seconde, encore %(left)s") % {
        "rate": rounded(rate, 1),
        "left": left,
    }


def _is_going_on(build: IndexBuild) -> bool:
    return build.status in (BuildStatus.QUEUED, BuildStatus.RUNNING)


def _state_hint(build: IndexBuild) -> str:
    """What staff should know about an indexation that does not move."""
    now = timezone.now()
    if build.status == BuildStatus.QUEUED and build.not_before and build.not_before > now:
        return gettext("%(reason)s Nouvel essai à %(time)s.") % {
            "reason": f"{build.error}. " if build.error else "",
            "time": formats.time_format(timezone.localtime(build.not_before)),
        }
    if build.status == BuildStatus.QUEUED and now - build.created_at > UNCLAIMED_AFTER:
        return gettext("Elle attend un worker : vérifiez qu’il est démarré.")
    expired = build.lease_expires_at is not None and build.lease_expires_at < now
    if build.status == BuildStatus.RUNNING and expired:
        return gettext("Le worker ne donne plus signe de vie ; un autre va la reprendre.")
    return ""


def _follow(build: IndexBuild) -> SafeString:
    return link(admin_url(IndexBuild, "change", build.pk), _("Suivre l’indexation"))


@admin.register(ThresholdCalibration)
class ThresholdCalibrationAdmin(StaffAdmin):
    """What `calibrate_thresholds` kept. Deleting a row brings the shipped profile back, if there is one."""

    list_display = ("model", "index", "direct_answer", "memory", "hit", "false_hit", "created_at")
    list_filter = ("model",)
    search_fields = ("model", "index", "source")
    readonly_fields = tuple(
        field.name for field in ThresholdCalibration._meta.fields if not field.primary_key
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.display(description=_("bonnes réponses"))
    def hit(self, row: ThresholdCalibration) -> str:
        return str(Rate(row.hits, row.same_pairs))

    @admin.display(description=_("mauvaises réponses"))
    def false_hit(self, row: ThresholdCalibration) -> str:
        return str(Rate(row.false_hits, row.different_pairs))


@admin.register(PairVerdict)
class PairVerdictAdmin(StaffAdmin):
    list_display = ("stored", "asked", "same_answer", "index", "created_at")
    list_filter = ("same_answer", "index")
    list_select_related = False
    search_fields = ("stored", "asked")
    fields = ("stored", "asked", "same_answer", "index")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.decided_by = request.user if not change else obj.decided_by
        super().save_model(request, obj, form, change)
