"""The catalogue: which tools exist, with the texts and rights that apply, and which of them a user may see.

Each process compares its snapshot's token with the database's; what is offered may be `CONFIG_CACHE_SECONDS` old.
"""

import logging
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, Group
from django.db.models import QuerySet

from agents.cache import TtlCache
from tools_registry.models import ToolOverride, tools_token
from tools_registry.sources.remote import remote_specs
from tools_registry.tool import JsonSchema, ToolSpec, registry

logger = logging.getLogger(__name__)

#: Given to everyone who is signed in, and to staff, beside the names of their groups.
SIGNED_IN_TAG = "signed_in"
STAFF_TAG = "staff"
#: Users whose lists a process keeps.
_KEPT_LISTS = 256


class ToolList(tuple[ToolSpec, ...]):
    """Permitted tools by name; immutable, with the token of the catalogue that it was made from."""

    token: str
    resident: tuple[ToolSpec, ...]
    positions: Mapping[str, int]

    def __new__(cls, specs: Iterable[ToolSpec] = (), *, token: str = "") -> Self:
        made = super().__new__(cls, specs)
        made.token = token
        made.resident = tuple(spec for spec in made if spec.is_always_on)
        made.positions = {spec.name: position for position, spec in enumerate(made)}
        return made

    def named(self, name: str) -> ToolSpec | None:
        position = self.positions.get(name)
        return None if position is None else self[position]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The catalogue as it was at `key`."""

    key: tuple[str, int]
    specs: tuple[ToolSpec, ...]
    agents: Mapping[str, frozenset[int]]

    def permitted(self, tags: frozenset[str], agent_id: int | None) -> ToolList:
        specs = (
            spec for spec in self.specs if spec.tags <= tags and agent_id in self.agents.get(spec.name, (agent_id,))
        )
        return ToolList(specs, token=self.key[0])


_lock = threading.Lock()
_current: _Snapshot | None = None
_offered: TtlCache[ToolList] = TtlCache("CONFIG_CACHE_SECONDS", most=_KEPT_LISTS)


def available_tools(*, user_tags: frozenset[str], agent_id: int | None) -> ToolList:
    """The tools that a holder of `user_tags` may use with this agent, as they apply now; by name."""
    return _snapshot().permitted(user_tags, agent_id)


def tools_at_hand(*, user_id: int | None, agent_id: int | None) -> ToolList:
    """The tools that a user may use with this agent, as they were `CONFIG_CACHE_SECONDS` ago at most."""

    def read() -> ToolList:
        return available_tools(user_tags=tags_of(user_id), agent_id=agent_id)

    return _offered.get(read, (user_id, agent_id, registry.version))


def forget_recent() -> None:
    """Clear the cache, so that every later question reads the changes."""
    _offered.clear()


def permitted_now(names: Collection[str], *, user_id: int | None, agent_id: int | None) -> frozenset[str]:
    """The tools among `names` that this user may use now: the second check of rights, before execution."""
    if not names:
        return frozenset()
    permitted = available_tools(user_tags=tags_of(user_id), agent_id=agent_id)
    return frozenset(name for name in names if permitted.named(name) is not None)


def all_tools() -> ToolList:
    """Every active tool with its effective texts, whoever may use it: for the index and for staff."""
    current = _snapshot()
    return ToolList(current.specs, token=current.key[0])


def declared_tools(**wanted: Any) -> dict[str, ToolSpec]:
    """Every tool as code and sources declare it, without what staff wrote, by name; of remote tools the wanted rows."""
    declared = {spec.name: spec for spec in remote_specs(**wanted)}
    clashing = sorted(spec.name for spec in registry if spec.name in declared)
    if clashing:
        logger.warning("Remote tools hidden by tools of the code: %s.", ", ".join(clashing))
    declared.update({spec.name: spec for spec in registry})
    return dict(sorted(declared.items()))


def user_tags(user: AbstractBaseUser | AnonymousUser | None) -> frozenset[str]:
    """The tags that a user holds: the names of their groups; a superuser holds every tag, a visitor none."""
    if user is None or not user.is_authenticated or not user.is_active:
        return frozenset()
    tags = {SIGNED_IN_TAG}
    if getattr(user, "is_staff", False):
        tags.add(STAFF_TAG)
    if getattr(user, "is_superuser", False):
        tags.update(*(spec.tags for spec in _snapshot().specs))
    tags.update(Group.objects.filter(user=user.pk).values_list("name", flat=True))
    return frozenset(tags)


def tags_of(user_id: int | None) -> frozenset[str]:
    """`user_tags` of a stored user, as they are now; those of a visitor for `None` and for a user who is gone."""
    if user_id is None:
        return frozenset()
    return user_tags(get_user_model()._default_manager.filter(pk=user_id).first())


def apply_override(spec: ToolSpec, override: ToolOverride) -> ToolSpec:
    """A declared tool with what staff wrote in its place."""
    return replace(
        spec,
        description=override.description.strip() or spec.description,
        parameters=_described(spec, override.parameters),
        tags=spec.tags | frozenset(_words(override.extra_tags)),
        needs_approval=spec.needs_approval if override.needs_approval is None else override.needs_approval,
        examples=spec.examples + tuple(_words(override.examples)),
    )


def _snapshot() -> _Snapshot:
    global _current
    key = (tools_token(), registry.version)
    current = _current
    if current is None or current.key != key:
        with _lock:
            current = _current
            if current is None or current.key != key:
                current = _current = _build(key)
    return current


def _build(key: tuple[str, int]) -> _Snapshot:
    overrides = {row.tool_name: row for row in _overrides()}
    specs, agents = [], {}
    for name, spec in declared_tools(is_active=True).items():
        override = overrides.get(name)
        if override is None:
            specs += [] if spec.is_optional else [spec]
        elif override.is_active:
            specs.append(apply_override(spec, override))
            if limited := frozenset(agent.pk for agent in override.agents.all()):
                agents[name] = limited
    return _Snapshot(key, tuple(specs), agents)


def _overrides() -> QuerySet[ToolOverride]:
    """What staff decided, but for remote tools that wait for them."""
    rows = ToolOverride.objects.exclude(is_active=False, source__isnull=False)
    own = ("tool_name", "description", "parameters", "extra_tags", "examples", "needs_approval", "is_active")
    return rows.only(*own).prefetch_related("agents")


def _described(spec: ToolSpec, texts: Any) -> JsonSchema:
    """A tool's parameters, with staff's words for those that they described."""
    written = {
        name: text.strip()
        for name, text in (texts.items() if isinstance(texts, dict) else ())
        if isinstance(text, str) and text.strip()
    }
    if not written or not spec.properties:
        return spec.parameters
    return {
        **spec.parameters,
        "properties": {
            name: {**inner, "description": written[name]} if name in written and isinstance(inner, dict) else inner
            for name, inner in spec.properties.items()
        },
    }


def _words(value: Any) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
