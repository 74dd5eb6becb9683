from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0011_retire_close_questions")]

    operations = [migrations.DeleteModel("StorageMark")]
