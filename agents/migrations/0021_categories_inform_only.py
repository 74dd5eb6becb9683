from typing import Any

from django.db import migrations

COLUMNS = (("RuntimeSettings", "values"), ("Agent", "settings"), ("Deployment", "config_overlay"))


def drop(apps: Any, schema_editor: Any) -> None:
    for model, column in COLUMNS:
        for row in apps.get_model("agents", model).objects.using(schema_editor.connection.alias):
            stored = getattr(row, column)
            if isinstance(stored, dict) and stored.pop("category_use", None) is not None:
                row.save(update_fields=[column])


class Migration(migrations.Migration):
    dependencies = [("agents", "0020_calls_of_the_day")]
    operations = [migrations.RunPython(drop, migrations.RunPython.noop)]
