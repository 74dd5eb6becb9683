"""The accounts of staff and their groups, in the theme of the other pages."""

from smtplib import SMTPException
from typing import Any

from allauth.account.admin import EmailAddress
from allauth.account.internal.flows.password_reset import request_password_reset
from allauth.mfa.admin import Authenticator
from allauth.socialaccount.admin import SocialAccount, SocialApp, SocialToken
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelect2MultipleWidget

from agents.admin_base import StaffAdmin, StaffInline, moment_text, stacked
from agents.models import AgentLimit, ProviderGroup
from agents.roles import follow_groups, purpose_of

#: Of allauth's rows nothing is written by hand.
admin.site.unregister([User, Group, EmailAddress, Authenticator, SocialAccount, SocialApp, SocialToken])


_ACTIONS = {"view": _("voir"), "add": _("ajouter"), "change": _("modifier"), "delete": _("supprimer")}


def _permission_label(permission: Any) -> str:
    kind = permission.content_type
    model = kind.model_class()
    action = permission.codename.removesuffix(f"_{kind.model}")
    name = capfirst(model._meta.verbose_name_plural) if model else kind.model
    return f"{kind.app_labeled_name.split(' | ')[0]} · {name} · {_ACTIONS.get(action, permission.name)}"


def _group_label(group: Any) -> str:
    """The name, and what a ready-made role is for."""
    purpose = purpose_of(group)
    return f"{group.name} – {purpose}" if purpose else str(group.name)


