"""What the pages of the tools' admin that are no form of one row share."""

import json

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.template.response import TemplateResponse

from agents.admin_base import admin_url
from tools_registry.models import ToolOverride


def confirm_permission(request: HttpRequest, permission: str) -> None:
    if not request.user.has_perm(permission):
        raise PermissionDenied


def render_page(request: HttpRequest, template: str, **context: object) -> TemplateResponse:
    return TemplateResponse(
        request,
        f"admin/tools_registry/{template}",
        {**admin.site.each_context(request), "opts": ToolOverride._meta, **context},
    )


def tool_url(tool: ToolOverride) -> str:
    return admin_url(ToolOverride, "change", tool.pk)


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
