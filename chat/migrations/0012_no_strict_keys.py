"""Keys are no longer strict: what a desk cannot do is ignored."""

import sys

from django.db import migrations


def announce(apps, schema_editor):
    keys = apps.get_model("chat", "ApiKey").objects.using(schema_editor.connection.alias)
    if names := list(keys.filter(is_strict=True).values_list("name", flat=True)):
        sys.stderr.write(f"\n  These API keys were strict, and ignore now what they refused: {', '.join(names)}.\n")


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0011_golden_runs_are_jobs'),
    ]

    operations = [
        migrations.RunPython(announce, migrations.RunPython.noop),
        migrations.RemoveField(
            model_name='apikey',
            name='is_strict',
        ),
    ]
