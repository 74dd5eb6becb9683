"""A source is being read while its job is open: no second state beside it."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tools_registry", "0010_built_in_tools_off")]
    operations = [migrations.RemoveField("toolsource", "reading_since")]
