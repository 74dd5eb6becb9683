"""Questions that were answered from passages less close leave the unanswered ones, and their threshold every level."""

from django.db import migrations, models

COLUMNS = (("RuntimeSettings", "values"), ("Agent", "settings"), ("Deployment", "config_overlay"))


def drop(apps, schema_editor):
    alias = schema_editor.connection.alias
    apps.get_model("faqs", "UnansweredQuestion").objects.using(alias).filter(reason="low_score").delete()
    apps.get_model("faqs", "QuestionGroup").objects.using(alias).filter(questions=None).delete()
    for model, column in COLUMNS:
        for row in apps.get_model("agents", model).objects.using(alias):
            stored = getattr(row, column)
            if isinstance(stored, dict) and stored.pop("unanswered_threshold", stored) is not stored:
                row.save(update_fields=[column])


class Migration(migrations.Migration):
    dependencies = [("agents", "0019_token_of_the_tools"), ("faqs", "0015_one_table_of_origins")]
    operations = [
        migrations.RunPython(drop, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="unansweredquestion",
            name="reason",
            field=models.CharField(
                choices=[("refused", "Refusée par le garde-fou"), ("reported", "Réponse signalée")],
                max_length=20,
                verbose_name="raison",
            ),
        ),
    ]
