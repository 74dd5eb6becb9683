"""Categories, documents, passages and indexations, as staff see them.

Derived rows (passages, indexations) are only looked at. What takes time is queued by the verbs of
`knowledge.indexing`, and its progress is a page of its own. The rows of the table vector store have no page.
"""

from collections import defaultdict
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Count, F, Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
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
from knowledge import admin_views
from knowledge.calibrated import load_calibrations
from knowledge.calibration import Rate, threshold_profile
from knowledge.embeddings.base import embedder
from knowledge.forms import DocumentForm
from knowledge.indexing.documents import store_document
from knowledge.indexing.jobs import enqueue_documents
from knowledge.models import (
    BuildStatus,
    Category,
    Chunk,
    Document,
    DocumentStatus,
    IndexBuild,
    PairVerdict,
    ThresholdCalibration,
    UnitsOrigin,
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
    BuildStatus.FAILED: "bad",
}
_ORIGIN_TONES: dict[str, Tone] = {
    UnitsOrigin.WAITING: "warning",
    UnitsOrigin.FOUND: "good",
    UnitsOrigin.GENERATED: "busy",
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
    list_display = ("name", "state", "agent", "category", "source_type", "passages", "indexed_at")
    list_filter = ("status", "agent", "category", "source_type")
    list_select_related = ("agent", "category")
    search_fields = ("name", "title")
    ordering = ("name",)
    actions = ("index_again",)
    readonly_fields = (
        "name",
        "title",
        "agent",
        "source_type",
        "state",
        "passages",
        "file_link",
        "created_at",
        "indexed_at",
    )
    fieldsets = (
        (None, {"fields": ("state", "name", "title", "agent", "source_type", "passages")}),
        (_("Modifier"), {"fields": ("category", "replacement")}),
        (_("Fichier"), {"fields": ("file_link", "created_at", "indexed_at")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Document]:
        documents: QuerySet[Document] = super().get_queryset(request)
        return documents.annotate(
            chunk_count=Count("chunks"),
            waiting_count=Count("chunks", filter=Q(chunks__units_origin=UnitsOrigin.WAITING)),
        )

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Who may only look has no file to choose."""
        if self.has_change_permission(request, obj):
            return self.fieldsets
        shown = (_("Catégorie"), {"fields": ("category",)})
        return (self.fieldsets[0], shown, self.fieldsets[2])

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
        if not document.error:
            return label
        return stacked(label, document.error)

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


@admin.register(Chunk)
class ChunkAdmin(ReadOnlyAdmin):
    list_display = ("excerpt", "document_link", "rank", "category", "origin", "questions")
    list_filter = (
        "units_origin",
        "document__agent",
        ("document", AutocompleteSelectFilter),
        "category",
    )
    list_filter_submit = True
    list_select_related = ("document", "category")
    search_fields = ("content", "parent_context", "document__name", "document__title")
    ordering = ("document", "index")
    readonly_fields = (
        "document_link",
        "rank",
        "headings",
        "text",
        "origin",
        "units",
        "keyword_list",
    )
    fieldsets = (
        (None, {"fields": ("document_link", "rank", "headings", "category", "text")}),
        (_("Questions et réponses"), {"fields": ("origin", "units")}),
        (_("Résumé"), {"fields": ("summary", "keyword_list")}),
    )

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
    def units(self, chunk: Chunk) -> str:
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


@admin.register(IndexBuild)
class IndexBuildAdmin(ReadOnlyAdmin):
    change_form_template = "admin/knowledge/indexbuild/change_form.html"
    list_display = ("title", "agent", "state", "progress", "created_at")
    list_filter = ("status", "kind", "agent", "method")
    list_select_related = ("agent",)
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
        "agent_link",
    )
    fieldsets = (
        (None, {"fields": ("state", "progress", "failure", "problems", "figures")}),
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
            *super().get_urls(),
        ]

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("knowledge.change_indexbuild")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        build = kwargs.get("obj")
        if isinstance(build, IndexBuild):
            context["refresh_seconds"] = REFRESH_SECONDS if _is_going_on(build) else 0
            context["retry_allowed"] = self.has_retry_permission(request)
            context["may_retry"] = context["retry_allowed"] and build.status == BuildStatus.FAILED
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.action(description=_("Réessayer"), permissions=["retry"])
    def retry(self, request: HttpRequest, queryset: QuerySet[IndexBuild]) -> None:
        admin_views.retry_builds(request, queryset)

    @admin.display(description=_("travail"), ordering="kind")
    def title(self, build: IndexBuild) -> str:
        if build.method:
            return f"{build.get_kind_display()} · {build.get_method_display()}"
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
        bar = progress_bar(percent, f"{percent} % ({build.done} / {build.total})")
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
    "waiting": _("en attente de questions"),
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


def _points_per_second(build: IndexBuild) -> float:
    """The rate since this attempt began; zero where nothing can be said yet."""
    if build.status != BuildStatus.RUNNING or build.started_at is None or not build.done:
        return 0.0
    elapsed = (timezone.now() - build.started_at).total_seconds()
    return build.done / elapsed if elapsed > 0 else 0.0


def _pace_text(build: IndexBuild) -> str:
    """« 14,4 points par seconde, encore 4 min 21 s », or nothing."""
    rate = _points_per_second(build)
    if not rate:
        return ""
    left = duration_text((build.total - build.done) / rate)
    return gettext("%(rate)s points par seconde, encore %(left)s") % {
        "rate": rounded(rate, 1),
        "left": left,
    }


def _is_going_on(build: IndexBuild) -> bool:
    return build.status in (BuildStatus.QUEUED, BuildStatus.RUNNING)


def _state_hint(build: IndexBuild) -> str:
    """What staff should know about an indexation that does not move."""
    now = timezone.now()
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
