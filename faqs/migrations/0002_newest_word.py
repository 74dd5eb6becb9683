"""What the newest human word needs: who vouched when, what supersedes what, origins and versions of validated answers."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from django.db.models import F


def date_human_words(apps, schema_editor):
    """Until now only these told a person's word: a valid answer's last change, an entry confirmed after it was learned."""
    learned = apps.get_model("faqs", "LearnedResponse").objects.filter(status="valid")
    learned.update(validated_at=F("updated_at"))
    entries = apps.get_model("faqs", "CachedResponse").objects.filter(status="valid")
    entries.filter(confirmed_at__gt=F("created_at")).update(validated_at=F("confirmed_at"))


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0001_first_release'),
        ('faqs', '0001_first_release'),
        ('knowledge', '0001_first_release'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AnswerChunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('with_units', models.BooleanField(default=False)),
                ('fingerprint', models.CharField(max_length=32)),
            ],
            options={
                'verbose_name': 'passage d’une réponse validée',
                'verbose_name_plural': 'passages des réponses validées',
            },
        ),
        migrations.CreateModel(
            name='AnswerVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(verbose_name='version')),
                ('made_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='le')),
                ('how', models.CharField(choices=[('typed', 'Saisie'), ('corrected', 'Correction d’une réponse donnée'), ('promoted', 'Promue de la mémoire'), ('imported', 'Importée'), ('unanswered', 'Question sans réponse'), ('choice', 'Choix entre questions proches'), ('restored', 'Version restaurée'), ('status', 'Changement d’état'), ('system', 'Automatique')], max_length=20, verbose_name='comment')),
                ('question', models.CharField(max_length=1000, verbose_name='question')),
                ('phrasings', models.JSONField(default=list, verbose_name='autres formulations')),
                ('answer', models.TextField(blank=True, verbose_name='réponse')),
                ('category', models.CharField(blank=True, default='', max_length=200, verbose_name='catégorie')),
                ('status', models.CharField(choices=[('valid', 'Valide'), ('to_review', 'À revoir'), ('obsolete', 'Obsolète')], max_length=20, verbose_name='validité')),
                ('status_reason', models.CharField(blank=True, default='', max_length=500, verbose_name='raison')),
                ('review_date', models.DateField(blank=True, null=True, verbose_name='à revoir le')),
            ],
            options={
                'verbose_name': 'version d’une réponse validée',
                'verbose_name_plural': 'versions des réponses validées',
                'ordering': ['-number'],
            },
        ),
        migrations.CreateModel(
            name='ResponseAnswer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('fingerprint', models.CharField(max_length=32)),
            ],
            options={
                'verbose_name': 'réponse validée d’une réponse en mémoire',
                'verbose_name_plural': 'réponses validées des réponses en mémoire',
                'db_table': 'responses_answers',
            },
        ),
        migrations.AddField(
            model_name='cachedresponse',
            name='superseded_by',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='superseded_entries', to='faqs.learnedresponse', verbose_name='remplacée par'),
        ),
        migrations.AddField(
            model_name='cachedresponse',
            name='validated_at',
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name='validée le'),
        ),
        migrations.AddField(
            model_name='learnedresponse',
            name='is_given_in_review',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name='learnedresponse',
            name='settled_revision',
            field=models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name='learnedresponse',
            name='superseded_by',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='superseded_answers', to='faqs.learnedresponse', verbose_name='remplacée par'),
        ),
        migrations.AddField(
            model_name='learnedresponse',
            name='superseded_by_entry',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='superseded_answers', to='faqs.cachedresponse', verbose_name='remplacée par l’entrée'),
        ),
        migrations.AddField(
            model_name='learnedresponse',
            name='validated_at',
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name='validée le'),
        ),
        migrations.AddField(
            model_name='optionchoice',
            name='answered_by',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='faqs.learnedresponse', verbose_name='répondue par'),
        ),
        migrations.AddField(
            model_name='questiongroup',
            name='answered_at',
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name='répondu le'),
        ),
        migrations.AlterField(
            model_name='cachedresponse',
            name='status_reason',
            field=models.CharField(blank=True, choices=[('learned', 'apprise, en attente d’une relecture'), ('unsourced', 'la réponse ne cite aucune source'), ('in_context', 'écrite à la suite d’autres échanges'), ('reported', 'signalée comme fausse'), ('chunk_changed', 'un passage d’origine a changé, a été désactivé ou supprimé'), ('agent_changed', 'apprise d’un autre agent'), ('review_due', 'la date de relecture est passée'), ('superseded', 'une réponse validée à la même question est plus récente'), ('imported', 'importée, en attente d’une relecture'), ('staff', 'décision de l’équipe')], default='', max_length=20, verbose_name='raison'),
        ),
        migrations.AlterField(
            model_name='optionchoice',
            name='status',
            field=models.CharField(choices=[('open', 'À relire'), ('accepted', 'Acceptée'), ('answered', 'Répondue depuis'), ('dismissed', 'Écartée')], default='open', max_length=20, verbose_name='état'),
        ),
        migrations.AddIndex(
            model_name='learnedresponse',
            index=models.Index(condition=models.Q(('settled_revision__lt', models.F('revision'))), fields=['agent'], name='idx_answers_unsettled'),
        ),
        migrations.AddField(
            model_name='answerchunk',
            name='chunk',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='knowledge.chunk'),
        ),
        migrations.AddField(
            model_name='answerchunk',
            name='response',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chunks', to='faqs.learnedresponse'),
        ),
        migrations.AddField(
            model_name='answerversion',
            name='made_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='par'),
        ),
        migrations.AddField(
            model_name='answerversion',
            name='response',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='faqs.learnedresponse'),
        ),
        migrations.AddField(
            model_name='responseanswer',
            name='learned',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='faqs.learnedresponse'),
        ),
        migrations.AddField(
            model_name='responseanswer',
            name='response',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='answers', to='faqs.cachedresponse'),
        ),
        migrations.AddConstraint(
            model_name='answerchunk',
            constraint=models.UniqueConstraint(fields=('response', 'chunk', 'with_units'), name='answer_chunk_once'),
        ),
        migrations.AddConstraint(
            model_name='answerversion',
            constraint=models.UniqueConstraint(fields=('response', 'number'), name='version_once_per_response'),
        ),
        migrations.AddConstraint(
            model_name='responseanswer',
            constraint=models.UniqueConstraint(fields=('response', 'learned'), name='response_answer_once'),
        ),
        migrations.RunPython(date_human_words, migrations.RunPython.noop),
    ]
