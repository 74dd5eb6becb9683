"""Agents as files, in the admin: a download, and an upload with its preview. An import makes a new agent."""

import tempfile
import uuid
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core import signing
from django.core.files.storage import default_storage
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminTextInputWidget

from agents.admin_base import admin_page, admin_url, require, require_no_limit, signed_in
from agents.models import Agent
from agents.staff.agent_files import AgentFileError, Taken, export_agent, import_agent, open_agent_file, part_titles

#: What a file shows, or makes.
EXPORT_RIGHTS = (
    "agents.view_agent",
    "agents.view_deployment",
    "knowledge.view_document",
    "knowledge.view_synonym",
    "knowledge.view_websource",
    "faqs.view_learnedresponse",
    "chat.view_goldenquestion",
    "tools_registry.view_tooloverride",
)
IMPORT_RIGHTS = (
    "agents.add_agent",
    "agents.add_deployment",
    "knowledge.add_category",
    "knowledge.add_document",
    "knowledge.add_synonym",
    "knowledge.add_websource",
    "faqs.add_learnedresponse",
    "faqs.change_learnedresponse",
    "chat.add_goldenset",
    "chat.add_goldenquestion",
    "tools_registry.change_tooloverride",
)
#: What the page of a first agent does, one step after the other (`config.desk.first_agent`).
FIRST_AGENT_RIGHTS = (
    "agents.add_agent",
    "agents.add_deployment",
    "agents.change_deployment",
    "knowledge.add_document",
    "chat.view_turn",
)
_FOLDER = "agent-imports"
_SALT = "agent-import"
#: A preview waits so long; the nightly upkeep removes its file.
_WAITS_SECONDS = 3_600
_MEMORY_BYTES = 8 * 1024**2


class AgentFileForm(forms.Form):
    file = forms.FileField(
        label=gettext_lazy("Fichier d’agent"),
        required=False,
        widget=UnfoldAdminFileFieldWidget(attrs={"accept": ".zip"}),
    )
    slug = forms.SlugField(
        label=gettext_lazy("Identifiant"),
        required=False,
        max_length=80,
        widget=UnfoldAdminTextInputWidget,
        help_text=gettext_lazy("Vide : celui du fichier."),
    )


@require_safe
def export_one(request: HttpRequest, agent_id: int) -> HttpResponse | FileResponse:
    agent = get_object_or_404(Agent, pk=agent_id)
    require(request, *EXPORT_RIGHTS, row=agent)
    target = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # the response closes it
    try:
        export_agent(agent, target)
    except AgentFileError as error:
        target.close()
        messages.error(request, str(error.public_message))
        return HttpResponseRedirect(admin_url(Agent, "change", agent.pk))
    target.seek(0)
    response = FileResponse(target, as_attachment=True, filename=f"{agent.slug}.zip", content_type="application/zip")
    response["Cache-Control"] = "private, no-store"
    return response


@require_http_methods(["GET", "POST"])
def import_one(request: HttpRequest) -> HttpResponse:
    """Take a file, show what it would make, and make it once that is confirmed."""
    require(request, *IMPORT_RIGHTS)
    require_no_limit(request)
    form = AgentFileForm(request.POST or None, request.FILES or None)
    taken: Taken | None = None
    token = ""
    if request.method == "POST" and form.is_valid():
        try:
            name = _stored(request, form)
            slug = form.cleaned_data["slug"]
            if "confirm" in request.POST:
                return _import(request, name, slug)
            with default_storage.open(name, "rb") as source:
                taken = open_agent_file(source).preview(slug)
            token = signing.dumps([name, request.user.pk], salt=_SALT)
        except AgentFileError as error:
            form.add_error("slug" if str(error) == "exists" else "file", str(error.public_message))
    titles = part_titles()
    return admin_page(
        request,
        "admin/agents/agent/import.html",
        model=Agent,
        title=_("Importer un agent"),
        form=form,
        token=token,
        taken=taken,
        counts=[(titles[n], c) for n, c in taken.counts.items() if n in titles] if taken else [],
        media=form.media,
    )


def _stored(request: HttpRequest, form: AgentFileForm) -> str:
    """The uploaded file's name in the store; on confirmation that of the preview."""
    if form.cleaned_data["file"] is not None:
        file: Any = form.cleaned_data["file"]
        if file.size > settings.MAX_UPLOAD_BYTES:
            raise AgentFileError("too big")
        return str(default_storage.save(f"{_FOLDER}/{uuid.uuid4().hex}.zip", file))
    try:
        name, user = signing.loads(request.POST.get("token", ""), salt=_SALT, max_age=_WAITS_SECONDS)
    except (signing.BadSignature, ValueError) as error:
        raise AgentFileError("none", public_message=_("Choisissez un fichier.")) from error
    if user != request.user.pk or not default_storage.exists(name):
        raise AgentFileError("gone", public_message=_("Choisissez de nouveau le fichier."))
    return str(name)


def _import(request: HttpRequest, name: str, slug: str) -> HttpResponse:
    with default_storage.open(name, "rb") as source:
        taken = import_agent(open_agent_file(source), slug=slug, by=signed_in(request))
    default_storage.delete(name)
    for notice in taken.notices:
        messages.warning(request, notice)
    text = _("L’agent est importé ; ses documents sont en cours de lecture, ses déploiements éteints.")
    messages.success(request, text)
    return HttpResponseRedirect(admin_url(Agent, "change", taken.agent.pk if taken.agent else 0))
