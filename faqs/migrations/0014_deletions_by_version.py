from django.db import migrations
from django.db.models import F


def load_anew(apps, schema_editor):
    """The deletions that arrays may not have seen are theirs to see by a version."""
    memories = apps.get_model("faqs", "DeploymentMemory").objects.using(schema_editor.connection.alias)
    memories.update(version=F("version") + 1, purged_version=F("version") + 1)


class Migration(migrations.Migration):
    dependencies = [("faqs", "0013_retire_doubts")]

    operations = [
        migrations.RunPython(load_anew, migrations.RunPython.noop),
        migrations.DeleteModel("DeletedResponse"),
    ]
