from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0019_token_of_the_tools")]

    operations = [
        migrations.AddField("runtimesettings", "questions_day", models.DateField(editable=False, null=True)),
        migrations.AddField(
            "runtimesettings",
            "questions_calls",
            models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
    ]
