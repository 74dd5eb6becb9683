"""A file of validated answers in the admin: uploaded, looked at with what each row would replace, then imported.

What is ticked on one page of the preview is kept when another is opened: every button sends the ticks along.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser
from django.core.files.uploadedfile import UploadedFile
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget

from agents.admin_base import admin_page, admin_url, progress_bar, require
from agents.errors import ApplicationError
from agents.models import Agent
from agents.roles import agents_for
from faqs.csv import (
    ASKED,
    FAQ_MAX_IMPORT_BYTES,
    FAQ_MAX_IMPORT_ROWS,
    Failure,
    FaqRow,
    ImportPlan,
    PlannedRow,
    RowKind,
    StoredAnswer,
    plan_import,
)
from faqs.models import ImportPreview, ImportState, LearnedResponse, LearnedStatus
from faqs.previews import choose, continue_import, find_preview, keep_preview, leave_preview, plan_of, start_import

#: A number with its decimals, a word or a sign, with the blanks before it.
_TOKEN = re.compile(r"\s*(?:\d+(?:[.,]\d+)+|\w+|[^\w\s])|\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of words of one side; changed ones are not, or not there, on the other side."""

    text: str
    is_changed: bool


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs, both sides whole."""

    label: str
    before: tuple[Piece, ...]
    after: tuple[Piece, ...]


def compare_fields(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """The fields, by their labels, whose texts differ."""
    return [
        Change(label, *compare_words(before.get(label, ""), text))
        for label, text in after.items()
        if before.get(label, "") != text
    ]


def compare_words(before: str, after: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both texts in pieces; joined, the pieces of a side are its text. Spaces alone are no difference, line breaks are."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    # `autojunk` stays on: a text that repeats a few words would take seconds without it.
    matcher = SequenceMatcher(None, [_key(token) for token in old], [_key(token) for token in new])
    left: list[Piece] = []
    right: list[Piece] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        _add(left, old[i1:i2], is_changed=tag != "equal")
        _add(right, new[j1:j2], is_changed=tag != "equal")
    return tuple(left), tuple(right)


def _key(token: str) -> str:
    word = token.lstrip()
    return "\n" * token[: len(token) - len(word)].count("\n") + word


def _add(side: list[Piece], tokens: Sequence[str], *, is_changed: bool) -> None:
    """The blanks before a changed word are not marked with it."""
    text = "".join(tokens)
    blanks = text[: len(text) - len(text.lstrip())] if is_changed else ""
    side += [Piece(blanks, False)] if blanks else []
    side += [Piece(text[len(blanks) :], is_changed)] if len(text) > len(blanks) else []


IMPORT_RIGHTS = ("faqs.add_learnedresponse", "faqs.change_learnedresponse")
#: Refused rows that are named one by one after an import; the others are counted.
SHOWN_FAILURES = 500
#: How long one request writes rows; the page of an import that is not over sends the next one.
WRITING_SECONDS = 5.0
#: Questions of a file that a request compares with the validated answers: each is embedded. A command compares all.
FAQ_MAX_COMPARED = 1_000
#: Rows on one page of the preview.
PAGE_ROWS = 50
#: The filter that is no kind of row.
FAILED = "failed"


class ImportFaqsForm(forms.Form):
    agent = forms.ModelChoiceField(
        label=_("Agent"), queryset=Agent.objects.order_by("name"), widget=UnfoldAdminSelectWidget
    )
    file = forms.FileField(label=_("Fichier CSV"), widget=UnfoldAdminFileFieldWidget)

    def __init__(self, *args: Any, agents: QuerySet[Agent], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["agent"].queryset = agents  # type: ignore[attr-defined]
        self.fields["file"].help_text = gettext(
            "Colonnes « question », « answer » (ou « réponse ») et « category » (ou « catégorie ») ; "
            "%(size)s et %(rows)d lignes au plus. Plusieurs formulations : une par ligne dans la cellule de la "
            "question. Rien n’est écrit avant l’aperçu, où vous choisissez ce que le fichier remplace."
        ) % {"size": filesizeformat(FAQ_MAX_IMPORT_BYTES), "rows": FAQ_MAX_IMPORT_ROWS}

    def clean_file(self) -> "UploadedFile[bytes]":
        file: UploadedFile[bytes] = self.cleaned_data["file"]
        if (file.size or 0) > FAQ_MAX_IMPORT_BYTES:
            raise forms.ValidationError(
                gettext("Le fichier dépasse %(limit)d octets.") % {"limit": FAQ_MAX_IMPORT_BYTES}
            )
        return file


@require_http_methods(["GET", "POST"])
def import_faqs(request: HttpRequest) -> HttpResponse:
    """Read a file and lead to what it would do; nothing is imported here."""
    require(request, *IMPORT_RIGHTS)
    form = ImportFaqsForm(
        request.POST or None,
        request.FILES or None,
        initial={"agent": request.GET.get("agent")},
        agents=agents_for(request),
    )
    if request.method == "POST" and form.is_valid():
        try:
            plan = plan_import(
                form.cleaned_data["agent"], form.cleaned_data["file"].read(), max_compared=FAQ_MAX_COMPARED
            )
            preview = keep_preview(plan, by=_user(request))
        except ApplicationError as error:
            form.add_error("file", str(error.public_message))
        else:
            return HttpResponseRedirect(_address(preview))
    return admin_page(
        request,
        "admin/faqs/learnedresponse/import.html",
        model=LearnedResponse,
        title=gettext("Importer des réponses validées"),
        form=form,
        has_agents=agents_for(request).exists(),
        media=form.media,
    )


@require_http_methods(["GET", "POST"])
def preview_import(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    """What the file would do, a page at a time; the ticks are kept, and the last button imports."""
    require(request, *IMPORT_RIGHTS)
    preview = find_preview(key, by=_user(request))
    if preview is None:
        messages.warning(
            request, gettext("Cet aperçu n’est plus là : il a été importé, laissé ou oublié, ou n’est pas le vôtre.")
        )
        return HttpResponseRedirect(admin_url(LearnedResponse, "import"))
    plan = plan_of(preview)
    if preview.state != ImportState.PLANNED:
        return _follow(request, preview, plan)
    if request.method == "POST":
        return _act(request, preview, plan)
    name, page = _page(plan, request.GET.get("kind", ""), request.GET.get("number", "1"))
    return admin_page(
        request,
        "admin/faqs/learnedresponse/preview.html",
        model=LearnedResponse,
        title=gettext("Aperçu de l’import"),
        agent=preview.agent,
        filters=_filters(plan),
        shown=name,
        page=page,
        rows=[_shown_row(each, preview.chosen) for each in page if isinstance(each, PlannedRow)],
        failures=[each for each in page if isinstance(each, Failure)],
        chosen=len(preview.chosen),
        new=len(plan.of_kind(RowKind.NEW)),
        asked=len(plan.of_kind(*ASKED)),
        not_compared=_not_compared(plan),
    )


def _act(request: HttpRequest, preview: ImportPreview, plan: ImportPlan) -> HttpResponse:
    name, page = _page(plan, request.POST.get("kind", ""), request.POST.get("number", "1"))
    asked = {planned.row.line for planned in plan.of_kind(*ASKED)}
    on_page = {each.row.line for each in page if isinstance(each, PlannedRow)}
    given = set(request.POST.getlist("chosen"))
    ticked = {line for line in on_page if str(line) in given}
    chosen = asked & ((set(preview.chosen) - on_page) | ticked)
    match request.POST.get("go", "").split(":"):
        case ["apply"]:
            if not start_import(preview, chosen):
                raise Http404
            preview.refresh_from_db()
            continue_import(preview, seconds=WRITING_SECONDS)
            return HttpResponseRedirect(_address(preview))
        case ["leave"]:
            leave_preview(preview)
            return HttpResponseRedirect(admin_url(LearnedResponse, "import"))
        case ["all"]:
            chosen |= {planned.row.line for planned in plan.of_kind(RowKind.CHANGED)}
        case ["none"]:
            chosen = set()
        case ["show", wanted, number]:
            choose(preview, chosen)
            return HttpResponseRedirect(_address(preview, kind=wanted, number=number))
    choose(preview, chosen)
    return HttpResponseRedirect(_address(preview, kind=name, number=page.number))


def _follow(request: HttpRequest, preview: ImportPreview, plan: ImportPlan) -> HttpResponse:
    """How far an import is that has begun, and what became of it; a POST goes on with it."""
    if request.method == "POST":
        continue_import(preview, seconds=WRITING_SECONDS)
        return HttpResponseRedirect(_address(preview))
    failures = [*plan.failed, *(Failure(**each) for each in preview.refused)]
    percent = 100 * preview.done // preview.total if preview.total else 100
    return admin_page(
        request,
        "admin/faqs/learnedresponse/applying.html",
        model=LearnedResponse,
        title=gettext("Import"),
        agent=preview.agent,
        preview=preview,
        is_going=preview.state == ImportState.APPLYING,
        bar=progress_bar(percent, f"{percent} % ({preview.done} / {preview.total})"),
        unchanged=len(plan.of_kind(RowKind.UNCHANGED)),
        left=len(plan.left(preview.chosen)),
        failures=failures[:SHOWN_FAILURES],
        more=max(0, len(failures) - SHOWN_FAILURES),
        answers=admin_url(LearnedResponse, "changelist", agent__id__exact=preview.agent_id),
    )


def _page(plan: ImportPlan, name: str, number: str) -> tuple[str, Page[Any]]:
    """The rows under a filter; without one, what a person is asked about first."""
    if name not in (*RowKind.values, FAILED):
        name = next((each["name"] for each in _filters(plan) if each["count"]), RowKind.NEW)
    rows = plan.failed if name == FAILED else plan.of_kind(RowKind(name))
    return name, Paginator(rows, PAGE_ROWS).get_page(number)


def _filters(plan: ImportPlan) -> list[dict[str, Any]]:
    counts = [(str(kind), kind.label, len(plan.of_kind(kind))) for kind in (*ASKED, RowKind.NEW, RowKind.UNCHANGED)]
    filters = [*counts, (FAILED, gettext("Refusées"), len(plan.failed))]
    return [{"name": name, "label": label, "count": count} for name, label, count in filters]


def _shown_row(planned: PlannedRow, chosen: list[int]) -> dict[str, Any]:
    """A row, with the answers that it would replace or contradict and what is different in each."""
    answers = [] if planned.replaces is None else [_shown_answer(planned.replaces, planned.row, is_replaced=True)]
    answers += [_shown_answer(answer, planned.row, is_replaced=False) for answer in planned.contradicts]
    return {
        "row": planned.row,
        "is_asked": planned.kind in ASKED,
        "is_chosen": planned.row.line in chosen,
        "answers": [] if planned.kind == RowKind.UNCHANGED else answers,
    }


def _shown_answer(answer: StoredAnswer, row: FaqRow, *, is_replaced: bool) -> dict[str, Any]:
    """Of an answer that would stay, what it says; of one that would be replaced, everything that differs."""
    status = str(LearnedStatus(answer.status).label)
    before, after = {gettext("Réponse"): answer.answer}, {gettext("Réponse"): row.answer}
    if is_replaced:
        before = {**_texts(answer), gettext("Validité"): status}
        after = {**_texts(row), gettext("Validité"): str(LearnedStatus.VALID.label)}
    return {
        "address": admin_url(LearnedResponse, "change", answer.id),
        "question": answer.question,
        "status": status,
        "is_replaced": is_replaced,
        "changes": compare_fields(before, after),
    }


def _texts(state: StoredAnswer | FaqRow) -> dict[str, str]:
    return {
        gettext("Question"): state.question,
        gettext("Autres formulations"): "\n".join(sorted(state.phrasings)),
        gettext("Réponse"): state.answer,
        gettext("Catégorie"): state.category,
    }


def _not_compared(plan: ImportPlan) -> str:
    if not plan.not_compared:
        return ""
    text = ngettext(
        "%(count)d ligne n’a pas été comparée aux réponses à d’autres formulations : %(reason)s",
        "%(count)d lignes n’ont pas été comparées aux réponses à d’autres formulations : %(reason)s",
        plan.not_compared,
    )
    return text % {"count": plan.not_compared, "reason": plan.not_compared_reason}


def _address(preview: ImportPreview, **query: Any) -> str:
    return admin_url(LearnedResponse, "import_preview", preview.pk, **query)


def _user(request: HttpRequest) -> AbstractBaseUser:
    """Whoever has the rights is signed in."""
    if not isinstance(request.user, AbstractBaseUser):
        raise Http404
    return request.user
