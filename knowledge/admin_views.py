"""Pages of the admin that are no form of one row: add documents, fetch a file, rebuild an index, go back, retry.

Each checks the right of its user first. What changes something shows what it will do on GET and does it on POST,
through the verbs of `knowledge.indexing`.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.admin_base import admin_url
from agents.effective import effective_config
from agents.exceptions import ApplicationError
from agents.models import Agent, IndexingMethod
from knowledge.editing import resolve_conflict
from knowledge.embeddings.base import Purpose, embedder
from knowledge.exceptions import CollectionMissingError, RebuildInProgressError
from knowledge.forms import AddDocumentsForm, SearchTrialForm, refusal_of
from knowledge.indexing.documents import store_document
from knowledge.indexing.jobs import (
    approve_build,
    cancel_build,
    discard_build,
    drop_leftover,
    enqueue_documents,
    enqueue_rebuild,
    retry_build,
)
from knowledge.indexing.rebuild import prepare_rollback, rollback_agent_index
from knowledge.models import BuildStatus, Category, Chunk, Document, IndexBuild
from knowledge.search import Passage, confirm_passages, search, thresholds_for
from knowledge.vectors.base import Query
from knowledge.vectors.generations import collection_alias

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class UploadOutcome:
    """What became of each file of one upload, by name; `refused` has the reasons."""

    to_index: list[int] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


@require_http_methods(["GET", "POST"])
def add_documents(request: HttpRequest) -> HttpResponse:
    """Store the files that were sent, say what became of each, and hand them to the indexing."""
    _require(request, "knowledge.add_document")
    form = AddDocumentsForm(
        request.POST or None, request.FILES or None, initial={"agent": request.GET.get("agent")}
    )
    if request.method == "POST" and form.is_valid():
        agent = form.cleaned_data["agent"]
        outcome = store_uploads(
            agent=agent, files=form.cleaned_data["uploads"], category=form.cleaned_data["category"]
        )
        _report_upload(request, outcome)
        if not outcome.to_index:
            return HttpResponseRedirect(
                admin_url(Document, "changelist", agent__id__exact=agent.pk)
            )
        build = enqueue_documents(agent=agent, document_ids=outcome.to_index)
        return HttpResponseRedirect(_build_or_documents_url(request, build))
    return _page(
        request,
        "admin/knowledge/document/add_documents.html",
        model=Document,
        title=_("Ajouter des documents"),
        form=form,
        has_agents=Agent.objects.exists(),
        media=form.media,
    )


def store_uploads(
    *, agent: Agent, files: "Iterable[UploadedFile[bytes]]", category: Category | None
) -> UploadOutcome:
    """Store each file on its own; one that is refused, or that the disk refuses, stops no other."""
    outcome = UploadOutcome()
    seen: set[str] = set()
    for file in files:
        name = file.name or _("sans nom")
        if name in seen:
            outcome.refused.append((name, _("un fichier du même nom est déjà dans cet envoi")))
        elif reason := refusal_of(file):
            outcome.refused.append((name, reason))
        else:
            seen.add(name)
            _store_upload(agent, name, file, category, outcome)
    return outcome


def _store_upload(
    agent: Agent,
    name: str,
    file: "UploadedFile[bytes]",
    category: Category | None,
    outcome: UploadOutcome,
) -> None:
    existed = Document.objects.filter(agent=agent, name=name).exists()
    try:
        stored = store_document(agent=agent, name=name, data=file.read(), category=category)
    except ApplicationError as error:
        outcome.refused.append((name, str(error.public_message)))
    except OSError as error:
        logger.exception("An uploaded file could not be stored.")
        outcome.refused.append((name, error.strerror or _("le disque a refusé le fichier")))
    else:
        if not stored.changed:
            outcome.unchanged.append(name)
            return
        outcome.to_index.append(stored.document.pk)
        (outcome.updated if existed else outcome.added).append(name)


def _report_upload(request: HttpRequest, outcome: UploadOutcome) -> None:
    for names, label in (
        (outcome.added, _("Ajoutés : %(names)s")),
        (outcome.updated, _("Remplacés : %(names)s")),
    ):
        if names:
            messages.success(request, label % {"names": ", ".join(names)})
    if outcome.unchanged:
        messages.info(
            request,
            _("Déjà indexés à l’identique : %(names)s") % {"names": ", ".join(outcome.unchanged)},
        )
    for name, reason in outcome.refused:
        messages.error(
            request,
            _("%(name)s n’a pas été ajouté : %(reason)s.") % {"name": name, "reason": reason},
        )


def _build_or_documents_url(request: HttpRequest, build: IndexBuild) -> str:
    """The progress of the indexing, for who may see it."""
    if request.user.has_perm("knowledge.view_indexbuild"):
        return admin_url(IndexBuild, "change", build.pk)
    return admin_url(Document, "changelist", agent__id__exact=build.agent_id)


@require_safe
def download_file(request: HttpRequest, document_id: int) -> HttpResponse | FileResponse:
    """The file as it was given, always as a download: its content is never shown as a page of this site."""
    _require(request, "knowledge.view_document")
    document = get_object_or_404(Document, pk=document_id)
    try:
        file = document.file.open("rb")
    except (OSError, ValueError) as error:
        raise Http404(_("Le fichier de ce document n’est plus sur le disque.")) from error
    response = FileResponse(
        file,
        as_attachment=True,
        filename=document.name.rsplit("/", 1)[-1],
        content_type="application/octet-stream",
    )
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


@require_http_methods(["GET", "POST"])
def rebuild_indexes(request: HttpRequest) -> HttpResponse:
    """Confirm, then queue a rebuild of each index that the chosen agents use."""
    _require(request, "knowledge.add_indexbuild")
    indexes = _chosen_indexes(request)
    if request.method == "POST":
        return _rebuild(request, indexes)
    return _page(
        request,
        "admin/knowledge/indexbuild/confirm.html",
        model=IndexBuild,
        title=_("Reconstruire l’index"),
        indexes=indexes,
        explanation=_(
            "Un nouvel index est rempli à côté de l’actuel, vérifié, puis mis à sa place d’un seul coup. "
            "Les réponses continuent pendant ce temps, et l’index actuel est gardé pour pouvoir y revenir."
        ),
        confirm=_("Reconstruire"),
        confirm_staged=_("Préparer sans mettre en service"),
        explanation_staged=_(
            "Préparé, le nouvel index attend : vous voyez ce qu’il changerait aux dernières questions posées, "
            "puis vous le mettez en service ou l’abandonnez."
        ),
    )


@require_http_methods(["GET", "POST"])
def roll_indexes_back(request: HttpRequest) -> HttpResponse:
    """Confirm, then point each chosen index at the generation before its current one."""
    _require(request, "knowledge.add_indexbuild")
    indexes = _chosen_indexes(request)
    if request.method == "POST":
        return _roll_back(request, indexes)
    return _page(
        request,
        "admin/knowledge/indexbuild/confirm.html",
        model=IndexBuild,
        title=_("Revenir à la génération précédente"),
        indexes=indexes,
        explanation=_(
            "L’index d’avant la dernière reconstruction reprend sa place, tout de suite. "
            "Les documents ajoutés depuis ne seront plus trouvés jusqu’à la prochaine reconstruction."
        ),
        confirm=_("Revenir en arrière"),
    )


@require_POST
def retry_failed_build(request: HttpRequest, build_id: int) -> HttpResponse:
    _require(request, "knowledge.change_indexbuild")
    build = get_object_or_404(IndexBuild, pk=build_id)
    retry_builds(request, [build])
    return HttpResponseRedirect(admin_url(IndexBuild, "change", build.pk))


def retry_builds(request: HttpRequest, builds: Iterable[IndexBuild]) -> None:
    """Queue failed builds again and say how many; the others are left alone."""
    over = (BuildStatus.FAILED, BuildStatus.CANCELLED)
    chosen = [build for build in builds if build.status in over]
    if not chosen:
        messages.warning(request, _("Aucune de ces indexations n’est en échec ou annulée."))
        return
    count = 0
    for build in chosen:
        try:
            retry_build(build)
        except ApplicationError as error:
            messages.warning(request, f"{build} : {error.public_message}")
        else:
            count += 1
    if count:
        messages.success(
            request,
            ngettext("%(count)d indexation relancée.", "%(count)d indexations relancées.", count)
            % {"count": count},
        )


@require_POST
def cancel_running_build(request: HttpRequest, build_id: int) -> HttpResponse:
    build = _decided_build(request, build_id)
    if cancel_build(build):
        messages.success(request, _("L’indexation est annulée ; ce qui est fait est gardé."))
    else:
        messages.warning(request, _("Cette indexation est déjà finie."))
    return HttpResponseRedirect(admin_url(IndexBuild, "change", build.pk))


@require_POST
def approve_staged_build(request: HttpRequest, build_id: int) -> HttpResponse:
    build = _decided_build(request, build_id)
    try:
        approve_build(build)
    except ApplicationError as error:
        messages.warning(request, str(error.public_message))
    else:
        messages.success(request, _("Le nouvel index est mis en service."))
    return HttpResponseRedirect(admin_url(IndexBuild, "change", build.pk))


@require_POST
def discard_staged_build(request: HttpRequest, build_id: int) -> HttpResponse:
    build = _decided_build(request, build_id)
    try:
        discard_build(build)
    except ApplicationError as error:
        messages.warning(request, str(error.public_message))
    else:
        messages.success(request, _("Le nouvel index est abandonné ; l’actuel reste en service."))
    return HttpResponseRedirect(admin_url(IndexBuild, "change", build.pk))


@require_POST
def drop_build_leftover(request: HttpRequest, build_id: int) -> HttpResponse:
    build = _decided_build(request, build_id)
    try:
        dropped = drop_leftover(build)
    except ApplicationError as error:
        messages.warning(request, str(error.public_message))
    else:
        if dropped:
            messages.success(request, _("Le reste de cette reconstruction est supprimé."))
        else:
            messages.warning(request, _("Il ne reste rien de cette reconstruction."))
    return HttpResponseRedirect(admin_url(IndexBuild, "change", build.pk))


#: What may be decided about a build from its page, by the last part of the address.
BUILD_DECISIONS = {
    "cancel": cancel_running_build,
    "approve": approve_staged_build,
    "discard": discard_staged_build,
    "drop": drop_build_leftover,
}


def _decided_build(request: HttpRequest, build_id: int) -> IndexBuild:
    _require(request, "knowledge.change_indexbuild")
    return get_object_or_404(IndexBuild.objects.select_related("agent"), pk=build_id)


@require_POST
def resolve_chunk(request: HttpRequest, chunk_id: int) -> HttpResponse:
    """End a conflict by staff's version or by the document's."""
    _require(request, "knowledge.change_chunk")
    chunk = get_object_or_404(Chunk, pk=chunk_id)
    choice = request.POST.get("choice")
    if choice not in ("staff", "document"):
        raise Http404(_("Ce choix n’existe pas."))
    resolved = resolve_conflict(chunk, "staff" if choice == "staff" else "document")
    messages.success(request, _("Le conflit est réglé."))
    if resolved is None:
        return HttpResponseRedirect(admin_url(Chunk, "changelist", staff="conflict"))
    return HttpResponseRedirect(admin_url(Chunk, "change", chunk.pk))


@require_safe
def try_search(request: HttpRequest) -> HttpResponse:
    """Ask a deployment's index as a turn would, and show what comes back; nothing is answered or stored."""
    _require(request, "knowledge.view_chunk")
    form = SearchTrialForm(request.GET if "question" in request.GET else None)
    if "deployment" in request.GET and not form.is_bound:
        form.initial["deployment"] = request.GET["deployment"]
    trial: SearchTrial | None = None
    if form.is_bound and form.is_valid():
        try:
            trial = _tried(form.cleaned_data)
        except ApplicationError as error:
            messages.error(request, str(error.public_message))
    return _page(
        request,
        "admin/knowledge/chunk/search.html",
        model=Chunk,
        title=_("Tester la recherche"),
        form=form,
        trial=trial,
    )


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """Each passage with the guard rail that it is held to and whether it passes."""

    rows: list[tuple[Passage, float | None, bool]]
    direct_threshold: float | None
    is_out_of_domain: bool


