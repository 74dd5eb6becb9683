"""Rows of `IndexBuild` become rows of `agents.Job`, those that were not over included: a worker takes them up."""

from typing import Any

from django.db import migrations

_OVER = ("done", "partly_failed", "failed", "cancelled")


def carry_over(apps: Any, schema_editor: Any) -> None:
    alias = schema_editor.connection.alias
    job_model = apps.get_model("agents", "Job")
    created_at = job_model._meta.get_field("created_at")
    created_at.auto_now_add = False
    opened: dict[tuple[str, str], Any] = {}
    for row in apps.get_model("knowledge", "IndexBuild").objects.using(alias).select_related("source").order_by("pk").iterator(500):
        key = _key(row)
        status = row.status if row.status in _OVER else "queued"
        payload = {"document_ids": row.document_ids}
        if row.kind == "rebuild":
            payload = {"method": row.method, "generation": row.generation}
        if row.source:
            payload["address"] = row.source.url
        if status == "queued" and (before := opened.get((row.kind, key))) is not None:
            ids = {*before.payload.get("document_ids", ()), *row.document_ids}
            before.payload["document_ids"] = sorted(ids)
            before.save(using=alias)
            continue
        job = job_model(
            kind=row.kind,
            key=key,
            agent_id=row.agent_id,
            payload=payload,
            status=status,
            phase=row.phase,
            phase_started_at=row.phase_started_at,
            done=row.done,
            total=row.total,
            report=row.report,
            error=row.error,
            attempts=row.attempts if status in _OVER else 0,
            not_before=row.not_before,
            created_at=row.created_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
        )
        job.save(using=alias)
        if status == "queued" and key:
            opened[row.kind, key] = job
    created_at.auto_now_add = True


def _key(row: Any) -> str:
    keys = {"rebuild": f"{row.agent_id}:{row.method}", "refresh": str(row.source_id or "")}
    return "" if row.kind == "documents" else keys.get(row.kind, str(row.agent_id))


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0015_jobs"),
        # Nothing refers to the table any more.
        ("chat", "0009_golden_runs_without_gates"),
        ("knowledge", "0009_retire_approval_and_question_budget"),
    ]

    operations = [
        migrations.RunPython(carry_over, migrations.RunPython.noop),
        migrations.DeleteModel(name="IndexBuild"),
        migrations.CreateModel(
            name="IndexBuild",
            fields=[],
            options={
                "verbose_name": "indexation",
                "verbose_name_plural": "indexations",
                "proxy": True,
                "indexes": [],
                "constraints": [],
            },
            bases=("agents.job",),
        ),
    ]
