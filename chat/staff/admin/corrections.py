"""« Corriger »: one page from a wrong answer to a right one, and to its proof.

Every button but *save* shows the same page again, filled in.
"""

import uuid
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from agents.admin_base import admin_page, admin_url, require, signed_in
from agents.errors import ApplicationError
from agents.llm.base import language_model
from agents.roles import visible
from chat.models import AnswerSource, Feedback, QuestionOrigin, Turn, TurnStatus
from chat.staff.admin.private import linked_sources, prose, prose_of, source_badge, verdict_badge
from chat.staff.corrections import Correction, NothingToCorrectError, close_what_it_answers, prove
from chat.staff.explanation import closeness, deciding_step
from chat.staff.golden import add_questions, row_of_answer, set_for
from chat.thread.branches import exchange_of
from faqs.answers import check_texts, clean_answer, one_line
from faqs.errors import AnswerRejectedError
from faqs.models import CachedResponse, LearnedResponse
from faqs.neighbours import find_answers, find_similar, similar_text
from faqs.precedence import Withdrawn, foresee
from knowledge.models import QA_MAX_QUESTION_CHARACTERS

RIGHTS = ("chat.view_turn", "faqs.add_learnedresponse", "faqs.change_learnedresponse")
#: Validated answers shown at once, near the question or found by a search.
_FOUND = 5
_SEARCH_CHARACTERS = 200


class CorrectionForm(forms.Form):
    """The question and the answer as they will be kept, and what staff look for meanwhile."""

    question = forms.CharField(
        label=gettext_lazy("Question"),
        widget=UnfoldAdminTextInputWidget,
        help_text=gettext_lazy("Une question qui se comprend seule."),
    )
    answer = forms.CharField(
        label=gettext_lazy("La bonne réponse"),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 8}),
        help_text=gettext_lazy("Écrivez-la, ou reprenez le texte d’un passage : c’est ce texte qui sera donné."),
    )
    golden = forms.BooleanField(
        label=gettext_lazy("Garder comme question de référence"),
        required=False,
        initial=True,
        help_text=gettext_lazy("Elle pourra être posée de nouveau avant et après un changement."),
        widget=UnfoldBooleanWidget,
    )
    #: What the page showed that this answer withdraws: what is not among it is shown before it is saved.
    shown = forms.CharField(required=False, widget=forms.HiddenInput)
    #: The number of the passage that the text was taken from.
    taken = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if self.errors:
            return data
        data["question"], data["answer"] = one_line(data["question"]), clean_answer(data["answer"])
        try:
            check_texts(data["question"], data["answer"])
        except AnswerRejectedError as error:
            raise forms.ValidationError(str(error.public_message)) from error
        return data


def may_correct(request: HttpRequest) -> bool:
    return request.user.has_perms(RIGHTS)


def is_correctable(turn: Turn) -> bool:
    """Whether it has an answer, and one that may be used again."""
    return turn.status == TurnStatus.DONE and not turn.conversation.is_temporary


def correction_address(request: HttpRequest, turn: Turn) -> str:
    """Where this turn is corrected; empty where it may not be, or has nothing to correct."""
    is_open = is_correctable(turn) and may_correct(request)
    return admin_url(Turn, "correct", turn.pk) if is_open else ""


@require_http_methods(["GET", "POST"])
def correct_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponse:
    """The page of one turn; `saved` names the validated answer whose proof is shown."""
    require(request, *RIGHTS)
    turns = Turn.objects.select_related("conversation__deployment__agent", "feedback")
    turn = get_object_or_404(visible(request, turns), pk=turn_id)
    try:
        correction = Correction.of(turn)
    except NothingToCorrectError as error:
        messages.error(request, str(error.public_message))
        return HttpResponseRedirect(admin_url(Turn, "change", turn.pk))
    if (saved := _saved_answer(request, correction)) is not None:
        return _proof_page(request, correction, saved)
    page = _Page(request, correction)
    if request.method == "POST" and (row := page.act()) is not None:
        return HttpResponseRedirect(admin_url(Turn, "correct", turn.pk, saved=row.pk))
    return page.shown()


