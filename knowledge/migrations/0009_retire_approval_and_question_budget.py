"""Retires rebuilds that wait for approval, writings of questions that are held, and the tokens and money of a day.

Such jobs are cancelled: « Réessayer » on their page goes on.
"""

import sys

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from agents.database import announce_dropped


def cancel_held_jobs(apps, schema_editor):
    held = apps.get_model("knowledge", "IndexBuild").objects.using(schema_editor.connection.alias)
    held = held.filter(status__in=["staged", "paused"])
    count = held.update(status="cancelled", finished_at=django.utils.timezone.now())
    if count:
        sys.stderr.write(f"\n  {count} rebuilds to approve and held writings of questions are cancelled.\n")


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0014_retire_approval_and_question_budget'),
        ('knowledge', '0008_anchors_of_passages'),
    ]

    operations = [
        migrations.RunPython(cancel_held_jobs, migrations.RunPython.noop),
        migrations.RunPython(
            announce_dropped("knowledge", "QuestionSpending", "tokens and money of each day (its calls stay)"),
            migrations.RunPython.noop,
        ),
        migrations.AlterModelOptions(
            name='questionspending',
            options={'default_permissions': ()},
        ),
        migrations.RemoveConstraint(
            model_name='indexbuild',
            name='one_rebuild_at_a_time',
        ),
        migrations.RemoveField(
            model_name='indexbuild',
            name='needs_approval',
        ),
        migrations.RemoveField(
            model_name='indexbuild',
            name='preview',
        ),
        migrations.RemoveField(
            model_name='questionspending',
            name='completion_tokens',
        ),
        migrations.RemoveField(
            model_name='questionspending',
            name='cost',
        ),
        migrations.RemoveField(
            model_name='questionspending',
            name='prompt_tokens',
        ),
        migrations.AlterField(
            model_name='indexbuild',
            name='status',
            field=models.CharField(choices=[('queued', 'En attente'), ('running', 'En cours'), ('done', 'Terminé'), ('partly_failed', 'En partie en échec'), ('failed', 'En échec'), ('cancelled', 'Annulé')], default='queued', max_length=20, verbose_name='état'),
        ),
        migrations.AddConstraint(
            model_name='indexbuild',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'rebuild'), ('status__in', ['queued', 'running'])), fields=('agent', 'method'), name='one_rebuild_at_a_time'),
        ),
    ]
