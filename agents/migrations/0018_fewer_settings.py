"""Settings that are constants now leave the stored values of every level."""

from django.db import migrations

GONE = ("dispatch_margin", "gone_page_checks", "memory_auto_prune", "saturation", "tool_recent_calls")
COLUMNS = (("RuntimeSettings", "values"), ("Agent", "settings"), ("Deployment", "config_overlay"))


def drop(apps, schema_editor):
    for model, column in COLUMNS:
        for row in apps.get_model("agents", model).objects.using(schema_editor.connection.alias):
            stored = getattr(row, column)
            if isinstance(stored, dict) and stored.keys() & set(GONE):
                setattr(row, column, {name: value for name, value in stored.items() if name not in GONE})
                row.save(update_fields=[column])


class Migration(migrations.Migration):
    dependencies = [("agents", "0017_golden_jobs")]
    operations = [migrations.RunPython(drop, migrations.RunPython.noop)]