class _Page:
    """The form as it stands after what was pressed, and what is beside it."""

    def __init__(self, request: HttpRequest, correction: Correction) -> None:
        self.request, self.correction = request, correction
        self.passages = linked_sources(correction.passages())
        self.withdrawn: Withdrawn | None = None
        self.search = ""
        self.form = CorrectionForm(initial={"question": correction.question, "answer": correction.answer})

    def act(self) -> LearnedResponse | None:
        """Do what was pressed; the answer that was saved, where one was."""
        pressed = self.request.POST
        self.search = one_line(pressed.get("search", ""))[:_SEARCH_CHARACTERS]
        is_saved = not {"take", "find", "give"} & pressed.keys()
        self.form = CorrectionForm(pressed if is_saved else None, initial=self._typed(pressed.get("take", "")))
        try:
            if "give" in pressed:
                return self._give(pressed["give"])
            return self._save() if is_saved and self.form.is_valid() else None
        except ApplicationError as error:
            messages.error(self.request, str(error.public_message))
            return None

    def _typed(self, number: str) -> dict[str, Any]:
        """What stands in the fields, with the text of a passage in place of the answer where one was taken."""
        typed: dict[str, Any] = {name: self.request.POST.get(name, "") for name in self.form.fields}
        for passage in self.passages:
            if number and str(passage["n"]) == number:
                typed |= {"answer": passage["text"], "taken": passage["n"]}
        return typed

    def _give(self, key: str) -> LearnedResponse | None:
        standing = LearnedResponse.objects.valid().filter(agent=self.correction.agent)
        row = standing.filter(pk=int(key)).first() if key.isdecimal() and len(key) < 19 else None
        if row is None:
            messages.error(self.request, _("Cette réponse validée n’est plus en service."))
            return None
        if self.correction.is_marked_wrong(row):
            messages.error(
                self.request, _("C’est la réponse marquée comme fausse : donnez-en une autre, ou écrivez la bonne.")
            )
            return None
        question = _as_question(self.request.POST.get("question")) or self.correction.question
        if not self._is_confirmed(question, row.answer, exclude=row):
            return None
        self.correction.give(row, question=question, owner=signed_in(self.request))
        return self._close(row)

    def _save(self) -> LearnedResponse | None:
        question, answer = self.form.cleaned_data["question"], self.form.cleaned_data["answer"]
        if not self._is_confirmed(question, answer, exclude=self.correction.known):
            self.form = CorrectionForm(initial=self.form.cleaned_data)
            return None
        taken = next((each for each in self.passages if each["n"] == self.form.cleaned_data["taken"]), None)
        row = self.correction.keep(question=question, answer=answer, owner=signed_in(self.request), taken=taken)
        for text in _advice(row):
            messages.warning(self.request, text)
        return self._close(row)

    def _close(self, row: LearnedResponse) -> LearnedResponse:
        turn = self.correction.turn
        if prove(turn, row).is_right:
            close_what_it_answers(turn, row, signed_in(self.request))
        if "golden" in self.request.POST and self.request.user.has_perm("chat.add_goldenquestion"):
            kept = row_of_answer(self.correction.question, row.answer)
            golden_set = set_for(turn.conversation.deployment)
            add_questions(golden_set, [kept], QuestionOrigin.CORRECTION)
        return row

    def _is_confirmed(self, question: str, answer: str, *, exclude: LearnedResponse | None) -> bool:
        """Whether the page has shown all that this would withdraw; if not, it says so and shows it."""
        self.withdrawn = self._foreseen(question, answer, exclude=exclude)
        if self.withdrawn is None or self.withdrawn.keys <= set(self.request.POST.get("shown", "").split()):
            return True
        messages.warning(
            self.request, _("Cette réponse en remplace d’autres, montrées ci-dessous : recommencez pour confirmer.")
        )
        return False

    def _foreseen(self, question: str, answer: str = "", *, exclude: LearnedResponse | None) -> Withdrawn | None:
        """`None` where it cannot be looked up: the answer is kept all the same."""
        own = exclude.pk if exclude else None
        try:
            return foresee(self.correction.agent, question, answer, exclude=own)
        except ApplicationError:
            return None

    def shown(self) -> HttpResponse:
        question = _as_question(self.form["question"].value()) or self.correction.question
        known = self.correction.known
        withdrawn = self.withdrawn or self._foreseen(question, exclude=known)
        if not self.form.is_bound:
            self.form.initial["shown"] = " ".join(sorted(withdrawn.keys)) if withdrawn else ""
        turn = self.correction.turn
        return admin_page(
            self.request,
            "admin/chat/turn/correct.html",
            model=Turn,
            title=_("Corriger"),
            form=self._offered(),
            correction=self.correction,
            turn=turn,
            given=_given(turn),
            passages=self.passages,
            withdrawn=_linked(withdrawn),
            is_foreseen=withdrawn is not None,
            search=self.search,
            answers=self._near_answers(question, withdrawn),
            why_url=admin_url(Turn, "change", turn.pk),
        )

    def _offered(self) -> CorrectionForm:
        """The form without what its reader has no right to."""
        if not self.request.user.has_perm("chat.add_goldenquestion"):
            self.form.fields.pop("golden", None)
        return self.form

    def _near_answers(self, question: str, withdrawn: Withdrawn | None) -> Sequence[LearnedResponse]:
        """Validated answers to choose from: those looked for, or the nearest to the question."""
        try:
            found = find_answers(self.correction.agent, self.search or question, limit=_FOUND)
        except ApplicationError:
            return []
        known = self.correction.known
        return [row for row in found if known is None or row.pk != known.pk]


