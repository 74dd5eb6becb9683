"""The mode of observation and the number of quoted passages leave the stored settings of every level.

What each agent and deployment served is resolved before, deployment over agent over site. Where it was only observed,
stored answers and offers stay off; what was served below a level that observed is switched on in its own settings.
"""

import sys
from typing import Any

from django.db import migrations

GONE = ("shadow_mode", "extractive_passages")
SWITCHES = ("direct_answers", "memory", "clarification")

Level = dict[str, Any]


def _first(name: str, levels: tuple[Level, ...], default: bool) -> Any:
    return next((level[name] for level in levels if level.get(name) not in (None, "")), default)


def _served(*levels: Level) -> Level:
    """The switches as these levels resolve them, the nearest first: what is only observed is not served."""
    observes = _first("shadow_mode", levels, False)
    return {name: not observes and _first(name, levels, True) for name in SWITCHES}


def drop(apps: Any, schema_editor: Any) -> None:
    silenced = []

    def rows(model: str) -> Any:
        return apps.get_model("agents", model).objects.using(schema_editor.connection.alias)

    def moved(row: Any, column: str, *above: tuple[tuple[Level, ...], tuple[Level, ...]]) -> tuple[Level, Level]:
        """The settings of a row before and after. `above`: for each agent the levels above it, before and after."""
        old = getattr(row, column) or {}
        new = {name: value for name, value in old.items() if name not in GONE}
        served = [(_served(old, *before), _served(new, *after)) for before, after in above]
        for name in SWITCHES:
            if any(before[name] != after[name] for before, after in served):
                new[name] = all(before[name] for before, _after in served)
        if new != old:
            setattr(row, column, new)
            row.save(update_fields=[column])
        if any(new.get(name) is False and old.get(name) is not False for name in SWITCHES):
            silenced.append(f"{type(row).__name__} {getattr(row, 'slug', row.pk)}")
        return old, new

    site: tuple[Level, Level] = ({}, {})
    for row in rows("RuntimeSettings"):
        site = moved(row, "values", ((), ()))
    old_site, new_site = site
    agents = {row.pk: moved(row, "settings", ((old_site,), (new_site,))) for row in rows("Agent")}
    further = list(rows("Specialist").values_list("deployment_id", "agent_id"))
    for row in rows("Deployment"):
        own = [row.agent_id, *(agent for deployment, agent in further if deployment == row.pk)]
        levels = [((agents[pk][0], old_site), (agents[pk][1], new_site)) for pk in own]
        moved(row, "config_overlay", *levels)
    if silenced:
        sys.stderr.write(
            f"\n  The mode of observation is gone; stored answers are switched off in: {', '.join(silenced)}. "
            "« Et si… ? » shows what they would change.\n"
        )


class Migration(migrations.Migration):
    dependencies = [("agents", "0023_model_check")]
    operations = [migrations.RunPython(drop, migrations.RunPython.noop)]
