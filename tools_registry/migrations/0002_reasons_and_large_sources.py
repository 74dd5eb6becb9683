"""What a source cannot offer and why, what of a document is read, and the approval that tools of MCP servers ask for.

Older versions took an MCP tool that says nothing of itself for harmless; the protocol says that it may destroy. What such
a tool declared is not stored, so each one asks from now on, except where staff said that it must not
(`ToolOverride.needs_approval`). What staff had ticked on a tool of a source becomes their decision about it, since the
source's own word is kept in that place from now on.
"""

import uuid

from django.db import migrations, models

_READING = ("get", "head", "options")


def ask_for_approval(apps, _schema_editor):
    RemoteTool = apps.get_model("tools_registry", "RemoteTool")
    ToolOverride = apps.get_model("tools_registry", "ToolOverride")
    asked, freed = [], []
    for tool in RemoteTool.objects.select_related("source").only(
        "tool_name", "needs_approval", "operation", "source__kind"
    ):
        if tool.source.kind != "openapi":
            if tool.needs_approval:
                asked.append(tool.tool_name)
        elif tool.needs_approval != (tool.operation.get("method") not in _READING):
            (asked if tool.needs_approval else freed).append(tool.tool_name)
    for names, value in ((asked, True), (freed, False)):
        ToolOverride.objects.bulk_create(
            [ToolOverride(tool_name=name) for name in names], ignore_conflicts=True
        )
        for start in range(0, len(names), 500):
            ToolOverride.objects.filter(
                tool_name__in=names[start : start + 500], needs_approval=None
            ).update(needs_approval=value)
    RemoteTool.objects.exclude(source__kind="openapi").update(needs_approval=True)
    apps.get_model("tools_registry", "CatalogueState").objects.update(catalogue=uuid.uuid4().hex)


class Migration(migrations.Migration):

    dependencies = [
        ('tools_registry', '0001_first_release'),
    ]

    operations = [
        migrations.AddField('toolsource', 'chosen', models.TextField(blank=True, db_default='', default='', help_text='Une ligne par choix : « /repos/* », « GET /repos/* », « tag:issues », ou le nom d’une opération. Vide : tout.', max_length=10000, verbose_name='chemins et étiquettes à lire')),
        migrations.AddField('toolsource', 'problems', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list, editable=False)),
        migrations.AddField('toolsource', 'progress', models.CharField(blank=True, db_default='', default='', editable=False, max_length=40)),
        migrations.AddField('toolsource', 'reading_since', models.DateTimeField(blank=True, editable=False, null=True)),
        migrations.AlterField('toolsource', 'document', models.TextField(blank=True, default='', max_length=30000000, verbose_name='document OpenAPI')),
        migrations.AddField('toolusage', 'last_error', models.TextField(blank=True, db_default='', default='', verbose_name='dernière erreur')),
        migrations.AddField('toolusage', 'last_error_at', models.DateTimeField(blank=True, null=True, verbose_name='date de la dernière erreur')),
        migrations.AddField('toolusage', 'last_error_code', models.CharField(blank=True, db_default='', default='', max_length=40)),
        migrations.RunPython(ask_for_approval, migrations.RunPython.noop),
    ]
