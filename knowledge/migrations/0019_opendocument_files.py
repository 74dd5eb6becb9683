"""Documents may be OpenDocument files."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("knowledge", "0018_pages_are_due_by_their_last_reading")]

    operations = [
        migrations.AlterField(
            model_name="document",
            name="source_type",
            field=models.CharField(
                blank=True,
                choices=[
                    ("markdown", "Markdown"),
                    ("text", "Texte"),
                    ("html", "HTML"),
                    ("pdf", "PDF"),
                    ("docx", "DOCX"),
                    ("pptx", "PPTX"),
                    ("xlsx", "XLSX"),
                    ("csv", "CSV"),
                    ("odt", "ODT"),
                    ("ods", "ODS"),
                ],
                default="",
                max_length=20,
                verbose_name="format",
            ),
        )
    ]
