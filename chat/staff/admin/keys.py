"""What opens doors to programs: the keys of `/v1`, and service tokens."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents.admin_base import StaffAdmin, admin_page, admin_url
from chat.models import ApiKey


@admin.register(ApiKey)
class ApiKeyAdmin(StaffAdmin):
    """A key is shown once, on the page that follows its creation. Service tokens are issued by their command."""

    purpose = _("Ce avec quoi un programme pose des questions, ou un serveur écrit dans les conversations.")
    actions = ("revoke",)
    list_display = ("name", "is_service", "shown_prefix", "opened", "last_used_at", "expires_at", "is_revoked")
    list_filter = ("is_service", "is_revoked", "deployments")
    search_fields = ("name", "prefix")
    readonly_fields = ("shown_prefix", "last_used_at")
    filter_horizontal = ("deployments",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        of_a_service = ["all_deployments"] if obj is not None and obj.is_service else []
        return ["name", *of_a_service, "deployments", "expires_at", "is_revoked", *self.readonly_fields]

    @admin.action(description=_("Révoquer"), permissions=["change"])
    def revoke(self, request: HttpRequest, rows: QuerySet[ApiKey]) -> None:
        count = rows.filter(is_revoked=False).update(is_revoked=True)
        message = ngettext("%(count)d accès révoqué.", "%(count)d accès révoqués.", count)
        self.message_user(request, message % {"count": count})

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        keys: QuerySet[ApiKey] = super().get_queryset(request)
        return keys.prefetch_related("deployments")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.drawn_secret = obj.draw_secret()
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        return admin_page(
            request,
            "admin/chat/apikey/issued.html",
            model=ApiKey,
            title=gettext("Clé d’API créée"),
            key=obj,
            secret=obj.drawn_secret,
            address=request.build_absolute_uri("/v1"),
            slug=obj.deployments.values_list("slug", flat=True).first() or "",
            list_url=admin_url(ApiKey, "changelist"),
        )

    @admin.display(description=_("clé"), ordering="prefix")
    def shown_prefix(self, key: ApiKey) -> str:
        return f"{key.prefix}…" if key.prefix else "–"

    @admin.display(description=_("guichets"))
    def opened(self, key: ApiKey) -> str:
        if key.all_deployments:
            return gettext("tous")
        return ", ".join(deployment.slug for deployment in key.deployments.all()) or "–"
