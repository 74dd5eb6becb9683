from django.db import migrations

from agents.database import announce_dropped


class Migration(migrations.Migration):
    """Conversations are no longer shared by link: the links go, and the copies behind them."""

    dependencies = [
        ("chat", "0019_no_language_of_turns"),
    ]

    operations = [
        migrations.RunPython(announce_dropped("chat", "SharedThread", "links to shared conversations"), migrations.RunPython.noop),
        migrations.DeleteModel(name="SharedThread"),
    ]
