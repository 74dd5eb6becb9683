"""The settings that apply to one turn: deployment over agent over site, resolved once; and how forms show them.

A threshold of `None` is set at no level: the embedding model's profile decides, known to `EMBEDDING_PROFILE`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import formats
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.text import Truncator
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from agents.cache import TtlCache
from agents.models import OVERLAY_KNOBS, Agent, Deployment, IndexingMethod, RuntimeSettings, Specialist
from agents.settings import KNOBS, Knobs

Level = Literal["agent", "site", "default", "profile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveConfig(Knobs):
    """Every resolved setting, and whose they are."""

    deployment: Deployment
    agent: Agent
    indexing_method: IndexingMethod
    #: The deployment's agents, the default one first; empty where it has one agent only.
    agents: "tuple[EffectiveConfig, ...]" = ()

    @property
    def of_each_agent(self) -> "tuple[EffectiveConfig, ...]":
        """The settings as each agent of the deployment has them, the default one's first."""
        return self.agents or (self,)


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
    return replace(config, agents=tuple(_config_of(deployment, agent, site) for agent in agents))


def _config_of(deployment: Deployment, agent: Agent, site: RuntimeSettings) -> EffectiveConfig:
    overlay = deployment.config_overlay
    own = {name: overlay[name] for name in KNOBS if overlay.get(name) is not None}
    config = EffectiveConfig(
        deployment=deployment,
        agent=agent,
        indexing_method=deployment.method_of(agent),
        **{name: own[name] if name in own else _inherited(name, site, agent).value for name in KNOBS},
    )
    staffs = config.guard_rail_message
    return replace(config, guard_rail_message=_(staffs) if staffs else own_refusal(config))


def with_settings(config: EffectiveConfig, changes: Mapping[str, Any]) -> EffectiveConfig:
    """The configuration with these settings replaced, for each of its agents, as a what-if run needs it."""
    if not changes:
        return config
    return replace(_changed(config, changes), agents=tuple(_changed(each, changes) for each in config.agents))


def _changed(config: EffectiveConfig, changes: Mapping[str, Any]) -> EffectiveConfig:
    # A stored what-if run may hold a setting that an upgrade took away.
    changed = replace(config, **{name: value for name, value in changes.items() if name in KNOBS})
    # The refusal says what the desk answers, and who else may.
    if changes.keys() & {"presentation", "contact"} and "guard_rail_message" not in changes:
        return replace(changed, guard_rail_message=own_refusal(changed))
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
    """One knob for work of an agent (the site, without one), such as indexing, as its only deployment has it, if any."""
    own = desk.config_overlay.get(name) if agent and (desk := agent.settings_deployment()) else None
    return _inherited(name, RuntimeSettings.load(), agent).value if own is None else own


def inherited_settings(agent: Agent | None = None) -> list[InheritedSetting]:
    """Every knob as agents inherit it from the site, or as the deployments of `agent` do from both."""
    site = RuntimeSettings.load()
    own = [] if agent is None else [InheritedSetting("indexing_method", agent.indexing_method, "agent")]
    return own + [_inherited(name, site, agent) for name in KNOBS]


def _inherited(name: str, site: RuntimeSettings, agent: Agent | None) -> InheritedSetting:
    own = None if agent is None else agent.settings.get(name)
    if own not in (None, ""):
        return InheritedSetting(name, own, "agent")
    value = site.get(name)
    return InheritedSetting(name, value, "profile" if value is None else "site")


def own_refusal(config: EffectiveConfig) -> str:
    """The default refusal of a desk, in the reader's language."""
    contact = _(config.contact) if config.contact else ""
    return f"{default_guard_rail_message(presentation_of(config))} {contact}".rstrip()


def presentation_of(config: EffectiveConfig) -> str:
    """What this desk answers: staff's words, else a default sentence with its name."""
    if config.presentation:
        return _(config.presentation)
    said = _("« %(name)s » répond aux questions d’après ses documents et ses réponses validées.")
    return said % {"name": config.deployment.name}


def default_guard_rail_message(presentation: str) -> str:
    """The default refusal; the example of seed 004, section 3.3, belongs to that seed's own desk."""
    return _(
        "Je n’ai rien trouvé à ce sujet. %(presentation)s Essayez avec d’autres mots, ou posez une autre question."
    ) % {"presentation": presentation}


#: The settings that an unmeasured embedding model leaves without a value.
THRESHOLD_SETTINGS = frozenset({"direct_answer_threshold", "guard_rail_threshold", "memory_threshold"})

_LEVELS: dict[Level, str | Promise] = {
    "agent": gettext_lazy("agent"),
    "site": gettext_lazy("réglages du site"),
    "default": gettext_lazy("valeur d’origine"),
    "profile": gettext_lazy("profil du modèle d’embedding"),
}


def measured_thresholds() -> Mapping[str, float | None]:
    """Those of the embedding model in use, by setting; none where it was never measured."""
    found: Mapping[str, float | None] = import_string(settings.EMBEDDING_PROFILE)()
    return found


def unmeasured_model() -> str:
    """The embedding model in use when its thresholds of answers were never measured, else an empty string."""
    return "" if measured_thresholds().keys() & THRESHOLD_SETTINGS else settings.EMBEDDING_MODEL


def inherited_text(setting: InheritedSetting, measured: Mapping[str, float | None]) -> str:
    """« Hérité : 0,72 (profil du modèle) »."""
    value = measured.get(setting.name) if setting.value is None else setting.value
    if value is not None or setting.level != "profile":
        shown = f"{value_text(setting.name, value)} ({_LEVELS[setting.level]})"
    elif setting.name in THRESHOLD_SETTINGS:
        shown = _("désactivé (pas de profil mesuré pour le modèle d’embedding)")
    else:
        shown = _("aucun seuil")
    return _("Hérité : %(value)s") % {"value": shown}


def value_text(name: str, value: Any) -> str:
    """A setting's value in words."""
    if isinstance(value, bool):
        return _("Oui") if value else _("Non")
    if isinstance(value, (int, float)):
        return formats.localize(value)
    knob = OVERLAY_KNOBS.get(name)
    if knob and (choice := knob.choices.get(value)):
        return str(choice)
    if value:
        return f"« {Truncator(str(value)).chars(120)} »"
    if name == "llm_model":
        return _("%(model)s, de la variable LLM_MODEL") % {"model": settings.LLM_MODEL}
    return _("rien")
