from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0025_accent_help'),
        # Which fills the column.
        ('chat', '0011_golden_runs_are_jobs'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='job',
            name='created_by',
        ),
    ]
