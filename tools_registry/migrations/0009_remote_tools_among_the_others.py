from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def take_over(apps: Any, schema_editor: Any) -> None:
    """Bring what sources declared to the rows of their tools; one is active where staff permitted and did not stop it."""
    database = schema_editor.connection.alias
    overrides = apps.get_model("tools_registry", "ToolOverride").objects.using(database)
    for tool in apps.get_model("tools_registry", "RemoteTool").objects.using(database).order_by("pk").iterator():
        row, _is_new = overrides.get_or_create(tool_name=tool.tool_name)
        overrides.filter(pk=row.pk).update(
            source=tool.source_id,
            remote_name=tool.remote_name,
            declared_description=tool.description,
            declared_parameters=tool.parameters,
            operation=tool.operation,
            declared_approval=tool.needs_approval,
            is_present=tool.is_present,
            is_active=tool.is_allowed and row.is_active,
        )


class Migration(migrations.Migration):
    dependencies = [("tools_registry", "0008_token_in_the_settings")]

    operations = [
        # The name of the relation is taken below.
        migrations.AlterField(
            "remotetool",
            "source",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="tools_registry.toolsource"
            ),
        ),
        migrations.AddField(
            "tooloverride", "declared_approval", models.BooleanField(db_default=False, default=False, editable=False)
        ),
        migrations.AddField(
            "tooloverride", "declared_description", models.TextField(db_default="", default="", editable=False)
        ),
        migrations.AddField(
            "tooloverride",
            "declared_parameters",
            models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict, editable=False),
        ),
        migrations.AddField(
            "tooloverride",
            "is_present",
            models.BooleanField(db_default=True, default=True, editable=False, verbose_name="présent"),
        ),
        migrations.AddField(
            "tooloverride",
            "operation",
            models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict, editable=False),
        ),
        migrations.AddField(
            "tooloverride",
            "remote_name",
            models.CharField(db_default="", default="", editable=False, max_length=200),
        ),
        migrations.AddField(
            "tooloverride",
            "source",
            models.ForeignKey(
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="tools",
                to="tools_registry.toolsource",
                verbose_name="source",
            ),
        ),
        migrations.AddConstraint(
            "tooloverride",
            models.UniqueConstraint(fields=("source", "remote_name"), name="tool_of_source_once"),
        ),
        migrations.RunPython(take_over, migrations.RunPython.noop),
        migrations.DeleteModel("RemoteTool"),
    ]
