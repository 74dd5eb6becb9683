"""Pages of the simulator: a question tried with any setting changed, questions asked again, and the model tried."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from agents.admin_base import REFRESH_SECONDS, Tone, admin_page, admin_url, badge, require, rounded
from agents.errors import ApplicationError
from agents.jobs import enqueue
from agents.llm.base import language_model
from agents.models import OPEN_JOBS, Deployment, Job, JobKind, RuntimeSettings
from agents.roles import visible
from agents.settings import ToolMode, setting_fields
from chat.models import AnswerSource, Message, Turn
from chat.rendering import render_answer
from chat.staff.explanation import explain_trace
from chat.staff.model_check import told
from chat.staff.simulator import Trial, replay
from faqs.models import CachedResponse, GroupStatus, LearnedResponse, QuestionGroup
from faqs.unanswered import group_texts
from knowledge.models import Chunk, Document
from tools_registry.models import ToolOverride
from tools_registry.selection import SelectionReason, Simulation

#: Of whoever tries a question: the page shows the answer, the memory, passages and tools.
TRYING = ("chat.view_turn", "faqs.view_cachedresponse", "knowledge.view_chunk")
#: Settings that no step of one question reads.
NOT_ON_THE_PATH = frozenset(
    (
        "api_source_lines context_exchanges context_messages generate_questions generate_titles "
        "history_messages max_rounds max_tool_calls memory_learning page_refresh_hours "
        "record_unanswered rewrite_follow_ups show_cited_pages summarise_exchanges "
        "withhold_stale_answers"
    ).split()
)
#: Questions of a group that one replay asks again: each is a whole turn.
UNANSWERED_REPLAY_QUESTIONS = 20
PREFIX = "setting_"
REASONS = {
    SelectionReason.RESIDENT.value: _("résident"),
    SelectionReason.SIMILAR.value: _("proche de la question"),
    SelectionReason.RECENT.value: _("utilisé récemment"),
    SelectionReason.ALL.value: _("tous les outils permis"),
    "": _("non proposé"),
}


class OtherSettingsForm(forms.Form):
    """A deployment, and other settings for it: an empty field leaves one as it is."""

    deployment = forms.ModelChoiceField(
        label=_("Guichet"),
        queryset=Deployment.objects.select_related("agent").order_by("name"),
        widget=UnfoldAdminSelectWidget,
        empty_label=None,
    )

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for choices in self.fields.values():
            if isinstance(choices, forms.ModelChoiceField) and choices.queryset is not None:
                choices.queryset = visible(request, choices.queryset)
        for name, field in setting_fields().items():
            if name not in NOT_ON_THE_PATH:
                self.fields[PREFIX + name] = _for_a_try(field)

    @property
    def setting_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name.startswith(PREFIX)]

    @property
    def settings(self) -> dict[str, Any]:
        """Those that are changed, of a valid form."""
        return {
            name.removeprefix(PREFIX): value
            for name, value in self.cleaned_data.items()
            if name.startswith(PREFIX) and value not in (None, "")
        }


class TrialForm(OtherSettingsForm):
    """A question, and where it is tried."""

    question = forms.CharField(
        label=_("Question"), max_length=2_000, widget=UnfoldAdminTextareaWidget(attrs={"rows": 2})
    )


def _for_a_try(field: forms.Field) -> forms.Field:
    """A field of which an empty one says that the setting is left as it is."""
    field.help_text = ""
    kept = gettext("Réglage actuel")
    if isinstance(field, forms.NullBooleanField):
        field.widget.choices = [("unknown", kept), ("true", gettext("Oui")), ("false", gettext("Non"))]
    elif isinstance(field, forms.TypedChoiceField):
        others = [pair for pair in getattr(field.widget, "choices", ()) if pair[0]]
        field.choices = [("", kept), *others]
    elif isinstance(field, forms.FloatField):
        # In the reader's notation, as every number of the page is: a field of type number takes one alone.
        field.widget = UnfoldAdminTextInputWidget()
        field.localize = field.widget.is_localized = True
    elif isinstance(field.widget, forms.Textarea):
        field.widget.attrs["rows"] = 3
    if not isinstance(field, forms.NullBooleanField | forms.TypedChoiceField):
        field.widget.attrs["placeholder"] = kept
    return field


@require_http_methods(["GET", "POST"])
def try_question(request: HttpRequest) -> HttpResponse:
    """The form, filled in from the address; on POST what becomes of the question."""
    require(request, *TRYING)
    given = {name: request.GET[name] for name in ("deployment", "question") if name in request.GET}
    form = TrialForm(request.POST if request.method == "POST" else None, initial=given, request=request)
    context: dict[str, Any] = {}
    if form.is_bound and form.is_valid():
        try:
            context = _tried(form, request)
        except ApplicationError as error:
            messages.error(request, str(error.public_message))
    return admin_page(
        request,
        "admin/chat/turn/try.html",
        model=Turn,
        title=gettext("Essayer une question"),
        form=form,
        changed=form.settings if form.is_bound and form.is_valid() else {},
        **context,
    )


def _tried(form: TrialForm, request: HttpRequest) -> dict[str, Any]:
    data = form.cleaned_data
    trial = Trial(data["deployment"], data["question"], form.settings)
    given, memory = trial.answer(), trial.memory()
    result, answer = given.result, given.result.answer
    context = {
        "result": result,
        "error": given.error,
        "way": given.way,
        "prose": prose(answer.text, answer.sources, key="try"),
        # What a conversation would teach the memory is not taught by a try.
        "steps": explain_trace([line for line in result.trace.lines if line.get("step") != "learn"]),
        "sources": linked_sources(list(answer.sources)),
        "memory": memory,
        "entries": [(each, admin_url(CachedResponse, "change", each.entry_id)) for each in memory["verdicts"]],
        "passages": trial.passages(answer.answered_by) if result.error is None else None,
    }
    if request.user.has_perm("tools_registry.view_tooloverride"):
        tools = trial.tools()
        mode = str(ToolMode(tools.mode).label).partition(":")[0].strip()
        context |= {"tools": tools, "tool_mode": mode, "scored": _scored(tools), "mark": _percent(tools.threshold)}
    return context


def _scored(found: Simulation) -> list[tuple[Any, ...]]:
    """Each tool with its address, its score in per cent, and why it is offered."""
    keys = ToolOverride.objects.values_list("tool_name", "pk")
    urls = {name: admin_url(ToolOverride, "change", key) for name, key in keys}
    return [(tool, urls.get(tool.spec.name, ""), _percent(tool.score), REASONS[tool.reason]) for tool in found.scored]


def _percent(score: float | None) -> int | None:
    return None if score is None else max(0, min(100, round(100 * score)))


@require_http_methods(["GET", "POST"])
def replay_group(request: HttpRequest, group_id: int) -> HttpResponse:
    """Ask the questions of a group again in the first deployment of its agent, on POST, and show which are answered."""
    require(request, "chat.view_turn", "faqs.view_questiongroup")
    group = get_object_or_404(visible(request, QuestionGroup.objects.select_related("agent", "response")), pk=group_id)
    questions = group_texts(group, UNANSWERED_REPLAY_QUESTIONS)
    deployment = Deployment.objects.filter(agent=group.agent, is_active=True).order_by("pk").first()
    replayed = None
    if request.method == "POST" and deployment is not None:
        replayed = replay(deployment, questions)
        if all(row.is_answered for row in replayed) and request.user.has_perm("faqs.change_questiongroup"):
            QuestionGroup.objects.filter(pk=group.pk).update(status=GroupStatus.ANSWERED)
    return admin_page(
        request,
        "admin/chat/turn/replay.html",
        model=QuestionGroup,
        title=gettext("Rejouer les questions"),
        group=group,
        questions=questions,
        replayed=replayed,
        shown=[(row, prose(row.result.answer.text, (), key="replay")) for row in replayed or ()],
        answered=sum(row.is_answered for row in replayed or ()),
        group_url=admin_url(QuestionGroup, "change", group.pk),
    )


@require_http_methods(["GET", "POST"])
def model_check(request: HttpRequest) -> HttpResponse:
    """The last check, row by row; on POST a worker makes another."""
    require(request, "agents.change_runtimesettings")
    if request.method == "POST":
        enqueue(JobKind.MODEL_CHECK, key="model")
        return HttpResponseRedirect(request.path)
    job = Job.objects.filter(kind=JobKind.MODEL_CHECK).order_by("-pk").first()
    return admin_page(
        request,
        "admin/agents/runtimesettings/model_check.html",
        model=RuntimeSettings,
        title=gettext("Vérifier le modèle de langage"),
        has_model=language_model() is not None,
        job=job,
        rows=told(job.report) if job else [],
        refresh_seconds=REFRESH_SECONDS if job and job.status in OPEN_JOBS else 0,
    )


# What pages show of an answer

_SOURCE_TONES: dict[str, Tone] = {
    AnswerSource.MEMORY_GUARD: "good",
    AnswerSource.DIRECT_QA: "good",
    AnswerSource.GUARD_RAIL: "warning",
    AnswerSource.LLM: "busy",
    AnswerSource.ROUND_LIMIT: "warning",
}


def source_badge(turn: Turn) -> SafeString | str:
    if not turn.answer_source:
        return "–"
    tone = _SOURCE_TONES.get(turn.answer_source, "neutral")
    return badge(turn.get_answer_source_display(), tone)


def prose_of(message: Message) -> SafeString:
    """An answer as its reader saw it; its citations lead to its sources on the same page."""
    return prose(message.content, sources_of(message), key=str(message.turn_id))


def sources_of(message: Message) -> list[dict[str, Any]]:
    return [source for source in message.sources if isinstance(source, dict)]


def prose(text: str, sources: Sequence[Mapping[str, Any]], *, key: str) -> SafeString:
    """An answer as its reader sees it; `key` tells its sources from those of others on the page."""
    numbers = {source["n"] for source in sources if isinstance(source.get("n"), int)}
    html = render_answer(text, turn_id=key, source_numbers=numbers)
    return mark_safe(html)  # noqa: S308  # sanitised there


def score_text(score: float | None) -> str:
    return "–" if score is None else rounded(score, 3)


#: The links of a source: their name, what they lead to, and the key of the source that names it.
_LINKS: tuple[tuple[str, type[Model], str], ...] = (
    ("chunk_url", Chunk, "chunk_id"),
    ("document_url", Document, "document_id"),
    ("answer_url", LearnedResponse, "learned_id"),
)


def linked_sources(sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each source with links to its passage, document and validated answer, as far as they still exist."""
    shown = [
        {**each, "score": score_text(each.get("score")), "prose": prose(str(each.get("text") or ""), (), key="source")}
        for each in sources
    ]
    for name, model, key in _LINKS:
        wanted = [source[key] for source in sources if isinstance(source.get(key), int)]
        existing = set(model._default_manager.filter(pk__in=wanted).values_list("pk", flat=True))
        for each in shown:
            each[name] = admin_url(model, "change", each[key]) if each.get(key) in existing else ""
    return shown
