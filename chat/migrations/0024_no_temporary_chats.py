from django.db import migrations


def delete_temporary_chats(apps, schema_editor):
    """They were to be deleted within a day; nobody is to find one in their list instead."""
    apps.get_model("chat", "Conversation").objects.filter(is_temporary=True).delete()


class Migration(migrations.Migration):
    """Conversations are no longer temporary: one that is not to last is deleted by its owner."""

    # PostgreSQL changes no table whose rows were deleted in the same transaction.
    atomic = False

    dependencies = [
        ("chat", "0023_runs_are_tries"),
    ]

    operations = [
        migrations.RunPython(delete_temporary_chats, migrations.RunPython.noop),
        migrations.RemoveIndex(model_name="conversation", name="temporary_conversations"),
        migrations.RemoveField(model_name="conversation", name="is_temporary"),
    ]
