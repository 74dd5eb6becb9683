"""The mode of observation and the number of quoted passages leave the stored settings of every level.

Where answers were only observed, they stay off: stored answers and offers are switched off in their own settings.
"""

import sys
from typing import Any

from django.db import migrations

COLUMNS = (("RuntimeSettings", "values"), ("Agent", "settings"), ("Deployment", "config_overlay"))
GONE = ("shadow_mode", "extractive_passages")
OFF = {"direct_answers": False, "memory": False, "clarification": False}


def drop(apps: Any, schema_editor: Any) -> None:
    observed = []
    for model, column in COLUMNS:
        for row in apps.get_model("agents", model).objects.using(schema_editor.connection.alias):
            stored = getattr(row, column)
            if not isinstance(stored, dict) or not stored.keys() & set(GONE):
                continue
            kept = {name: value for name, value in stored.items() if name not in GONE}
            if stored.get("shadow_mode") is True:
                kept |= OFF
                observed.append(f"{model} {getattr(row, 'slug', row.pk)}")
            setattr(row, column, kept)
            row.save(update_fields=[column])
    if observed:
        sys.stderr.write(
            f"\n  The mode of observation is gone; stored answers are switched off in: {', '.join(observed)}. "
            "« Et si… ? » shows what they would change.\n"
        )


class Migration(migrations.Migration):
    dependencies = [("agents", "0023_model_check")]
    operations = [migrations.RunPython(drop, migrations.RunPython.noop)]
