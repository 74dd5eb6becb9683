"""The settings that apply to one turn: deployment over agent over site, resolved once; all that a turn reads of knobs.

A threshold of `None` is set at no level: the measured profile of the embedding model decides (`knowledge.thresholds`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from django.db.models import Exists, OuterRef
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from agents.cache import TtlCache
from agents.models import Agent, Deployment, IndexingMethod, RuntimeSettings, Specialist
from agents.settings import KNOBS

Level = Literal["deployment", "agent", "site", "default", "profile"]


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """The identifiers and every resolved knob of `agents.settings`, by name."""

    deployment_id: int
    deployment_slug: str
    deployment_name: str
    agent_id: int
    agent_slug: str
    indexing_method: IndexingMethod
    system_prompt: str
    llm_model: str
    temperature: float
    max_answer_tokens: int
    context_tokens: int
    context_exchanges: int
    summarise_exchanges: bool
    rewrite_follow_ups: bool
    match_count: int
    match_threshold: float
    direct_answers: bool
    direct_answer_threshold: float | None
    verify_answers: bool
    clarification: bool
    clarification_band: float
    clarification_margin: float
    guard_rail_threshold: float | None
    guard_rail_message: str
    courtesies: bool
    presentation: str
    contact: str
    memory: bool
    memory_threshold: float | None
    memory_max_age_days: int
    withhold_stale_answers: bool
    memory_learning: str
    record_unanswered: bool
    generate_questions: bool
    page_refresh_hours: int
    generate_titles: bool
    max_rounds: int
    max_tool_calls: int
    context_messages: int
    history_messages: int
    tools_enabled: bool
    tool_mode: str
    tool_top_k: int
    tool_threshold: float | None
    api_source_lines: bool
    show_cited_pages: bool
    #: The deployment's agents, the default one first; empty where it has one agent only.
    agents: "tuple[Specialised, ...]" = ()

    @property
    def of_each_agent(self) -> "tuple[EffectiveConfig, ...]":
        """The settings as each agent of the deployment has them, the default one's first."""
        return tuple(agent.config for agent in self.agents) or (self,)


@dataclass(frozen=True, slots=True)
class Specialised:
    """One of several agents of a deployment, with the settings that apply when it answers."""

    name: str
    description: str
    config: EffectiveConfig


@dataclass(frozen=True, slots=True)
class InheritedSetting:
    """The value that a level inherits where it sets none, and the level above that sets it."""

    name: str
    value: Any
    level: Level


def effective_config(deployment: Deployment) -> EffectiveConfig:
    """Resolve every knob for a deployment, in at most two queries, and one more for further agents."""
    site = RuntimeSettings.load()
    config = _config_of(deployment, deployment.agent, site)
    # Outside a turn nobody has asked yet.
    if not getattr(deployment, "has_specialists", True):
        return config
    others = [each.agent for each in deployment.specialists.select_related("agent")]
    agents = (deployment.agent, *(agent for agent in others if agent != deployment.agent))
    if len(agents) == 1:
        return config
    return replace(
        config,
        agents=tuple(
            Specialised(agent.name, agent.description, _config_of(deployment, agent, site)) for agent in agents
        ),
    )


def _config_of(deployment: Deployment, agent: Agent, site: RuntimeSettings) -> EffectiveConfig:
    knobs = {name: _resolve(name, site=site, agent=agent, deployment=deployment)[0] for name in KNOBS}
    config = EffectiveConfig(
        deployment_id=deployment.pk,
        deployment_slug=deployment.slug,
        deployment_name=deployment.name,
        agent_id=agent.pk,
        agent_slug=agent.slug,
        indexing_method=deployment.method_of(agent),
        **knobs,
    )
    return replace(config, guard_rail_message=_refusal(config))


def with_settings(config: EffectiveConfig, settings: Mapping[str, Any]) -> EffectiveConfig:
    """The configuration with these settings replaced, for each of its agents, as a what-if run needs it."""
    if not settings:
        return config
    agents = (replace(each, config=_changed(each.config, settings)) for each in config.agents)
    return replace(_changed(config, settings), agents=tuple(agents))


def _changed(config: EffectiveConfig, settings: Mapping[str, Any]) -> EffectiveConfig:
    changed = replace(config, **settings)
    # The refusal says what the desk answers, and who else may.
    if settings.keys() & {"presentation", "contact"} and "guard_rail_message" not in settings:
        return replace(changed, guard_rail_message=_refusal(replace(changed, guard_rail_message="")))
    return changed


def current_config(deployment_id: int) -> EffectiveConfig:
    """`effective_config`, at most `CONFIG_CACHE_SECONDS` old. Raises `Deployment.DoesNotExist`."""

    def read() -> EffectiveConfig:
        further = Exists(Specialist.objects.filter(deployment=OuterRef("pk")))
        deployments = Deployment.objects.select_related("agent").annotate(has_specialists=further)
        return effective_config(deployments.get(pk=deployment_id))

    # By language too: the refusal has a default in each.
    return _recent.get(read, (deployment_id, get_language()))


_recent: TtlCache[EffectiveConfig] = TtlCache("CONFIG_CACHE_SECONDS")


def agent_setting(agent: Agent | None, name: str) -> Any:
    """One knob for work that belongs to an agent (the site, without one) and to none of its deployments (indexing)."""
    return _resolve(name, site=RuntimeSettings.load(), agent=agent, deployment=None)[0]


def _refusal(config: EffectiveConfig) -> str:
    """The refusal of the desk: staff's words, else the default one in the reader's language."""
    if config.guard_rail_message:
        return _(config.guard_rail_message)
    return own_refusal(config)


def own_refusal(config: EffectiveConfig) -> str:
    """The default refusal of a desk, in the reader's language."""
    contact = _(config.contact) if config.contact else ""
    return f"{default_guard_rail_message(presentation_of(config))} {contact}".rstrip()


def presentation_of(config: EffectiveConfig) -> str:
    """What this desk answers: staff's words, else a default sentence with its name."""
    if config.presentation:
        return _(config.presentation)
    return default_presentation(config.deployment_name)


def default_presentation(name: str) -> str:
    """What a desk answers where staff wrote nothing."""
    return _("« %(name)s » répond aux questions d’après ses documents et ses réponses validées.") % {"name": name}


def default_guard_rail_message(presentation: str) -> str:
    """The default refusal; the example of seed 004, section 3.3, belongs to that seed's own desk."""
    return _(
        "Je n’ai rien trouvé à ce sujet. %(presentation)s Essayez avec d’autres mots, ou posez une autre question."
    ) % {"presentation": presentation}


def inherited_settings(agent: Agent | None = None) -> list[InheritedSetting]:
    """Every knob as agents inherit it from the site, or as the deployments of `agent` do from both."""
    site = RuntimeSettings.load()
    return [InheritedSetting(name, *_resolve(name, site=site, agent=agent, deployment=None)) for name in KNOBS]


def _resolve(
    name: str, *, site: RuntimeSettings, agent: Agent | None, deployment: Deployment | None
) -> tuple[Any, Level]:
    if deployment is not None and deployment.config_overlay.get(name) is not None:
        return deployment.config_overlay[name], "deployment"
    own = None if agent is None else agent.settings.get(name)
    if own not in (None, ""):
        return own, "agent"
    value = site.get(name)
    return value, "profile" if value is None else "site"
