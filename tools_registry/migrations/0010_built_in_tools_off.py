"""The built-in tools are offered only where staff switched them on: off where they were never called or changed."""

from django.db import migrations


def switch_off(apps, schema_editor):
    rows = apps.get_model("tools_registry", "ToolOverride").objects.using(schema_editor.connection.alias)
    names = ("search_knowledge", "current_date_and_time", "set_conversation_title")
    rows.filter(tool_name__in=names, called=0, description="", agents=None).update(is_active=False)


class Migration(migrations.Migration):
    dependencies = [("tools_registry", "0009_remote_tools_among_the_others")]
    operations = [migrations.RunPython(switch_off, migrations.RunPython.noop)]
