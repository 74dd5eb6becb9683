"""Acronyms that documents spell out and synonyms of staff: read, corrected, confirmed, refused, added."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents.admin_base import ReadOnlyAdmin, StaffAdmin, Tone, badge, change_link
from agents.models import Agent
from knowledge.acronyms import Form
from knowledge.embeddings.base import embedder
from knowledge.models import PairVerdict, Synonym, SynonymState, ThresholdCalibration
from knowledge.synonyms import keys_of, objection_to, refresh_tables, tell_new_forms
from knowledge.thresholds import Rate, load_calibrations, threshold_profile

_TONES: dict[str, Tone] = {SynonymState.FOUND: "neutral", SynonymState.CONFIRMED: "good", SynonymState.REFUSED: "bad"}


class SynonymForm(forms.ModelForm[Synonym]):
    class Meta:
        model = Synonym
        fields = ("agent", "short", "long")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        # Of a known pair the agent is not among the fields.
        agent = cleaned.get("agent") or Agent.objects.filter(pk=self.instance.agent_id).first()
        if agent is None or not {"short", "long"} <= cleaned.keys():
            return cleaned
        short_key, long_key = keys_of(cleaned["short"], cleaned["long"])
        if short_key == long_key:
            raise forms.ValidationError(_("Les deux formes sont les mêmes."))
        if objection := objection_to(cleaned["short"], cleaned["long"]):
            raise forms.ValidationError(objection)
        others = Synonym.objects.filter(agent=agent, short_key=short_key, long_key=long_key)
        if others.exclude(pk=self.instance.pk).exists():
            raise forms.ValidationError(_("Cette paire existe déjà pour cet agent."))
        return cleaned


@admin.register(Synonym)
class SynonymAdmin(StaffAdmin):
    purpose = _("Deux formes d’une même chose : une question avec l’une trouve aussi l’autre.")
    form = SynonymForm
    list_display = ("short", "long", "decision", "origin", "agent")
    list_display_links = ("short", "long")
    list_filter = ("state", "agent")
    list_select_related = ("agent",)
    search_fields = ("short", "long", "short_key", "long_key", "documents__title")
    actions = ("confirm", "refuse")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Synonym]:
        return super().get_queryset(request).prefetch_related("documents")

    def get_readonly_fields(self, request: HttpRequest, obj: Synonym | None = None) -> list[str]:
        return ["agent", "decision", "origin"] if obj else []

    def get_fields(self, request: HttpRequest, obj: Synonym | None = None) -> list[Any]:
        fields = ["agent", "short", "long"]
        return [*fields, "decision", "origin"] if obj else fields

    def save_model(self, request: HttpRequest, obj: Synonym, form: Any, change: bool) -> None:
        """What a person wrote is confirmed; the pair that it corrects stays refused, or documents would teach it again."""
        before = Synonym.objects.filter(pk=obj.pk).first() if change else None
        obj.short_key, obj.long_key = keys_of(obj.short, obj.long)
        obj.state = SynonymState.CONFIRMED
        super().save_model(request, obj, form, change)
        corrected = before is not None and (before.short_key, before.long_key) != (obj.short_key, obj.long_key)
        if before is not None and corrected and obj.documents.exists():
            before.pk, before.state = None, SynonymState.REFUSED
            before.save(force_insert=True)
            before.documents.set(obj.documents.all())
            obj.documents.clear()
        tell_new_forms(obj.agent_id, [Form(obj.short, obj.long, is_confirmed=True)])

    @admin.action(description=_("Confirmer"), permissions=["change"])
    def confirm(self, request: HttpRequest, queryset: QuerySet[Synonym]) -> None:
        self._decide(request, queryset, SynonymState.CONFIRMED)

    @admin.action(description=_("Refuser"), permissions=["change"])
    def refuse(self, request: HttpRequest, queryset: QuerySet[Synonym]) -> None:
        self._decide(request, queryset, SynonymState.REFUSED)

    def _decide(self, request: HttpRequest, queryset: QuerySet[Synonym], state: SynonymState) -> None:
        chosen = Synonym.objects.filter(pk__in=list(queryset.values_list("pk", flat=True)))
        count = chosen.update(state=state)
        refresh_tables()
        if state == SynonymState.CONFIRMED:
            for pair in chosen:
                tell_new_forms(pair.agent_id, [Form(pair.short, pair.long, is_confirmed=True)])
        text = ngettext("%(count)d paire modifiée.", "%(count)d paires modifiées.", count)
        self.message_user(request, text % {"count": count})

    @admin.display(description=_("état"), ordering="state")
    def decision(self, synonym: Synonym) -> SafeString:
        return badge(synonym.get_state_display(), _TONES[synonym.state])

    @admin.display(description=_("origine"))
    def origin(self, synonym: Synonym) -> SafeString | str:
        taught = [(change_link(document),) for document in synonym.documents.all()]
        return format_html_join(", ", "{}", taught) or gettext("Équipe")


def profile_in_use() -> dict[str, float | None]:
    """The measured thresholds of the embedding model in use, for the settings pages (`EMBEDDING_PROFILE`)."""
    load_calibrations()
    profile = threshold_profile(embedder().recipe.model)
    if profile is None:
        return {}
    return {
        "direct_answer_threshold": profile.direct_answer,
        "guard_rail_threshold": profile.guard_rail,
        "memory_threshold": profile.memory,
        "tool_threshold": profile.tool,
    }


@admin.register(ThresholdCalibration)
class ThresholdCalibrationAdmin(ReadOnlyAdmin):
    """What `calibrate_thresholds` kept. Deleting a row brings the shipped profile back, if there is one."""

    purpose = _("Les seuils mesurés : à partir de quelle proximité une réponse est donnée.")
    list_display = ("model", "index", "direct_answer", "memory", "hit", "false_hit", "created_at")
    list_filter = ("model",)
    search_fields = ("model", "index", "source")
    is_erasable = True
    readonly_fields = ("created_at",)

    @admin.display(description=_("bonnes réponses"))
    def hit(self, row: ThresholdCalibration) -> str:
        return str(Rate(row.hits, row.same_pairs))

    @admin.display(description=_("mauvaises réponses"))
    def false_hit(self, row: ThresholdCalibration) -> str:
        return str(Rate(row.false_hits, row.different_pairs))


@admin.register(PairVerdict)
class PairVerdictAdmin(StaffAdmin):
    purpose = _("Paires de questions jugées par l’équipe, dont les calibrages se servent.")
    list_display = ("stored", "asked", "same_answer", "index", "created_at")
    list_filter = ("same_answer", "index")
    list_select_related = False
    search_fields = ("stored", "asked")
    fields = ("stored", "asked", "same_answer", "index")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.decided_by = request.user if not change else obj.decided_by
        super().save_model(request, obj, form, change)
