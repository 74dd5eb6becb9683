from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0018_service_tokens_are_keys'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='dailycount',
            name='language',
        ),
        migrations.RemoveField(
            model_name='turn',
            name='language',
        ),
    ]
