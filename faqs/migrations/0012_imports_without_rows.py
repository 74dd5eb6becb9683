from django.db import migrations

from agents.database import announce_dropped


class Migration(migrations.Migration):
    dependencies = [("faqs", "0011_versions_as_history")]

    operations = [
        migrations.RunPython(
            announce_dropped("faqs", "ImportPreview", "imports that waited for a choice (upload the file again)"),
            migrations.RunPython.noop,
        ),
        migrations.DeleteModel("ImportPreview"),
    ]
