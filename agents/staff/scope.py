"""Whose rows a member of staff works on: all agents', or those of the agents that they, or a group of theirs, are
limited to.

The rule is here and nowhere else. A limit of one's own wins over those of one's groups; of several groups' limits the
agents are added up; a group without a limit lifts none. A superuser has none. Whoever is limited sees, of what belongs
to agents, theirs; of what the site shares (`SHARED`), all, and changes none of it; accounts, keys and whatever else
belongs to no agent, not at all.
"""

from typing import Any, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest

from agents.models import Agent, AgentLimit

Row = TypeVar("Row", bound=Model)

#: By model, the way to the agents that a row belongs to.
OWNED = {
    "agents.agent": "pk",
    "agents.deployment": "agent",
    "agents.specialist": "deployment__agent",
    "knowledge.websource": "agent",
    "knowledge.document": "agent",
    "knowledge.chunk": "document__agent",
    "knowledge.questionoverlap": "agent",
    "knowledge.synonym": "agent",
    "knowledge.indexbuild": "agent",
    "agents.job": "agent",
    "faqs.learnedresponse": "agent",
    "faqs.phrasing": "response__agent",
    "faqs.answerversion": "response__agent",
    "faqs.cachedresponse": "deployment__agent",
    "faqs.questiongroup": "agent",
    "faqs.unansweredquestion": "agent",
    "faqs.importpreview": "agent",
    "chat.conversation": "deployment__agent",
    "chat.turn": "conversation__deployment__agent",
    "chat.feedback": "turn__conversation__deployment__agent",
    "chat.sharedthread": "conversation__deployment__agent",
    "chat.goldenset": "deployment__agent",
    "chat.goldenquestion": "golden_set__deployment__agent",
    "chat.goldenrun": "deployment__agent",
}
#: What all agents use: whoever is limited looks at it, and changes nothing.
SHARED = frozenset(
    {
        "agents.runtimesettings",
        "knowledge.category",
        "knowledge.thresholdcalibration",
        "tools_registry.tooloverride",
        "tools_registry.toolexample",
        "tools_registry.remotetool",
    }
)
_KNOWN = "_agent_limit"


def limit_of(user: AbstractBaseUser | AnonymousUser | None) -> frozenset[int] | None:
    """The agents that somebody is limited to; `None`: no limit. One query for each time that a person is loaded."""
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
    """Of these rows, those that whoever asks may work on."""
    limit = limit_of(request.user)
    if limit is None:
        return rows
    label = rows.model._meta.label_lower
    if path := OWNED.get(label):
        return rows.filter(**{f"{path}__in": limit})
    return rows if label in SHARED else rows.none()


def agents_for(request: HttpRequest) -> QuerySet[Agent]:
    """The agents that a form offers."""
    return visible(request, Agent.objects.order_by("name"))


def may_reach(request: HttpRequest, model: type[Model], *, change: bool) -> bool:
    """Whether pages of this model are for whoever asks at all, beyond their rights."""
    if limit_of(request.user) is None:
        return True
    label = model._meta.label_lower
    return label in OWNED or (label in SHARED and not change)


def within(request: HttpRequest, row: Any) -> bool:
    """Whether this row is one of theirs."""
    return visible(request, type(row)._default_manager.filter(pk=row.pk)).exists()
