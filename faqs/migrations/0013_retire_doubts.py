from django.db import migrations

from agents.database import announce_dropped


class Migration(migrations.Migration):
    dependencies = [("faqs", "0012_imports_without_rows")]

    operations = [
        migrations.RunPython(
            announce_dropped("faqs", "AnswerDoubt", "visitors' reports that had not withdrawn an answer (retired)"),
            migrations.RunPython.noop,
        ),
        migrations.DeleteModel("AnswerDoubt"),
    ]