def _tried(wanted: dict[str, Any]) -> SearchTrial:
    config = effective_config(wanted["deployment"])
    limit = wanted["limit"] or config.match_count
    model = embedder()
    found = search(
        collection_alias(config.agent_slug, config.indexing_method),
        Query(
            model.embed_one(wanted["question"], purpose=Purpose.QUERY),
            model.recipe,
            wanted["question"],
        ),
        limit=limit,
        min_score=config.match_threshold,
    )
    confirmed = confirm_passages(found, agent_id=config.agent_id)
    thresholds = thresholds_for(config, model=model.recipe.model)
    return SearchTrial(
        rows=[
            (passage, least, least is None or passage.relevance >= least)
            for passage in confirmed.passages(limit)
            for least in [thresholds.guard_rail_for(passage)]
        ],
        direct_threshold=thresholds.direct_answer,
        is_out_of_domain=confirmed.is_out_of_domain(thresholds),
    )


def _chosen_indexes(request: HttpRequest) -> list[tuple[Agent, IndexingMethod]]:
    """Every index of the agents named in the address, or only those of the methods it names."""
    wanted = set(request.GET.getlist("method"))
    keys = [key for key in request.GET.getlist("agent") if key.isdecimal()]
    agents = Agent.objects.filter(pk__in=keys).prefetch_related("deployments__agent")
    indexes = [
        (agent, method)
        for agent in agents
        for method in sorted(agent.methods_in_use())
        if not wanted or method.value in wanted
    ]
    if not indexes:
        raise Http404(_("Aucun agent n’a été choisi."))
    return indexes


