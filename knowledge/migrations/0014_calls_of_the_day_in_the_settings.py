from typing import Any

from django.db import migrations


def carry_last_day(apps: Any, schema_editor: Any) -> None:
    database = schema_editor.connection.alias
    last = apps.get_model("knowledge", "QuestionSpending").objects.using(database).order_by("day").last()
    if last is not None:
        apps.get_model("agents", "RuntimeSettings").objects.using(database).update_or_create(
            pk=1, defaults={"questions_day": last.day, "questions_calls": last.calls}
        )


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0013_aliases_are_rows_of_collections"), ("agents", "0020_calls_of_the_day")]

    operations = [
        migrations.RunPython(carry_last_day, migrations.RunPython.noop),
        migrations.DeleteModel("QuestionSpending"),
    ]
