"""The accounts of staff and their groups, in the theme of the other pages."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from agents.admin_base import StaffAdmin, admin_url, count_link

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, StaffAdmin):  # type: ignore[type-arg]  # not generic at run time
    purpose = _("Les comptes, et ce que chacun peut voir et faire.")
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_select_related = False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A superuser's account, and so its password, is a superuser's to change."""
        return _may_touch(request, obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _may_touch(request, obj) and super().has_delete_permission(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Whoever looks after accounts gives nobody rights one by one, and makes nobody a superuser."""
        fixed = super().get_readonly_fields(request, obj)
        if isinstance(request.user, User) and request.user.is_superuser:
            return fixed
        return (*fixed, "is_superuser", "user_permissions")


def _may_touch(request: HttpRequest, account: Any) -> bool:
    is_above = account is not None and account.is_superuser
    return not is_above or (isinstance(request.user, User) and request.user.is_superuser)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, StaffAdmin):
    purpose = _("Des droits donnés à plusieurs comptes à la fois.")
    list_display = ("name", "members")
    list_filter = ()
    list_select_related = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        groups: QuerySet[Group] = super().get_queryset(request)
        return groups.annotate(member_count=Count("user"))

    @admin.display(description=_("membres"), ordering="member_count")
    def members(self, group: Any) -> str:
        return count_link(
            group.member_count, admin_url(User, "changelist", groups__id__exact=group.pk)
        )
