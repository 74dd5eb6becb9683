"""Remote tools whose stored request is not written any more are no longer allowed: their source has to be read again."""

import sys

from django.db import migrations

FORM = "application/x-www-form-urlencoded"


def is_written(operation):
    joined = operation.get("joined") or {}
    signs = set(joined.values()) if isinstance(joined, dict) else {","}
    return signs <= {","} and operation.get("body_kind", FORM) == FORM and not operation.get("body_joined")


def disallow(apps, schema_editor):
    tools = apps.get_model("tools_registry", "RemoteTool").objects.using(schema_editor.connection.alias)
    gone = [tool for tool in tools.filter(is_allowed=True) if not is_written(tool.operation)]
    tools.filter(pk__in=[tool.pk for tool in gone]).update(is_allowed=False)
    if gone:
        names = ", ".join(tool.tool_name for tool in gone)
        sys.stderr.write(f"\n  These tools send files or lists in a form that is gone, and are switched off: {names}.\n")


class Migration(migrations.Migration):
    dependencies = [("tools_registry", "0006_readings_without_progress")]
    operations = [migrations.RunPython(disallow, migrations.RunPython.noop)]
