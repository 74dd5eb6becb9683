"""One table of daily sums: the exit and the status of a turn become its ending; steps and uses are no longer counted."""

from collections import defaultdict

import django.db.models.deletion
from django.db import migrations, models

from agents.database import announce_dropped

SUMS = ("turns", "llm_calls", "prompt_tokens", "completion_tokens", "timed", "milliseconds", "up", "down")


def carry_over(apps, schema_editor):
    """Add up the rows that one ending brings together; a day that was due is due again."""
    alias = schema_editor.connection.alias
    count = apps.get_model("chat", "DailyCount")
    found = defaultdict(lambda: [0] * len(SUMS))
    for row in count.objects.using(alias).iterator(1_000):
        ending = {"running": "running", "awaiting_approval": "running", "failed": "failed"}.get(row.status)
        if ending is None:
            ending = row.source if row.status == "done" and row.source else "interrupted"
        sums = found[row.day, row.deployment_id, ending, row.language, not row.is_past]
        sums[:] = [known + getattr(row, name) for known, name in zip(sums, SUMS)]
    due = set(apps.get_model("chat", "DayToCount").objects.using(alias).values_list("day", flat=True))
    due |= set(apps.get_model("chat", "CountedDay").objects.using(alias).filter(is_open=True).values_list("day", flat=True))
    count.objects.using(alias).all().delete()
    rows = [
        count(day=day, deployment_id=deployment, ending=ending, language=language, is_live=live, **dict(zip(SUMS, sums)))
        for (day, deployment, ending, language, live), sums in found.items()
    ]
    count.objects.using(alias).bulk_create([*rows, *(count(day=day, is_live=None) for day in sorted(due))], 500)


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0001_first_release'),
        ('chat', '0009_golden_runs_without_gates'),
    ]

    operations = [
        migrations.RunPython(announce_dropped("chat", "DailyStep", "how long each step took, by day"), migrations.RunPython.noop),
        migrations.RunPython(announce_dropped("chat", "DailyUse", "how often passages and answers were used, by day"), migrations.RunPython.noop),
        migrations.AlterModelOptions(
            name='dailycount',
            options={'default_permissions': (), 'permissions': [('view_figures', 'Voir comment va le service, en chiffres')], 'verbose_name': 'chiffres d’un jour', 'verbose_name_plural': 'chiffres par jour'},
        ),
        migrations.AddField(
            model_name='dailycount',
            name='ending',
            field=models.CharField(blank=True, default='', max_length=20),
        ),
        migrations.AddField(
            model_name='dailycount',
            name='is_live',
            field=models.BooleanField(null=True),
        ),
        migrations.AlterField(
            model_name='dailycount',
            name='deployment',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='agents.deployment'),
        ),
        migrations.RunPython(carry_over, migrations.RunPython.noop),
        migrations.RemoveIndex(
            model_name='dailycount',
            name='counts_of_a_day',
        ),
        migrations.RemoveField(
            model_name='dailycount',
            name='is_past',
        ),
        migrations.RemoveField(
            model_name='dailycount',
            name='source',
        ),
        migrations.RemoveField(
            model_name='dailycount',
            name='status',
        ),
        migrations.AddConstraint(
            model_name='dailycount',
            constraint=models.UniqueConstraint(fields=('day', 'deployment', 'ending', 'language', 'is_live'), name='one_count_of_a_kind'),
        ),
        migrations.DeleteModel(
            name='CountedDay',
        ),
        migrations.DeleteModel(
            name='DailyStep',
        ),
        migrations.DeleteModel(
            name='DailyUse',
        ),
        migrations.DeleteModel(
            name='DayToCount',
        ),
    ]
