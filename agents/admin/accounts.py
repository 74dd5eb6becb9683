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
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_select_related = False


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, StaffAdmin):
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
