"""Forms of the tools' admin: each text that staff may replace has the code's text beside it."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.utils.text import Truncator, format_lazy
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminFileFieldWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from agents.network import host_of
from agents.texts import storable
from tools_registry.catalog import SIGNED_IN_TAG, STAFF_TAG
from tools_registry.errors import ToolSourceError
from tools_registry.models import ToolOverride, ToolSource
from tools_registry.sources.base import header_problem
from tools_registry.sources.openapi import TOOL_MAX_DOCUMENT_BYTES
from tools_registry.tool import ToolSpec

PARAMETER_PREFIX = "parameter_"

_LONGEST_PARAMETER = 1_000
_LONGEST_EXAMPLES = 20_000

_SHOWN = 600

_ROWS = 4

#: In characters: from here on, a document is not written into the page that edits its source.
_LONG_DOCUMENT = 100_000


class ToolOverrideForm(forms.ModelForm[ToolOverride]):
    """What staff decide for one tool; `form_for_tool` adds a field for each of its parameters."""

    extra_tags = forms.MultipleChoiceField(
        label=_("Droits ajoutés"),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("Il faut aussi faire partie de ces groupes, en plus des droits du code."),
    )

    examples = forms.CharField(
        label=_("formulations"),
        required=False,
        max_length=_LONGEST_EXAMPLES,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": _ROWS}),
        help_text=format_lazy("{}. {}", ToolOverride._meta.get_field("examples").help_text, _("Une par ligne.")),
    )

    class Meta:
        model = ToolOverride
        fields = ("description", "is_active", "needs_approval", "agents", "extra_tags", "examples")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = self.instance.extra_tags if isinstance(self.instance.extra_tags, list) else []
        if "extra_tags" in self.fields:
            self.fields["extra_tags"].choices = _tag_choices(stored)  # type: ignore[attr-defined]
            self.initial["extra_tags"] = stored
        self.initial["examples"] = "\n".join(self.instance.examples)
        if "needs_approval" in self.fields:
            self.fields["needs_approval"].widget.choices = [
                ("unknown", gettext("Comme le code")),
                ("true", gettext("Oui")),
                ("false", gettext("Non")),
            ]
        if "description" in self.fields:
            self.fields["description"].widget.attrs["rows"] = _ROWS
        for name, text in (self.instance.parameters or {}).items():
            self.initial.setdefault(PARAMETER_PREFIX + str(name), text)

    def clean_examples(self) -> list[str]:
        lines: str = self.cleaned_data["examples"]
        return list(dict.fromkeys(line.strip() for line in lines.splitlines() if line.strip()))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        # Texts of parameters that the tool no longer has are kept: it may have them again.
        kept = dict(self.instance.parameters or {})
        for name in self.fields:
            if name.startswith(PARAMETER_PREFIX):
                kept[name.removeprefix(PARAMETER_PREFIX)] = cleaned.get(name) or ""
        self.instance.parameters = {name: text for name, text in kept.items() if text}
        return cleaned


def form_for_tool(declared: ToolSpec | None) -> type[ToolOverrideForm]:
    """The form with the code's texts beside the fields, and one field a parameter."""
    fields: dict[str, Any] = {}
    for name, inner in parameters_of(declared).items():
        text = inner.get("description") if isinstance(inner, dict) else ""
        fields[PARAMETER_PREFIX + name] = forms.CharField(
            label=name,
            required=False,
            max_length=_LONGEST_PARAMETER,
            widget=UnfoldAdminTextInputWidget,
            help_text=_code_text(str(text or "")),
        )
    return type("ToolForm", (ToolOverrideForm,), fields)


def parameter_fields(declared: ToolSpec | None) -> list[str]:
    return [PARAMETER_PREFIX + name for name in parameters_of(declared)]


def parameters_of(declared: ToolSpec | None) -> dict[str, Any]:
    properties = declared.parameters.get("properties") if declared is not None else None
    return properties if isinstance(properties, dict) else {}


def _code_text(text: str) -> str:
    if not text:
        return gettext("Texte du code : aucun.")
    return gettext("Texte du code : « %(text)s »") % {"text": Truncator(text).chars(_SHOWN)}


