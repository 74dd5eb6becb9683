from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0018_fewer_settings")]

    operations = [
        migrations.AddField(
            "runtimesettings", "tools_version", models.CharField(db_default="", default="", editable=False, max_length=32)
        )
    ]
