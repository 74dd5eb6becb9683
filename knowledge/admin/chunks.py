"""Passages, edited beside what their document says. They come from documents: none is added or deleted here."""

import hashlib
import json
import re
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.validators import MaxLengthValidator
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.widgets import INPUT_CLASSES, TEXTAREA_CLASSES

from agents.admin_base import (
    ConditionFilter,
    ReadOnlyAdmin,
    StaffAdmin,
    Tone,
    admin_url,
    badge,
    bullets,
    change_link,
    clipped,
    linked,
    long_text,
    require,
)
from agents.llm.base import language_model
from agents.roles import visible
from knowledge.chunking import KnowledgeUnit, units_as_json
from knowledge.indexing.chunks import document_text, edit_chunk, resolve_conflict
from knowledge.models import (
    MAX_PASSAGE_CHARACTERS,
    QA_MAX_ANSWER_CHARACTERS,
    QA_MAX_QUESTION_CHARACTERS,
    Chunk,
    UnitsOrigin,
)
from knowledge.search import answers_above

_NUMBER = re.compile(r"\d+")


class UnitsWidget(forms.Widget):
    """A question and an answer a row, with empty rows below for more; an emptied row is taken out."""

    empty_rows = 2

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
        shown = {
            "name": name,
            "rows": [*(value or []), *([{"question": "", "answer": ""}] * self.empty_rows)],
            "longest": QA_MAX_QUESTION_CHARACTERS,
            "input": " ".join(INPUT_CLASSES),
            "area": " ".join(TEXTAREA_CLASSES),
        }
        return render_to_string("admin/knowledge/chunk/units.html", shown)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[dict[str, str]]:
        pairs = zip(data.getlist(f"{name}-question"), data.getlist(f"{name}-answer"), strict=False)
        rows = [{"question": q.strip(), "answer": a.strip()} for q, a in pairs]
        return [row for row in rows if row["question"] or row["answer"]]


class UnitsField(forms.Field):
    widget = UnitsWidget

    def clean(self, value: Any) -> list[KnowledgeUnit]:
        units: dict[str, KnowledgeUnit] = {}
        for row in value or []:
            question, answer = row["question"], row["answer"]
            if not question or not answer:
                raise forms.ValidationError(
                    _("Chaque question a besoin d’une réponse, et chaque réponse d’une question.")
                )
            if len(question) > QA_MAX_QUESTION_CHARACTERS or len(answer) > QA_MAX_ANSWER_CHARACTERS:
                raise forms.ValidationError(_("Une question ou une réponse est trop longue."))
            units[question] = KnowledgeUnit(question, answer)
        return list(units.values())


class ChunkForm(forms.ModelForm[Chunk]):
    """A passage as staff may write it; what they saw must still be what is stored."""

    units = UnitsField(
        label=_("questions et réponses"),
        required=False,
        help_text=_("Videz une ligne pour la retirer ; enregistrez pour avoir d’autres lignes."),
    )
    withdraw = forms.BooleanField(
        label=_("retirer ces réponses"),
        required=False,
        help_text=_("Les réponses validées que cette modification contredit peut-être sont retirées, à revoir."),
    )
    seen = forms.CharField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = Chunk
        fields = ("content", "parent_context", "category", "enabled")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.setdefault("units", self.instance.knowledge_units)
        self.initial.setdefault("seen", _digest(self.instance))
        for name, rows in (("content", 14), ("parent_context", 2)):
            if name in self.fields:  # not for who may only look
                self.fields[name].widget.attrs["rows"] = rows
        if "content" in self.fields:
            self.fields["content"].validators.append(MaxLengthValidator(MAX_PASSAGE_CHARACTERS))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        stored = Chunk.objects.filter(pk=self.instance.pk).first()
        if stored is None or cleaned.get("seen") != _digest(stored):
            raise forms.ValidationError(
                _("Ce passage a changé depuis que vous l’avez ouvert. Rouvrez-le pour le modifier.")
            )
        if not self.errors and not cleaned.get("withdraw"):
            self._name_withdrawn(stored, cleaned)
        return cleaned

    def _name_withdrawn(self, stored: Chunk, cleaned: dict[str, Any]) -> None:
        """Refuse, once, what takes validated answers out of service."""
        text, units = (cleaned["content"].strip(), units_as_json(cleaned["units"])) if cleaned["enabled"] else ("", [])
        rows = answers_above().resting_on(stored, text, units)
        withdrawn = [f"« {row} »" for row, is_withdrawn in rows if is_withdrawn]
        if withdrawn:
            said = gettext("Cette modification retire : %(answers)s. Cochez « retirer ces réponses » pour enregistrer.")
            self.add_error("withdraw", said % {"answers": ", ".join(withdrawn)})

    def _post_clean(self) -> None:
        """The instance stays as it is stored: `knowledge.indexing.chunks` compares with it."""


def _digest(chunk: Chunk) -> str:
    said = [chunk.content, chunk.parent_context, chunk.knowledge_units, chunk.conflict]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


_ORIGIN_TONES: dict[str, Tone] = {
    UnitsOrigin.WAITING: "warning",
    UnitsOrigin.FOUND: "good",
    UnitsOrigin.GENERATED: "busy",
    UnitsOrigin.STAFF: "good",
}


