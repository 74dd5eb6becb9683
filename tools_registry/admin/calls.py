"""« Essayer cet outil »: one real call, under the rights of whoever types its arguments; secrets are not shown."""

import json
from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync
from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods
from unfold.widgets import UnfoldAdminTextareaWidget

from agents.admin_base import admin_page, require
from agents.roles import visible
from tools_registry.execution import ToolCall, execute_calls
from tools_registry.models import ToolOverride
from tools_registry.sources.base import sent_requests
from tools_registry.tool import ToolContext, ToolSpec


class CallForm(forms.Form):
    arguments = forms.CharField(
        label=_("Arguments"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 8}),
        help_text=_("Un objet JSON, comme le modèle l’écrirait. L’appel est réel."),
    )


@require_http_methods(["GET", "POST"])
def try_tool(request: HttpRequest, tool_id: int, attach: Callable[[list[Any]], None]) -> HttpResponse:
    """The page; `attach` reads what the tool is now."""
    require(request, "tools_registry.change_tooloverride")
    tool: Any = get_object_or_404(visible(request, ToolOverride.objects.select_related("source")), pk=tool_id)
    attach([tool])
    spec: ToolSpec | None = tool.effective
    if spec is None:
        raise Http404(gettext("Plus rien ne déclare cet outil."))
    names = spec.parameters.get("required")
    empty = dict.fromkeys(names, "") if isinstance(names, list) else {}
    form = CallForm(request.POST or None, initial={"arguments": json.dumps(empty, ensure_ascii=False, indent=2)})
    result, sent = None, list[str]()
    if request.method == "POST" and form.is_valid():
        call = ToolCall("try", spec.name, form.cleaned_data["arguments"])
        with sent_requests() as sent:
            run, whose = async_to_sync(execute_calls), ToolContext(user_id=request.user.pk)
            (result,) = run([call], tools=[spec], context=whose, approved=[call.id])
    title, page = gettext("Essayer « %(tool)s »") % {"tool": spec.name}, "admin/tools_registry/tooloverride/call.html"
    return admin_page(request, page, model=ToolOverride, title=title, form=form, result=result, sent=sent)
