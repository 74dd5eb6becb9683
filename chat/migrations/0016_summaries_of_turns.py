from django.db import migrations, models

COPY = """
UPDATE chat_turn SET summary = (SELECT text FROM chat_threadsummary WHERE turn_id = chat_turn.id)
WHERE id IN (SELECT turn_id FROM chat_threadsummary)
"""
COPY_BACK = "INSERT INTO chat_threadsummary (turn_id, text) SELECT id, summary FROM chat_turn WHERE summary <> ''"


class Migration(migrations.Migration):
    """The summary of a conversation becomes a column of the turn that it follows; its table goes."""

    dependencies = [
        ("chat", "0015_no_unsettled_turns"),
    ]

    operations = [
        migrations.AddField(
            model_name="turn",
            name="summary",
            field=models.TextField(blank=True, db_default="", default="", editable=False),
        ),
        migrations.RunSQL(COPY, COPY_BACK),
        migrations.DeleteModel(name="ThreadSummary"),
    ]