def _rebuild(
    request: HttpRequest, indexes: Sequence[tuple[Agent, IndexingMethod]]
) -> HttpResponseRedirect:
    builds = []
    for agent, method in indexes:
        try:
            builds.append(
                enqueue_rebuild(agent=agent, method=method, needs_approval="stage" in request.POST)
            )
        except RebuildInProgressError as error:
            messages.warning(request, f"{agent} ({method.label}) : {error.public_message}")
    if builds:
        messages.success(
            request,
            ngettext(
                "%(count)d reconstruction demandée.",
                "%(count)d reconstructions demandées.",
                len(builds),
            )
            % {"count": len(builds)},
        )
    return _to_builds(request, builds)


def _roll_back(
    request: HttpRequest, indexes: Sequence[tuple[Agent, IndexingMethod]]
) -> HttpResponseRedirect:
    """All of them or none: what cannot go back is told before anything moves."""
    can_go_back = True
    for agent, method in indexes:
        try:
            prepare_rollback(agent=agent, method=method)
        except CollectionMissingError:
            can_go_back = False
            reason = _("il n’y a pas de génération précédente")
            messages.error(request, f"{agent} ({method.label}) : {reason}.")
        except ApplicationError as error:
            can_go_back = False
            messages.error(request, f"{agent} ({method.label}) : {error.public_message}")
    for agent, method in indexes if can_go_back else ():
        try:
            generation = rollback_agent_index(agent=agent, method=method)
        except ApplicationError as error:
            messages.error(request, f"{agent} ({method.label}) : {error.public_message}")
        else:
            messages.success(
                request,
                _("%(agent)s (%(method)s) répond de nouveau avec la génération %(generation)s.")
                % {"agent": agent, "method": method.label, "generation": generation},
            )
    return HttpResponseRedirect(_agents_url(indexes))


def _to_builds(request: HttpRequest, builds: Sequence[IndexBuild]) -> HttpResponseRedirect:
    if not request.user.has_perm("knowledge.view_indexbuild"):
        return HttpResponseRedirect(admin_url(Document, "changelist"))
    if len(builds) == 1:
        return HttpResponseRedirect(admin_url(IndexBuild, "change", builds[0].pk))
    return HttpResponseRedirect(admin_url(IndexBuild, "changelist"))


def _agents_url(indexes: Sequence[tuple[Agent, IndexingMethod]]) -> str:
    keys = {agent.pk for agent, _method in indexes}
    if len(keys) == 1:
        return admin_url(Agent, "change", *keys)
    return admin_url(Agent, "changelist")


def _require(request: HttpRequest, permission: str) -> None:
    if not request.user.has_perm(permission):
        raise PermissionDenied


def _page(
    request: HttpRequest,
    template: str,
    *,
    model: type[Document | IndexBuild | Chunk],
    **context: object,
) -> TemplateResponse:
    return TemplateResponse(
        request,
        template,
        {**admin.site.each_context(request), "opts": model._meta, **context},
    )
