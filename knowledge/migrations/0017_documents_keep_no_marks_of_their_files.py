"""Documents no longer note which folder and which version of a reader they come from."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0016_titles_given_by_staff")]

    operations = [
        migrations.RemoveField(model_name="document", name="folder"),
        migrations.RemoveField(model_name="document", name="loaded_mtime"),
        migrations.RemoveField(model_name="document", name="loaded_size"),
        migrations.RemoveField(model_name="document", name="reader_version"),
    ]