class EditedFilter(ConditionFilter):
    """What staff have changed, and where the document has changed since."""

    title = _("travail de l’équipe")
    parameter_name = "staff"
    conditions: ClassVar = {
        "conflict": (_("Conflit à régler"), lambda rows: rows.filter(conflict__isnull=False)),
        "edited": (_("Modifié par l’équipe"), lambda rows: rows.filter(source__isnull=False)),
    }


@require_POST
def resolve_chunk(request: HttpRequest, chunk_id: int) -> HttpResponse:
    """End a conflict by staff's version or by the document's."""
    require(request, "knowledge.change_chunk")
    chunk = get_object_or_404(visible(request, Chunk.objects.all()), pk=chunk_id)
    choice = request.POST.get("choice")
    if choice not in ("staff", "document"):
        raise Http404(gettext("Ce choix n’existe pas."))
    resolved = resolve_conflict(chunk, "staff" if choice == "staff" else "document")
    messages.success(request, gettext("Le conflit est réglé."))
    if resolved is None:
        return HttpResponseRedirect(admin_url(Chunk, "changelist", staff="conflict"))
    return HttpResponseRedirect(admin_url(Chunk, "change", chunk.pk))


@admin.register(Chunk)
class ChunkAdmin(ReadOnlyAdmin):
    """Staff change passages; one that they deleted would come back with the next reading of its document."""

    purpose = _("Les morceaux dans lesquels les documents sont découpés : ce qui est cherché et cité.")
    form = ChunkForm
    change_list_template = "admin/knowledge/chunk/change_list.html"
    change_form_template = "admin/knowledge/chunk/change_form.html"
    list_display = ("excerpt", "document_link", "category", "origin", "questions", "work")
    list_filter = (
        *(EditedFilter, "enabled", "units_origin", "document__agent"),
        ("document", AutocompleteSelectFilter),
        "category",
    )
    list_filter_submit = True
    list_select_related = ("document", "category")
    search_fields = ("content", "parent_context", "document__name", "document__title")
    actions = ("enable", "disable")
    readonly_fields = ("document_link", "work", "source_text", "origin", "units_list", "resting", "summary")

    own_pages = (("<int:chunk_id>/resolve/", resolve_chunk, "resolve"),)
    has_change_permission = StaffAdmin.has_change_permission

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        text, units = ["parent_context", "content"], "units_list"
        if self.has_change_permission(request, obj):
            text, units = ["seen", *text, "source_text"], "units"
            if isinstance(obj, Chunk) and answers_above().resting_on(obj, obj.content, []):
                text += ["resting", "withdraw"]
        return (
            (None, {"fields": ("document_link", "work", "enabled", "category")}),
            (_("Texte"), {"fields": text}),
            (_("Questions et réponses"), {"fields": ("origin", units, "summary")}),
        )

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        data = form.cleaned_data
        obj.enabled, obj.category = data["enabled"], data["category"]
        edit_chunk(obj, content=data["content"], parent_context=data["parent_context"], units=data["units"])
        for unit in data["units"]:
            if strange := set(_NUMBER.findall(f"{unit.question} {unit.answer}")) - set(_NUMBER.findall(obj.content)):
                said = gettext("« %(question)s » dit %(numbers)s, que le texte ne contient pas.")
                values = {"question": unit.question, "numbers": ", ".join(sorted(strange))}
                self.message_user(request, said % values, messages.WARNING)
        self.message_user(request, _("L’index suit dans quelques instants."))

    @admin.action(description=_("Activer"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Chunk]) -> None:
        self._switch(request, queryset, on=True)

    @admin.action(description=_("Désactiver"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Chunk]) -> None:
        self._switch(request, queryset, on=False)

    def _switch(self, request: HttpRequest, queryset: QuerySet[Chunk], *, on: bool) -> None:
        """Each by itself, so that the answers drawn from it follow."""
        changed = list(queryset.exclude(enabled=on))
        for chunk in changed:
            chunk.enabled = on
            chunk.save(update_fields=["enabled"])
        text = ngettext("%(count)d passage modifié.", "%(count)d passages modifiés.", len(changed))
        self.message_user(request, text % {"count": len(changed)})

    @admin.display(description=_("réponses validées tirées de ce passage"))
    def resting(self, chunk: Chunk) -> str:
        rows = answers_above().resting_on(chunk, chunk.content, chunk.knowledge_units)
        return bullets("{}", [(change_link(row),) for row, _is_withdrawn in rows])

    @admin.display(description=_("équipe"))
    def work(self, chunk: Chunk) -> SafeString | str:
        states: list[tuple[Any, Tone]] = []
        if chunk.conflict is not None:
            states.append((_("Conflit à régler"), "bad"))
        if chunk.is_edited:
            states.append((_("Modifié"), "busy"))
        if not chunk.enabled:
            states.append((_("Désactivé"), "warning"))
        return format_html_join(" ", "{}", ((badge(text, tone),) for text, tone in states)) or "–"

    @admin.display(description=_("texte du document"))
    def source_text(self, chunk: Chunk) -> str:
        return long_text(document_text(chunk))

    @admin.display(description=_("texte"), ordering="content")
    def excerpt(self, chunk: Chunk) -> SafeString:
        return clipped(chunk.content)

    document_link = linked("document", _("document"), ordering="document__name")

    @admin.display(description=_("questions"), ordering="units_origin")
    def origin(self, chunk: Chunk) -> SafeString:
        if chunk.units_origin == UnitsOrigin.WAITING and language_model() is None:
            return badge(_("Trouvé par son texte"), "neutral")
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