class AccountForm(UserChangeForm):  # type: ignore[misc]  # the theme ships no types
    """The theme says what becomes of a password in English."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "password" in self.fields:
            self.fields["password"].help_text = format_html(
                '{} <a href="../password/" class="text-link underline">{}</a>',
                gettext("Il n’est gardé que sous une forme que personne ne peut lire."),
                gettext("Le changer"),
            )


def permissions_offered(held: QuerySet[Permission]) -> QuerySet[Permission]:
    """Those of the models that have pages, and what is held already: a form that left it out would take it away."""
    kinds = ContentType.objects.get_for_models(*admin.site._registry).values()
    offered = Q(content_type__in=[kind.pk for kind in kinds]) | Q(pk__in=held.values("pk"))
    rows = Permission.objects.filter(offered).select_related("content_type")
    return rows.order_by("content_type__app_label", "content_type__model", "codename")


class _RightsAdmin(StaffAdmin):
    """The rights and the groups of an account, or the rights of a group, to choose from in words."""

    filter_horizontal = ()

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field: Any = super().formfield_for_manytomany(db_field, request, **kwargs)
        if db_field.related_model is Permission:
            key = request.resolver_match.kwargs.get("object_id") if request.resolver_match else None
            owner = {"user" if self.model is User else "group": key or 0}
            field.queryset = permissions_offered(Permission.objects.filter(**owner))
            field.label_from_instance = _permission_label
            # Django's own script of such lists would ask a server for their options.
            field.widget = UnfoldAdminSelect2MultipleWidget(choices=field.choices)
            field.widget.attrs["class"] = "unfold-admin-autocomplete"
            field.help_text = _("Tapez quelques lettres : « documents », « modifier ».")
        elif db_field.related_model is Group:
            field.queryset = Group.objects.select_related("role").order_by("name")
            field.label_from_instance = _group_label
            field.widget = UnfoldAdminCheckboxSelectMultipleWidget(choices=field.choices)
            field.help_text = _("Un compte a les droits de tous ses groupes.")
        return field


class UserLimit(StaffInline):
    model = AgentLimit
    fk_name = "user"
    fields = ("agents",)
    autocomplete_fields = ("agents",)
    extra = 0
    max_num = 1
    verbose_name_plural = _("Limiter à des agents (aucune ligne : tous les agents)")


class SecondFactors(StaffInline):
    """Whoever has lost theirs asks a superuser to take it away."""

    model = Authenticator
    fields = readonly_fields = ("factor",)
    extra = max_num = 0
    verbose_name_plural = _("Second facteur")

    @admin.display(description=_("Nature, dernier usage"))
    def factor(self, row: Authenticator) -> SafeString:
        return stacked(row.get_type_display(), moment_text(row.last_used_at) if row.last_used_at else "–")


class GroupLimit(UserLimit):
    fk_name = "group"


#: Mails that one request sends.
MOST_INVITED = 100
_FINE_FIELDS = ("first_name", "last_name", "is_staff", "is_superuser", "user_permissions", "last_login", "date_joined")


@admin.register(User)
class UserAdmin(DjangoUserAdmin, _RightsAdmin):  # type: ignore[type-arg,misc]  # not generic at run time
    purpose = _("Les comptes, et ce que chacun peut voir et faire.")
    form = AccountForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    inlines = (UserLimit, SecondFactors)
    actions = ("invite",)
    list_select_related = False
    fieldsets = (
        (None, {"fields": ("username", "password", "email", "groups", "is_active")}),
        (_("Réglages fins"), {"classes": ("collapse",), "fields": _FINE_FIELDS}),
    )
    add_fieldsets = ((None, {"fields": ("username", "usable_password", "password1", "password2", "groups")}),)

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        return self.inlines if obj else (UserLimit,)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """A group with rights opens the admin to whoever joins it, unless the same form decided that."""
        held = set(form.instance.groups.values_list("pk", flat=True))
        super().save_related(request, form, formsets, change)
        if "is_staff" not in form.changed_data:
            follow_groups(form.instance, form.instance.groups.exclude(pk__in=held), Group.objects.none())

    @admin.action(description=_("Inviter par courriel"), permissions=["invite"])
    def invite(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Mail accounts that have no way in a link by which they choose a password."""
        accounts = queryset.filter(is_active=True, socialaccount=None).exclude(email="")
        invited = [user for user in accounts if not user.has_usable_password() and _may_touch(request, user)]
        if len(invited) > MOST_INVITED:
            text = gettext("Rien n’a été envoyé : choisissez au plus %(most)d comptes à la fois.")
            return self.message_user(request, text % {"most": MOST_INVITED}, messages.ERROR)
        refused = list[User]()
        for number, user in enumerate(invited):
            try:
                request_password_reset(request, user.email, [user], None)
            except (SMTPException, ValueError):
                refused.append(user)
            except OSError:
                refused += invited[number:]
                break
        text = gettext("Invitations envoyées : %(count)d (comptes actifs sans mot de passe, avec une adresse).")
        self.message_user(request, text % {"count": len(invited) - len(refused)})
        if refused:
            text = gettext("Le serveur de courriel a refusé les invitations de : %(names)s.")
            self.message_user(request, text % {"names": ", ".join(map(str, refused))}, messages.ERROR)

    def has_invite_permission(self, request: HttpRequest) -> bool:
        return settings.HAS_MAIL and self.has_change_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A superuser's account, and so its password, is a superuser's to change."""
        return _may_touch(request, obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes their own account: the journal would have to name somebody who is gone."""
        may = obj != request.user and _may_touch(request, obj)
        return may and super().has_delete_permission(request, obj)

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
class GroupAdmin(DjangoGroupAdmin, _RightsAdmin):
    purpose = _("Des droits donnés à plusieurs comptes à la fois.")
    list_display = ("name", "meant_for")
    inlines = (GroupLimit,)
    fields = ("name", "meant_for", "permissions")
    readonly_fields = ("meant_for",)
    list_select_related = ("role",)

    @admin.display(description=_("rôle"))
    def meant_for(self, group: Group | None) -> str:
        return str(purpose_of(group)) if group is not None and group.pk else "–"


@admin.register(ProviderGroup)
class ProviderGroupAdmin(StaffAdmin):
    purpose = _("Ce que les groupes de votre organisation (connexion ou annuaire) ouvrent ici.")
    list_display = ("name", "group")
    list_select_related = ("group",)
    search_fields = ("name", "group__name")
