"""When an address is due follows from its last reading; a page that is gone is disabled at once."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0017_documents_keep_no_marks_of_their_files")]

    operations = [
        migrations.RemoveField(model_name="websource", name="due_at"),
        migrations.RemoveField(model_name="webpage", name="times_gone"),
    ]
