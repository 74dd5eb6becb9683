"""What a model wrote and was not kept is counted in the report of its job alone."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0019_opendocument_files")]

    operations = [migrations.RemoveField(model_name="chunk", name="rejected_units")]
