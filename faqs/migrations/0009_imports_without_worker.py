from django.db import migrations, models


def resume_failed(apps, schema_editor):
    """An import that had failed goes on from its page, at the first row that is missing."""
    preview = apps.get_model("faqs", "ImportPreview")
    preview.objects.using(schema_editor.connection.alias).filter(state="failed").update(state="applying")


class Migration(migrations.Migration):
    dependencies = [("faqs", "0008_fewer_mechanisms")]

    operations = [
        migrations.RunPython(resume_failed, migrations.RunPython.noop),
        *(
            migrations.RemoveField("importpreview", name)
            for name in ("attempts", "error", "finished_at", "lease_expires_at", "lease_owner", "started_at")
        ),
        migrations.AlterField(
            "importpreview",
            "state",
            models.CharField(
                choices=[("planned", "À choisir"), ("applying", "En cours"), ("done", "Terminé")],
                default="planned",
                max_length=20,
            ),
        ),
    ]
