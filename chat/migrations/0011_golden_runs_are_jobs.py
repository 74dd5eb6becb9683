"""A run of golden questions is asked by a job: what waits, has failed or was cancelled becomes one."""

import django.db.models.deletion
from django.db import migrations, models


def make_jobs(apps, schema_editor):
    """Give each run that is not done its job; one that was running waits, and goes on where it was."""
    alias = schema_editor.connection.alias
    job = apps.get_model("agents", "Job").objects.using(alias)
    runs = apps.get_model("chat", "GoldenRun").objects.using(alias)
    for run in runs.exclude(status="done").select_related("deployment"):
        status = "queued" if run.status == "running" else run.status
        run.job = job.create(
            kind="golden",
            agent_id=run.deployment.agent_id,
            status=status,
            error=run.error,
            total=run.results.count(),
            created_by_id=run.by_id,
            finished_at=run.finished_at,
        )
        run.save(update_fields=["job"])
    # PostgreSQL alters no table that still has rows to check.
    schema_editor.connection.check_constraints()


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0017_golden_jobs'),
        ('chat', '0010_one_table_of_daily_sums'),
    ]

    operations = [
        migrations.AddField(
            model_name='goldenrun',
            name='job',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='golden_runs', to='agents.job', verbose_name='travail'),
        ),
        migrations.RunPython(make_jobs, migrations.RunPython.noop),
        migrations.RemoveField(
            model_name='goldenrun',
            name='attempts',
        ),
        migrations.RemoveField(
            model_name='goldenrun',
            name='error',
        ),
        migrations.RemoveField(
            model_name='goldenrun',
            name='finished_at',
        ),
        migrations.RemoveField(
            model_name='goldenrun',
            name='lease_expires_at',
        ),
        migrations.RemoveField(
            model_name='goldenrun',
            name='lease_owner',
        ),
        migrations.RemoveField(
            model_name='goldenrun',
            name='status',
        ),
    ]
