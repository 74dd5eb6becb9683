from django.db import migrations, models

COPY = """
UPDATE chat_message SET idempotency_key = (
    SELECT applied.idempotency_key FROM chat_appliedoperation applied
    WHERE applied.conversation_id = chat_message.conversation_id AND applied.operation_id = chat_message.operation_id
)
WHERE id IN (
    SELECT MIN(message.id) FROM chat_message message JOIN chat_appliedoperation applied
    ON applied.conversation_id = message.conversation_id AND applied.operation_id = message.operation_id
    WHERE applied.idempotency_key <> '' GROUP BY applied.id
)
"""


class Migration(migrations.Migration):
    """Messages say by themselves which operation they are of: its own row said it a second time."""

    dependencies = [
        ("chat", "0016_summaries_of_turns"),
    ]

    operations = [
        migrations.AddField(
            model_name="message",
            name="idempotency_key",
            field=models.CharField(blank=True, db_default="", default="", editable=False, max_length=100),
        ),
        migrations.RunSQL(COPY),
        migrations.AddConstraint(
            model_name="message",
            constraint=models.UniqueConstraint(
                condition=models.Q(("idempotency_key", ""), _negated=True),
                fields=("conversation", "idempotency_key"),
                name="one_batch_per_idempotency_key",
            ),
        ),
        migrations.DeleteModel(name="AppliedOperation"),
    ]
