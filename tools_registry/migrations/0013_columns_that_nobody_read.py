"""When a row of a tool was last saved, and the code of its last error: no page and no program read them."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tools_registry", "0012_forms_of_arguments")]
    operations = [
        migrations.RemoveField(model_name="tooloverride", name="last_error_code"),
        migrations.RemoveField(model_name="tooloverride", name="updated_at"),
    ]
