"""Counts of days are kept of conversations that were deleted alone; those of the others are read from their turns."""

from typing import Any

from django.db import migrations, models
from django.db.models import Q


def drop_counts_of_what_is_there(apps: Any, _editor: Any) -> None:
    apps.get_model("chat", "DailyCount").objects.filter(Q(is_live=True) | Q(turns=0)).delete()


class Migration(migrations.Migration):
    dependencies = [("chat", "0013_no_origin_of_questions")]

    operations = [
        migrations.RunPython(drop_counts_of_what_is_there, migrations.RunPython.noop),
        migrations.RemoveConstraint(model_name="dailycount", name="one_count_of_a_kind"),
        migrations.RemoveField(model_name="dailycount", name="is_live"),
        migrations.AddIndex(
            model_name="dailycount", index=models.Index(fields=["day"], name="counts_of_days")
        ),
    ]
