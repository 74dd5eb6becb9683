"""Lines of the journal about accounts lose the addresses and names of people: they are masked from now on."""

from django.db import migrations

MASKED = ("email", "first_name", "last_name")


def mask(apps, schema_editor):
    lines = apps.get_model("auditlog", "LogEntry").objects.using(schema_editor.connection.alias)
    for line in lines.filter(content_type__app_label="auth", content_type__model="user").iterator(500):
        changes = line.changes or {}
        if any(name in changes for name in MASKED):
            line.changes = {name: ["•••", "•••"] if name in MASKED else change for name, change in changes.items()}
            line.save(update_fields=["changes"])


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0031_two_fewer_settings"),
        ("auditlog", "0017_add_actor_email"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [migrations.RunPython(mask, migrations.RunPython.noop)]
