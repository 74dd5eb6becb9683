"""What was stored as a list of arguments that go with commas is each argument's form."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def give_forms(apps: Apps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    model = apps.get_model("tools_registry", "ToolOverride")
    for row in model.objects.filter(operation__has_key="joined").only("operation").iterator():
        forms = {argument: {"explode": False} for argument in row.operation.pop("joined")}
        row.operation["forms"] = forms
        row.save(update_fields=["operation"])


class Migration(migrations.Migration):
    dependencies = [("tools_registry", "0011_reading_is_a_job")]
    operations = [migrations.RunPython(give_forms, migrations.RunPython.noop)]
