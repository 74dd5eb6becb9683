"""The two bounds of an offer between stored questions leave the stored values of every level: they are constants now."""

import sys

from django.db import migrations

GONE = ("clarification_band", "clarification_margin")
COLUMNS = (("RuntimeSettings", "values"), ("Agent", "settings"), ("Deployment", "config_overlay"))


def drop(apps, schema_editor):
    found = []
    for model, column in COLUMNS:
        for row in apps.get_model("agents", model).objects.using(schema_editor.connection.alias):
            stored = getattr(row, column)
            if isinstance(stored, dict) and not stored.keys().isdisjoint(GONE):
                found.append(f"{model} {getattr(row, 'slug', row.pk)}")
                setattr(row, column, {name: value for name, value in stored.items() if name not in GONE})
                row.save(update_fields=[column])
    if found:
        sys.stderr.write(f"\n  {' and '.join(GONE)} are no settings any more; they stood in: {', '.join(found)}.\n")


class Migration(migrations.Migration):
    dependencies = [("agents", "0030_help_mail")]
    operations = [migrations.RunPython(drop, migrations.RunPython.noop)]