def _as_question(typed: Any) -> str:
    """What was typed as it may be looked up: on one line, without characters that no database takes, and not endless."""
    return one_line(str(typed or ""))[:QA_MAX_QUESTION_CHARACTERS]


def _advice(row: LearnedResponse) -> list[SafeString]:
    """What goes on being answered near this question, for staff to read again; nothing where it cannot be looked up."""
    try:
        similar = find_similar(agent=row.agent, questions=[row.question], answer=row.answer, exclude=row.pk)
    except ApplicationError:
        return []
    return [similar_text(each) for each in similar if each.response.is_valid]


def _given(turn: Turn) -> dict[str, Any]:
    """What was answered, and why in short."""
    _asked, answered = exchange_of(turn)
    step = deciding_step(turn.trace, turn.answer_source)
    feedback: Feedback | None = getattr(turn, "feedback", None)
    entries = [line.get("entry") for line in turn.trace if isinstance(line, dict)]
    entry = next((each for each in entries if isinstance(each, int)), None)
    is_kept = entry is not None and CachedResponse.objects.filter(pk=entry).exists()
    outcome = step.outcome if step else ""
    if turn.answer_source == AnswerSource.LLM and answered is not None:
        outcome = _("Le modèle de langage l’a rédigée (passages lus : %(count)d).") % {"count": len(answered.sources)}
    return {
        "prose": prose_of(answered) if answered else "",
        "badge": source_badge(turn),
        "outcome": outcome,
        "closeness": closeness(step.score, step.threshold) if step else "",
        "entry_url": admin_url(CachedResponse, "change", entry) if is_kept else "",
        "feedback": feedback,
        "verdict": verdict_badge(feedback) if feedback else "",
    }


def _linked(withdrawn: Withdrawn | None) -> list[dict[str, Any]]:
    if withdrawn is None:
        return []
    memory = [("memory", entry, str(entry.deployment)) for entry in withdrawn.entries]
    faq = [("faq", row, "") for row in withdrawn.answers]
    return [
        {"is_memory": table == "memory", "row": row, "where": where, "url": admin_url(type(row), "change", row.pk)}
        for table, row, where in [*memory, *faq]
    ]


def _saved_answer(request: HttpRequest, correction: Correction) -> LearnedResponse | None:
    key = request.GET.get("saved", "")
    if request.method != "GET" or not key.isdecimal() or len(key) > 18:
        return None
    return LearnedResponse.objects.filter(pk=int(key), agent=correction.agent).first()


def _proof_page(request: HttpRequest, correction: Correction, row: LearnedResponse) -> HttpResponse:
    """The question is asked again, now and each time the page is opened; a dry run."""
    proof = prove(correction.turn, row)
    step = deciding_step(proof.given.result.trace.lines, "direct_qa")
    feedback: Feedback | None = getattr(correction.turn, "feedback", None)
    replaced = Withdrawn(
        list(row.superseded_entries.defer("embedding").select_related("deployment")[:_FOUND]),
        list(row.superseded_answers.all()[:_FOUND]),
    )
    others = visible(request, Feedback.objects.to_correct()).exclude(turn=correction.turn)
    following = others.order_by("updated_at").first()
    return admin_page(
        request,
        "admin/chat/turn/corrected.html",
        model=Turn,
        title=_("Corrigée"),
        turn=correction.turn,
        row=row,
        proof=proof,
        prose=prose(proof.given.result.answer.text, (), key="proof"),
        why_not=step.outcome if step and not proof.is_right else "",
        has_model=language_model() is not None,
        withdrawn=_linked(replaced),
        verdict=verdict_badge(feedback) if feedback else "",
        feedback=feedback,
        row_url=admin_url(LearnedResponse, "change", row.pk)
        if request.user.has_perm("faqs.view_learnedresponse")
        else "",
        next_url=admin_url(Turn, "correct", following.turn_id) if following else "",
        again_url=admin_url(Turn, "correct", correction.turn.pk),
    )
