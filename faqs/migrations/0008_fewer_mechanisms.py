from django.db import migrations

from agents.database import announce_dropped


class Migration(migrations.Migration):
    dependencies = [("faqs", "0007_todays_work")]

    operations = [
        migrations.RunPython(
            announce_dropped("faqs", "OptionChoice", "learned choices of « did you mean » (retired)"),
            migrations.RunPython.noop,
        ),
        migrations.DeleteModel("ChoiceClaim"),
        migrations.DeleteModel("OptionChoice"),
        migrations.RemoveIndex("learnedresponse", "idx_answers_open_loops"),
        migrations.RemoveField("learnedresponse", "loops_revision"),
        migrations.RemoveField("memoryshelf", "indexed_recipe"),
        migrations.RemoveField("memoryshelf", "indexed_version"),
    ]
