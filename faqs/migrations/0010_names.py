from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("faqs", "0009_imports_without_worker")]

    operations = [
        migrations.RenameModel("MemoryShelf", "DeploymentMemory"),
        migrations.RemoveIndex("deletedresponse", "responses_d_shelf_i_8e763e_idx"),
        migrations.RenameField("deletedresponse", "shelf", "memory"),
        migrations.AddIndex(
            "deletedresponse", models.Index(fields=["memory", "version"], name="responses_d_memory__bd7548_idx")
        ),
    ]
