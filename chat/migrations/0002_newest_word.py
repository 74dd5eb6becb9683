"""A thumb down is settled by the validated answer that answers its question since."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0001_first_release'),
        ('faqs', '0001_first_release'),
    ]

    operations = [
        migrations.AddField(
            model_name='feedback',
            name='settled_at',
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name='réglé le'),
        ),
        migrations.AddField(
            model_name='feedback',
            name='settled_by',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='faqs.learnedresponse', verbose_name='réglé par'),
        ),
    ]
