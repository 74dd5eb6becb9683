from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def carry_aliases(apps: Any, schema_editor: Any) -> None:
    alias = schema_editor.connection.alias
    collections = apps.get_model("knowledge", "VectorCollection").objects.using(alias)
    for row in apps.get_model("knowledge", "VectorAlias").objects.using(alias).order_by("pk"):
        collections.create(name=row.name, target_id=row.collection_id)


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0012_delete_storagemark")]

    operations = [
        # Its own aliases take the name `aliases` below.
        migrations.AlterField(
            "vectoralias",
            "collection",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="knowledge.vectorcollection"
            ),
        ),
        migrations.AddField(
            "vectorcollection",
            "target",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="aliases",
                to="knowledge.vectorcollection",
            ),
        ),
        migrations.AlterField("vectorcollection", "recipe", models.JSONField(default=dict)),
        migrations.RunPython(carry_aliases, migrations.RunPython.noop),
        migrations.DeleteModel("VectorAlias"),
    ]
