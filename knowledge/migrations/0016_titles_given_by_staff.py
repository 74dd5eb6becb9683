"""A document has a title that staff give it, beside the one that its reading finds."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0015_replaced_documents_wait")]

    operations = [
        migrations.AddField(
            model_name="document",
            name="given_title",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Prend la place de celui que la lecture trouve. Vide : celui de la lecture.",
                max_length=500,
                verbose_name="titre donné",
            ),
        )
    ]
