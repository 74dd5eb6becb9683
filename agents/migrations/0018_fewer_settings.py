"""Settings that are constants now leave the stored values of every level; the category that was favoured informs."""

import sys

from django.db import migrations

GONE = ("dispatch_margin", "gone_page_checks", "memory_auto_prune", "saturation", "tool_recent_calls")
COLUMNS = (("RuntimeSettings", "values"), ("Agent", "settings"), ("Deployment", "config_overlay"))


def drop(apps, schema_editor):
    is_pruned_anew = False
    for model, column in COLUMNS:
        for row in apps.get_model("agents", model).objects.using(schema_editor.connection.alias):
            stored = getattr(row, column)
            if not isinstance(stored, dict):
                continue
            is_pruned_anew |= stored.get("memory_auto_prune") is False
            kept = {name: value for name, value in stored.items() if name not in GONE}
            if kept.get("category_use") == "boost":
                del kept["category_use"]
            if kept != stored:
                setattr(row, column, kept)
                row.save(update_fields=[column])
    if is_pruned_anew:
        sys.stderr.write(
            "\n  The memory's expired answers were kept on purpose somewhere; they are deleted from now on. To keep them, "
            "raise the maximum age (memory_max_age_days), or export them first (export_memory).\n"
        )


class Migration(migrations.Migration):
    dependencies = [("agents", "0017_golden_jobs")]
    operations = [migrations.RunPython(drop, migrations.RunPython.noop)]
