"""The audit of the memory. Its rows are what people asked, and are changed by the verbs of `faqs.memory` alone."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.contrib.filters.admin import RangeDateFilter

from agents.admin_base import (
    ConditionFilter,
    StaffAdmin,
    Tone,
    admin_page,
    admin_url,
    badge,
    bullets,
    change_link,
    clipped,
    link,
    linked,
    long_text,
    open_to,
    signed_in,
    stacked,
)
from agents.database import short_write
from agents.errors import ApplicationError
from agents.models import Audience
from faqs.answers import entries_to_review, promote_entry, without_citations
from faqs.memory import delete_entries, edit_entry, key_hash, set_status
from faqs.models import CachedResponse, EntryStatus, StatusReason
from faqs.neighbours import similar_text
from faqs.precedence import Older, find_older, supersede_with_entry, vouch_for_entries
from knowledge.embeddings.base import Purpose, embedder
from knowledge.models import Chunk

#: Entries of the memory that one action makes validated answers of; each is compared and indexed within the request.
FAQ_MAX_PROMOTED = 100

_TONES: dict[str, Tone] = {EntryStatus.VALID: "good", EntryStatus.TO_REVIEW: "warning", EntryStatus.OBSOLETE: "neutral"}


_SCOPE = ("deployment", "shown_audience", "embedding_model", "usage_count", "created_at", "confirmed_at")
_PROVENANCE = ("origin", "replaced", "passages", "details", "reports")


class CachedResponseForm(forms.ModelForm[CachedResponse]):
    """What staff may change in an entry; its status changes by an action, which says what it does."""

    class Meta:
        model = CachedResponse
        fields = ("question", "answer", "language", "review_on", "status_note")

    older: Older

    def clean_question(self) -> str:
        question = str(self.cleaned_data["question"]).strip()
        if not any(character.isalnum() for character in question):
            raise ValidationError(_("La question est vide."))
        entry, metadata = self.instance, self.instance.metadata
        key = key_hash(
            phase=str(metadata.get("phase", "")), project=str(metadata.get("project", "")), question=question
        )
        same = CachedResponse.objects.filter(deployment=entry.deployment_id, audience=entry.audience, key_hash=key)
        if same.exclude(pk=entry.pk).exists():
            raise ValidationError(_("Cette question est déjà en mémoire pour ce guichet."))
        return question

    def clean(self) -> dict[str, Any]:
        """What asks the same is looked for before anything is written; what cannot be compared is not saved."""
        data: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                vector = embedder().embed_one(data["question"], purpose=Purpose.QUERY)
                self.older = find_older(self.instance.deployment, data["question"], vector)
            except ApplicationError as error:
                raise ValidationError(str(error.public_message)) from error
        return data


class ReviewFilter(ConditionFilter):
    title = _("relecture")
    parameter_name = "review"
    conditions: ClassVar = {
        "waiting": (_("À relire"), lambda rows: rows.filter(pk__in=entries_to_review().values("pk")))
    }


@admin.register(CachedResponse)
class CachedResponseAdmin(StaffAdmin):
    purpose = _("Les réponses gardées des conversations, pour répondre de même à la même question, sans modèle.")
    form = CachedResponseForm
    change_list_template = "admin/faqs/cachedresponse/change_list.html"
    list_display = ("asked", "state", "usage_count", "deployment", "created_at")
    list_filter = ("status", "status_reason", ReviewFilter, "deployment", ("created_at", RangeDateFilter))
    list_filter_submit = True
    list_select_related = ("deployment",)
    search_fields = ("question", "answer", "status_note")
    ordering = ("-created_at", "-pk")
    actions = ("validate_entries", "promote", "mark_obsolete")
    readonly_fields = ("state", *_SCOPE, *_PROVENANCE)
    fieldsets = (
        (None, {"fields": ("state", "question", "answer", "language", "review_on", "status_note")}),
        (_("Portée et usage"), {"fields": _SCOPE}),
        (_("Provenance"), {"fields": _PROVENANCE}),
    )

    replaced = linked("superseded_by", _("remplacée par"))

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Entries are learned or imported; an answer written by hand is a FAQ."""
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[CachedResponse]:
        return super().get_queryset(request).defer("embedding")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        with short_write():
            edit_entry(obj)
            if form.has_changed():
                supersede_with_entry(obj, form.older)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_entries(CachedResponse.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[CachedResponse]) -> None:
        delete_entries(queryset)

    @admin.action(description=_("Valider"), permissions=["change"])
    def validate_entries(self, request: HttpRequest, queryset: QuerySet[CachedResponse]) -> None:
        try:
            count = vouch_for_entries(CachedResponse.objects.filter(pk__in=_keys(queryset)))
        except ApplicationError as error:
            self.message_user(request, str(error.public_message), messages.ERROR)
            return
        text = ngettext("%(count)d réponse validée.", "%(count)d réponses validées.", count)
        self.message_user(request, text % {"count": count})

    has_promote_permission = open_to("faqs.add_learnedresponse")

    @admin.action(description=_("Promouvoir en FAQ"), permissions=["promote"])
    def promote(self, request: HttpRequest, queryset: QuerySet[CachedResponse]) -> HttpResponse | None:
        """Show what would become a FAQ; once confirmed, do it and say what became of each entry."""
        chosen = queryset.select_related("deployment__agent").order_by("pk")
        entries = list(chosen[: FAQ_MAX_PROMOTED + 1])
        if len(entries) > FAQ_MAX_PROMOTED:
            text = _("Choisissez %(limit)d réponses au plus à la fois.")
            self.message_user(request, text % {"limit": FAQ_MAX_PROMOTED}, messages.ERROR)
            return None
        if "confirmed" in request.POST:
            self._promote(request, entries)
            return None
        return admin_page(
            request,
            "admin/faqs/cachedresponse/promote.html",
            model=CachedResponse,
            title=_("Promouvoir en FAQ"),
            entries=[(entry, without_citations(entry.answer)) for entry in entries],
        )

    def _promote(self, request: HttpRequest, entries: Sequence[CachedResponse]) -> None:
        count = 0
        owner = signed_in(request)
        for entry in entries:
            try:
                similar = promote_entry(entry, owner=owner)
            except ApplicationError as error:
                refused = f"« {Truncator(entry.question).chars(140)} » : {error.public_message}"
                self.message_user(request, refused, messages.WARNING)
                continue
            if similar is None:
                count += 1
                continue
            known = format_html("« {} » : {}", Truncator(entry.question).chars(140), similar_text(similar))
            self.message_user(request, known, messages.WARNING)
        if count:
            text = ngettext("%(count)d réponse promue en FAQ.", "%(count)d réponses promues en FAQ.", count)
            self.message_user(request, text % {"count": count}, messages.SUCCESS)
        if left := len(entries) - count:
            text = ngettext("%(count)d réponse n’a pas été promue.", "%(count)d réponses n’ont pas été promues.", left)
            self.message_user(request, text % {"count": left}, messages.WARNING)

    @admin.action(description=_("Marquer obsolètes"), permissions=["change"])
    def mark_obsolete(self, request: HttpRequest, queryset: QuerySet[CachedResponse]) -> None:
        chosen = CachedResponse.objects.filter(pk__in=_keys(queryset))
        count = set_status(chosen, EntryStatus.OBSOLETE, StatusReason.STAFF)
        text = ngettext("%(count)d réponse marquée obsolète.", "%(count)d réponses marquées obsolètes.", count)
        self.message_user(request, text % {"count": count})

    @admin.display(description=_("question et réponse"), ordering="question")
    def asked(self, entry: CachedResponse) -> SafeString:
        answer = Truncator(without_citations(entry.answer).replace("**", "")).chars(140)
        return stacked(clipped(entry.question), answer)

    @admin.display(description=_("état"), ordering="status")
    def state(self, entry: CachedResponse) -> SafeString:
        shown = badge(entry.get_status_display(), _TONES.get(entry.status, "neutral"))
        return stacked(shown, entry.get_status_reason_display()) if entry.status_reason else shown

    @admin.display(description=_("public"))
    def shown_audience(self, entry: CachedResponse) -> str:
        return str(dict(Audience.choices).get(entry.audience.partition(":")[0], "–"))

    @admin.display(description=_("apprise de"))
    def origin(self, entry: CachedResponse) -> SafeString | str:
        if entry.source_turn is None:
            return "–"
        # The turn belongs to an app above: reached by its address.
        return link(admin_url("chat.turn", "change", entry.source_turn), _("la conversation"))

    @admin.display(description=_("passages d’origine"))
    def passages(self, entry: CachedResponse) -> SafeString | str:
        keys = list(entry.origins.exclude(chunk=None).values_list("chunk_id", flat=True))
        found = Chunk.objects.select_related("document").in_bulk(keys)
        return bullets("{}", [(change_link(found[key]) if key in found else _("supprimé"),) for key in keys])

    @admin.display(description=_("métadonnées"))
    def details(self, entry: CachedResponse) -> SafeString | str:
        return bullets("{} : {}", [pair for pair in entry.metadata.items() if pair[1] not in (None, "", [])])

    @admin.display(description=_("signalements"))
    def reports(self, entry: CachedResponse) -> SafeString | str:
        pairs, deleted = entry.wrong_pairs.order_by("-reported_at"), _("(conversation supprimée)")
        return long_text("\n".join(f"{pair.question or deleted} {pair.reason}".strip() for pair in pairs))


def _keys(queryset: QuerySet[CachedResponse]) -> list[int]:
    """The keys alone: verbs read what they need, and a deferred vector would be read row by row."""
    return list(queryset.values_list("pk", flat=True))
