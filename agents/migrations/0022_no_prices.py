from typing import Any

from django.db import migrations


def drop(apps: Any, schema_editor: Any) -> None:
    for row in apps.get_model("agents", "RuntimeSettings").objects.using(schema_editor.connection.alias):
        kept = {name: value for name, value in row.values.items() if name not in ("prompt_price", "completion_price")}
        if kept != row.values:
            row.values = kept
            row.save(update_fields=["values"])


class Migration(migrations.Migration):
    dependencies = [("agents", "0021_categories_inform_only")]
    operations = [migrations.RunPython(drop, migrations.RunPython.noop)]