def _tag_choices(stored: Sequence[object]) -> list[tuple[str, str]]:
    """The groups, the tags that everyone signed in or of the staff holds, and whatever is stored."""
    groups = Group.objects.order_by("name").values_list("name", flat=True)
    names = dict.fromkeys([*groups, SIGNED_IN_TAG, STAFF_TAG, *map(str, stored)])
    return [(name, name) for name in names]


class ToolSourceForm(forms.ModelForm[ToolSource]):
    """A source; its lists are a line for each host and a box for each group, rather than JSON.

    A document comes as a text or as a file; a long one is not written into the page again.
    """

    document_file = forms.FileField(
        label=_("fichier du document"),
        required=False,
        widget=UnfoldAdminFileFieldWidget,
        help_text=_("JSON ou YAML ; remplace le texte ci-dessus. Pour un document de plus de 2 Mo."),
    )

    allowed_hosts = forms.CharField(
        label=_("Hôtes permis"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": _ROWS}),
        help_text=_(
            "Un par ligne, par exemple « api.exemple.fr » : les serveurs que cette source peut appeler, avec leur port "
            "s’il n’est pas habituel."
        ),
    )
    tags = forms.MultipleChoiceField(
        label=_("Droits demandés"),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("Il faut faire partie de tous ces groupes pour utiliser ses outils. Aucun : tout le monde."),
    )

    class Meta:
        model = ToolSource
        fields = (
            "slug",
            "name",
            "kind",
            "command",
            "url",
            "document",
            "chosen",
            "allowed_hosts",
            "headers",
            "tags",
            "is_personal",
            "timeout_seconds",
            "is_active",
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tags, hosts = self.instance.tags, self.instance.allowed_hosts
        if "tags" in self.fields:
            stored = tags if isinstance(tags, list) else []
            self.fields["tags"].choices = _tag_choices(stored)  # type: ignore[attr-defined]
            self.initial["tags"] = stored
        if "allowed_hosts" in self.fields:
            self.initial["allowed_hosts"] = "\n".join(map(str, hosts or []))
        for name in ("headers", "chosen"):
            if name in self.fields:
                self.fields[name].widget.attrs["rows"] = _ROWS
        self.is_long = len(self.instance.document) > _LONG_DOCUMENT
        if self.is_long and "document" in self.fields:
            self.initial["document"] = ""
            self.fields["document"].help_text = ngettext(
                "Le document actuel a %(count)d caractère et n’est pas montré ici ; vide, il est gardé.",
                "Le document actuel a %(count)d caractères et n’est pas montré ici ; vide, il est gardé.",
                len(self.instance.document),
            ) % {"count": len(self.instance.document)}

    def clean_document(self) -> str:
        given: str = self.cleaned_data["document"]
        # The row still holds what is stored: a form of a model fills it afterwards.
        return self.instance.document if self.is_long and not given.strip() else given

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if file := cleaned.get("document_file"):
            try:
                cleaned["document"] = _text_of(file)
            except ValidationError as error:
                self.add_error("document_file", error)
        return cleaned

    def clean_headers(self) -> dict[str, str]:
        headers: dict[str, str] = self.cleaned_data["headers"] or {}
        if problem := header_problem(headers):
            raise ValidationError(gettext("En-tête refusé : %(problem)s.") % {"problem": problem}, code="invalid")
        return headers

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        if url:
            try:
                host_of(url, ToolSourceError)
            except ToolSourceError as error:
                raise ValidationError(gettext("Une adresse http ou https est attendue."), code="invalid") from error
        return url

    def clean_allowed_hosts(self) -> list[str]:
        lines: str = self.cleaned_data["allowed_hosts"]
        return list(dict.fromkeys(lines.split()))


def _text_of(file: UploadedFile) -> str:  # type: ignore[type-arg]
    if (file.size or 0) > TOOL_MAX_DOCUMENT_BYTES:
        raise ValidationError(
            gettext("Le document dépasse %(limit)d Mo.") % {"limit": TOOL_MAX_DOCUMENT_BYTES // 1_000_000}
        )
    try:
        content: bytes = file.read()
        return storable(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValidationError(gettext("Le document n’est pas un texte en UTF-8.")) from error
