"""The ready-made roles: groups with the rights of a job, made when the database is migrated.

A role gets each right once, so what a site changes in its groups stays. A user may also be limited to some agents:
the user's own limit wins over those of the groups, whose agents add up; a superuser has none. A limited user sees, but
never changes, what the site shares (`SHARED`), and does not see anything else that belongs to no agent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, TypeVar

from allauth.socialaccount.models import SocialAccount
from django.apps import apps
from django.apps.registry import Apps
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, Permission, User
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from agents.models import Agent, AgentLimit, ProviderGroup, Role

_CONTENT = (
    "agents.agent agents.deployment knowledge.category knowledge.websource knowledge.document knowledge.chunk "
    "knowledge.synonym knowledge.indexbuild faqs.learnedresponse faqs.cachedresponse "
    "faqs.questiongroup"
)


def _rights(actions: str, models: str) -> frozenset[str]:
    """`_rights("add change", "knowledge.document")`: the names of the permissions."""
    pairs = (name.split(".") for name in models.split())
    return frozenset(f"{app}.{act}_{model}" for app, model in pairs for act in actions.split())


_LOOK = _rights("view", _CONTENT)
_READ = _LOOK | {"chat.view_turn", "chat.view_figures"}
_WRITE = (
    _rights("add change", "knowledge.category")
    | _rights("add change delete", "knowledge.document knowledge.websource knowledge.synonym")
    | _rights("change delete", "knowledge.chunk")
    # A web source goes with its jobs.
    | _rights("delete", "knowledge.indexbuild")
    | _rights("add change", "faqs.learnedresponse")
    | _rights("change", "faqs.questiongroup")
)
_REVIEW = (
    _rights("add change", "faqs.learnedresponse knowledge.pairverdict")
    | _rights("change delete", "faqs.cachedresponse")
    | _rights("change", "faqs.questiongroup chat.feedback chat.helprequest")
    | _rights("view", "knowledge.pairverdict")
    | _rights("view add change delete", "chat.goldenset chat.goldenquestion")
    # A set goes with its runs.
    | _rights("view add delete", "chat.goldenrun")
)


@dataclass(frozen=True, slots=True)
class ReadyRole:
    """A role: the name of its group, what it is for in words, and its rights."""

    name: str
    purpose: str | Promise
    rights: frozenset[str]


#: By code. Names of groups are data: they are written in the language of the site, French.
ROLES = {
    "reader": ReadyRole(
        "Lecture", _("Voit les contenus, les réponses et les questions posées ; ne change rien."), _READ
    ),
    "editor": ReadyRole(
        "Rédaction",
        _("Ajoute et corrige les documents, les adresses du web, les sigles et les réponses validées."),
        _READ | _WRITE,
    ),
    "reviewer": ReadyRole(
        "Relecture",
        _("Valide, corrige et retire des réponses ; suit les avis et les questions sans réponse."),
        _READ | _REVIEW,
    ),
    "agents": ReadyRole(
        "Administration des agents",
        _(
            "Règle les agents, leurs guichets, leurs outils et leurs index ; fait aussi ce que font la rédaction et la "
            "relecture."
        ),
        _READ
        | _WRITE
        | _REVIEW
        | _rights("add change", "agents.agent agents.deployment knowledge.indexbuild")
        | _rights("add change delete", "agents.specialist")
        | _rights("view change", "tools_registry.tooloverride tools_registry.toolsource")
        | _rights("view", "agents.runtimesettings auditlog.logentry"),
    ),
    "operator": ReadyRole(
        "Exploitation",
        _(
            "Fait marcher le site : indexations, réglages du site, calibrages, sources d’outils, clés, journal. Ne voit pas les "
            "questions posées, et ne gère pas les comptes."
        ),
        _rights("view", "agents.agent agents.deployment knowledge.document")
        | {"chat.view_figures"}
        | _rights("view", "auditlog.logentry")
        | _rights("view change", "agents.runtimesettings knowledge.websource")
        | _rights("view add change", "knowledge.indexbuild")
        | _rights("view add change delete", "knowledge.thresholdcalibration")
        | _rights("view add change", "tools_registry.toolsource chat.apikey")
        | _rights("view change", "tools_registry.tooloverride"),
    ),
}


def install_roles(apps: Apps = apps, **_kwargs: Any) -> None:
    """Make the missing groups and give each role its new rights; nothing in a database (`apps`) from before roles."""
    if any(model._meta.label == Role._meta.label for model in apps.get_models()):
        for code, ready in ROLES.items():
            with transaction.atomic():
                _install(code, ready)


def _install(code: str, ready: ReadyRole) -> None:
    role, is_new = Role.objects.select_related("group").get_or_create(code=code)
    if is_new:
        role.group = _group_for(ready)
    new = ready.rights - set(role.given)
    if role.group is None or not new:
        return
    labels = {name.split(".")[0] for name in new}
    known = _named(Permission.objects.filter(content_type__app_label__in=labels))
    found = {name: known[name] for name in new & set(known)}
    role.group.permissions.add(*found.values())
    role.given = sorted({*role.given, *found})
    role.save()


def _group_for(ready: ReadyRole) -> Group:
    """A new one. One of its name that a site has made is the site's own, unless its members have these rights already."""
    same = {group.name: group for group in Group.objects.filter(name__startswith=ready.name)}
    found = same.get(ready.name)
    if found is not None and ready.rights <= set(_named(found.permissions.all())):
        return found
    names = chain([ready.name], (f"{ready.name} {number}" for number in count(2)))
    return Group.objects.create(name=next(name for name in names if name not in same))


