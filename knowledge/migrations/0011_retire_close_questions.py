from django.db import migrations

from agents.database import announce_dropped


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0010_builds_are_jobs")]

    operations = [
        migrations.RunPython(
            announce_dropped("knowledge", "QuestionOverlap", "close questions of documents (retired)"),
            migrations.RunPython.noop,
        ),
        migrations.DeleteModel("QuestionOverlap"),
    ]
