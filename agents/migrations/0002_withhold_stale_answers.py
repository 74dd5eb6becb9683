"""Validated answers whose passages changed are withheld, unless staff say otherwise."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0001_first_release'),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='withhold_stale_answers',
            field=models.BooleanField(blank=True, default=None, help_text='Une réponse validée tirée d’un échange repasse à relire quand un de ses passages change : ne plus la donner jusqu’à sa relecture.', null=True, verbose_name='retenir les réponses validées à relire'),
        ),
        migrations.AddField(
            model_name='runtimesettings',
            name='withhold_stale_answers',
            field=models.BooleanField(db_default=True, default=True, help_text='Une réponse validée tirée d’un échange repasse à relire quand un de ses passages change : ne plus la donner jusqu’à sa relecture.', verbose_name='retenir les réponses validées à relire'),
        ),
    ]