def _named(rights: QuerySet[Permission]) -> dict[str, Permission]:
    rows = rights.select_related("content_type")
    return {f"{row.content_type.app_label}.{row.codename}": row for row in rows}


def purpose_of(group: Group) -> str | Promise:
    """What a group is for, where it is that of a ready-made role."""
    role: Role | None = getattr(group, "role", None)
    return ROLES[role.code].purpose if role is not None and role.code in ROLES else ""


def follow_groups(user: User, added: QuerySet[Group], taken: QuerySet[Group]) -> None:
    """Open the admin to whoever joined a group with rights; close it to whoever left one and holds no right."""
    has_joined, has_left = (groups.filter(permissions__isnull=False).exists() for groups in (added, taken))
    if has_joined or has_left:
        user.is_staff = has_joined or user.is_superuser or bool(user.get_all_permissions())
        user.save(update_fields=["is_staff"])


@transaction.atomic
def follow_provider(account: SocialAccount, names: Iterable[str]) -> None:
    """Give a user the groups that the table names for those of the provider; take back its others, and earlier ones."""
    user, table = account.user, ProviderGroup.objects.all()
    meant = set(table.filter(name__in=names).values_list("group", flat=True))
    ours = meant | set(table.values_list("group", flat=True)) | set(account.extra_data.get("groups", ()))
    held = set(user.groups.values_list("pk", flat=True))
    added, taken = meant - held, ours & held - meant
    user.groups.add(*added)
    user.groups.remove(*taken)
    follow_groups(user, Group.objects.filter(pk__in=added), Group.objects.filter(pk__in=taken))
    account.extra_data = {"groups": sorted(meant)}
    account.save()


Row = TypeVar("Row", bound=Model)

#: By the way to the agents that a row belongs to, the models.
_OWNED_BY = {
    "pk": "agents.agent",
    "agent": "agents.deployment knowledge.websource knowledge.document knowledge.synonym knowledge.indexbuild "
    "agents.job faqs.learnedresponse faqs.questiongroup faqs.unansweredquestion",
    "deployment__agent": "agents.specialist faqs.cachedresponse chat.conversation chat.goldenset chat.goldenrun",
    "document__agent": "knowledge.chunk",
    "conversation__deployment__agent": "chat.turn",
    "turn__conversation__deployment__agent": "chat.feedback chat.helprequest",
    "golden_set__deployment__agent": "chat.goldenquestion",
}
OWNED = {label: way for way, labels in _OWNED_BY.items() for label in labels.split()}
#: What all agents use: whoever is limited looks at it, and changes nothing.
SHARED = frozenset(
    {"agents.runtimesettings", "knowledge.category", "knowledge.thresholdcalibration", "tools_registry.tooloverride"}
)
_KNOWN = "_agent_limit"


def limit_of(user: AbstractBaseUser | AnonymousUser | None) -> frozenset[int] | None:
    """The ids of the agents that a user is limited to; `None`: no limit. One query a loaded user."""
    if user is None or not user.is_authenticated or getattr(user, "is_superuser", False):
        return None
    if not hasattr(user, _KNOWN):
        mine = Q(user=user.pk) | Q(group__user=user.pk)
        found = AgentLimit.objects.filter(mine).values_list("user", "pk", "agents").distinct()
        rows = list(found)
        own = [agent for owner, _pk, agent in rows if owner is not None]
        agents = own or [agent for _owner, _pk, agent in rows]
        setattr(user, _KNOWN, frozenset(a for a in agents if a is not None) if rows else None)
    known: frozenset[int] | None = getattr(user, _KNOWN)
    return known


def visible(request: HttpRequest, rows: "QuerySet[Row]") -> "QuerySet[Row]":
    """The rows that the request's user may work on."""
    limit = limit_of(request.user)
    if limit is None:
        return rows
    label = rows.model._meta.label_lower
    if path := OWNED.get(label):
        return rows.filter(**{f"{path}__in": limit})
    return rows if label in SHARED else rows.none()


def agents_for(request: HttpRequest) -> QuerySet[Agent]:
    """The agents that the request's user may work on, by name, for a form."""
    return visible(request, Agent.objects.order_by("name"))


def may_reach(request: HttpRequest, model: type[Model], *, change: bool) -> bool:
    """Whether a user with a limit may open pages of this model, apart from their rights."""
    if limit_of(request.user) is None:
        return True
    label = model._meta.label_lower
    return label in OWNED or (label in SHARED and not change)


def within(request: HttpRequest, row: Any) -> bool:
    """Whether the request's user may work on this row."""
    return visible(request, type(row)._default_manager.filter(pk=row.pk)).exists()
