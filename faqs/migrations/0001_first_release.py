"""The tables of the first release. `replaces` lets a database that was made step by step before it go on."""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True
    replaces = [
        ('faqs', '0001_initial'),
        ('faqs', '0002_memory_collections'),
        ('faqs', '0003_scopes'),
        ('faqs', '0004_option_choices'),
        ('faqs', '0005_answer_doubts'),
    ]

    dependencies = [
        ('agents', '0001_first_release'),
        ('knowledge', '0001_first_release'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='MemoryShelf',
            fields=[
                ('deployment', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='memory', serialize=False, to='agents.deployment')),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('version', models.PositiveBigIntegerField(default=0)),
                ('purged_version', models.PositiveBigIntegerField(default=0)),
                ('indexed_version', models.PositiveBigIntegerField(default=0)),
                ('indexed_recipe', models.CharField(blank=True, default='', max_length=16)),
            ],
            options={
                'verbose_name': 'mémoire d’un déploiement',
                'verbose_name_plural': 'mémoires des déploiements',
            },
        ),
        migrations.CreateModel(
            name='CachedResponse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key_hash', models.CharField(editable=False, max_length=64)),
                ('question', models.TextField(verbose_name='question')),
                ('answer', models.TextField(verbose_name='réponse')),
                ('metadata', models.JSONField(blank=True, default=dict, verbose_name='métadonnées')),
                ('embedding', models.BinaryField()),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='créée le')),
                ('usage_count', models.PositiveIntegerField(default=0, editable=False, verbose_name='utilisations')),
                ('audience', models.CharField(editable=False, max_length=200, verbose_name='public')),
                ('language', models.CharField(blank=True, default='', max_length=10, verbose_name='langue')),
                ('embedding_model', models.CharField(editable=False, max_length=200, verbose_name='modèle d’embedding')),
                ('recipe_key', models.CharField(editable=False, max_length=16)),
                ('status', models.CharField(choices=[('valid', 'Valide'), ('to_review', 'À relire'), ('obsolete', 'Obsolète')], default='valid', max_length=20, verbose_name='état')),
                ('status_reason', models.CharField(blank=True, choices=[('learned', 'apprise, en attente d’une relecture'), ('unsourced', 'la réponse ne cite aucune source'), ('in_context', 'écrite à la suite d’autres échanges'), ('reported', 'signalée comme fausse'), ('chunk_changed', 'un passage d’origine a changé, a été désactivé ou supprimé'), ('agent_changed', 'apprise d’un autre agent'), ('review_due', 'la date de relecture est passée'), ('imported', 'importée, en attente d’une relecture'), ('staff', 'décision de l’équipe')], default='', max_length=20, verbose_name='raison')),
                ('status_note', models.TextField(blank=True, default='', max_length=2000, verbose_name='note')),
                ('confirmed_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='confirmée le')),
                ('review_on', models.DateField(blank=True, help_text='Passé ce jour, la réponse n’est plus donnée et revient à la relecture.', null=True, verbose_name='à relire le')),
                ('is_scoped', models.BooleanField(db_default=False, default=False, editable=False)),
                ('sources', models.JSONField(blank=True, default=list, editable=False, verbose_name='sources')),
                ('source_turn', models.UUIDField(blank=True, editable=False, null=True)),
                ('version', models.PositiveBigIntegerField(default=0, editable=False)),
                ('deployment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cached_responses', to='agents.deployment', verbose_name='déploiement')),
            ],
            options={
                'verbose_name': 'réponse en mémoire',
                'verbose_name_plural': 'mémoire',
                'db_table': 'responses',
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='AnswerDoubt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('visitor', models.UUIDField(editable=False)),
                ('source_turn', models.UUIDField(db_index=True, editable=False)),
                ('question', models.TextField(verbose_name='question')),
                ('reason', models.TextField(blank=True, default='', verbose_name='raison')),
                ('said_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='signalée le')),
                ('response', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='doubts', to='faqs.cachedresponse')),
            ],
            options={
                'verbose_name': 'doute d’un visiteur',
                'verbose_name_plural': 'doutes des visiteurs',
                'db_table': 'responses_doubts',
            },
        ),
        migrations.CreateModel(
            name='LearnedResponse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('faq', 'Question fréquente'), ('courtesy', 'Formule de politesse')], default='faq', max_length=20, verbose_name='nature')),
                ('question', models.CharField(max_length=1000, verbose_name='question')),
                ('question_key', models.CharField(editable=False, max_length=1000)),
                ('point_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('answer', models.TextField(blank=True, verbose_name='réponse')),
                ('category', models.CharField(blank=True, default='FAQ', max_length=200, verbose_name='catégorie')),
                ('status', models.CharField(choices=[('valid', 'Valide'), ('to_review', 'À revoir'), ('obsolete', 'Obsolète')], default='valid', max_length=20, verbose_name='validité')),
                ('status_reason', models.CharField(blank=True, default='', max_length=500, verbose_name='raison')),
                ('review_date', models.DateField(blank=True, help_text='Passé ce jour, la réponse n’est plus servie jusqu’à sa relecture.', null=True, verbose_name='à revoir le')),
                ('source_message', models.UUIDField(blank=True, editable=False, null=True)),
                ('index_state', models.CharField(choices=[('pending', 'En attente d’indexation'), ('indexed', 'Indexée'), ('failed', 'Indexation en échec'), ('withdrawn', 'Retirée de l’index')], default='pending', max_length=20, verbose_name='index')),
                ('index_error', models.TextField(blank=True, default='', verbose_name='dernière erreur d’indexation')),
                ('attempts', models.PositiveIntegerField(default=0, verbose_name='essais')),
                ('next_attempt_at', models.DateTimeField(blank=True, null=True, verbose_name='prochain essai')),
                ('indexed_at', models.DateTimeField(blank=True, null=True, verbose_name='indexée le')),
                ('revision', models.PositiveIntegerField(default=1, editable=False)),
                ('times_served', models.PositiveIntegerField(default=0, verbose_name='réponses données')),
                ('last_served_at', models.DateTimeField(blank=True, null=True, verbose_name='dernière réponse')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='créée le')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='modifiée le')),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='learned_responses', to='agents.agent', verbose_name='agent')),
                ('owner', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='learned_responses', to=settings.AUTH_USER_MODEL, verbose_name='responsable')),
            ],
            options={
                'verbose_name': 'réponse validée',
                'verbose_name_plural': 'réponses validées (FAQ)',
                'ordering': ['-updated_at'],
            },
        ),
        migrations.CreateModel(
            name='DeletedResponse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('response_id', models.BigIntegerField()),
                ('version', models.PositiveBigIntegerField()),
                ('shelf', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deleted', to='faqs.memoryshelf')),
            ],
            options={
                'verbose_name': 'réponse supprimée',
                'verbose_name_plural': 'réponses supprimées',
                'db_table': 'responses_deleted',
            },
        ),
        migrations.CreateModel(
            name='OptionChoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('question', models.CharField(max_length=1000, verbose_name='question posée')),
                ('option', models.CharField(max_length=1000, verbose_name='question choisie')),
                ('question_hash', models.CharField(editable=False, max_length=64)),
                ('option_hash', models.CharField(editable=False, max_length=64)),
                ('answer', models.TextField(verbose_name='réponse donnée')),
                ('sources', models.JSONField(default=list, editable=False, verbose_name='sources')),
                ('language', models.CharField(blank=True, default='', max_length=10, verbose_name='langue')),
                ('times_chosen', models.PositiveIntegerField(default=0, verbose_name='fois choisie')),
                ('last_chosen_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='dernière fois')),
                ('last_turn', models.UUIDField(blank=True, editable=False, null=True)),
                ('status', models.CharField(choices=[('open', 'À relire'), ('accepted', 'Acceptée'), ('dismissed', 'Écartée')], default='open', max_length=20, verbose_name='état')),
                ('chunk', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='option_choices', to='knowledge.chunk', verbose_name='passage')),
                ('deployment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='option_choices', to='agents.deployment', verbose_name='déploiement')),
                ('response', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='option_choices', to='faqs.learnedresponse', verbose_name='réponse validée')),
            ],
            options={
                'verbose_name': 'choix entre questions proches',
                'verbose_name_plural': 'choix entre questions proches',
                'ordering': ['-times_chosen', '-last_chosen_at'],
            },
        ),
        migrations.CreateModel(
            name='Phrasing',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('text', models.CharField(max_length=1000, verbose_name='formulation')),
                ('point_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('response', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='phrasings', to='faqs.learnedresponse', verbose_name='réponse validée')),
            ],
            options={
                'verbose_name': 'autre formulation',
                'verbose_name_plural': 'autres formulations',
                'ordering': ['pk'],
            },
        ),
        migrations.CreateModel(
            name='QuestionGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('question', models.CharField(max_length=500, verbose_name='question')),
                ('status', models.CharField(choices=[('open', 'À traiter'), ('drafted', 'Réponse en préparation'), ('answered', 'Répondue'), ('dismissed', 'Écartée')], default='open', max_length=20, verbose_name='état')),
                ('recipe', models.CharField(editable=False, max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='créé le')),
                ('vector', models.BinaryField()),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='question_groups', to='agents.agent', verbose_name='agent')),
                ('response', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='question_groups', to='faqs.learnedresponse', verbose_name='réponse validée')),
            ],
            options={
                'verbose_name': 'groupe de questions sans réponse',
                'verbose_name_plural': 'questions sans réponse',
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='ResponseChunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('with_units', models.BooleanField(default=False)),
                ('fingerprint', models.CharField(max_length=32)),
                ('chunk', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='knowledge.chunk')),
                ('response', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chunks', to='faqs.cachedresponse')),
            ],
            options={
                'verbose_name': 'passage d’une réponse en mémoire',
                'verbose_name_plural': 'passages des réponses en mémoire',
                'db_table': 'responses_chunks',
            },
        ),
        migrations.CreateModel(
            name='UnansweredQuestion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('question', models.CharField(max_length=500, verbose_name='question')),
                ('reason', models.CharField(choices=[('refused', 'Refusée par le garde-fou'), ('low_score', 'Passages peu proches'), ('reported', 'Réponse signalée')], max_length=20, verbose_name='raison')),
                ('score', models.FloatField(blank=True, null=True, verbose_name='meilleur score')),
                ('source_turn', models.UUIDField(editable=False, unique=True)),
                ('asked_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='posée le')),
                ('recipe', models.CharField(editable=False, max_length=64)),
                ('vector', models.BinaryField()),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='unanswered_questions', to='agents.agent', verbose_name='agent')),
                ('group', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='questions', to='faqs.questiongroup', verbose_name='groupe')),
            ],
            options={
                'verbose_name': 'question sans réponse',
                'verbose_name_plural': 'questions sans réponse',
                'ordering': ['-asked_at'],
            },
        ),
        migrations.CreateModel(
            name='WrongPair',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('question_hash', models.CharField(editable=False, max_length=64)),
                ('answer_digest', models.CharField(blank=True, default='', editable=False, max_length=32)),
                ('question', models.TextField(verbose_name='question')),
                ('reason', models.TextField(blank=True, default='', verbose_name='raison')),
                ('source_turn', models.UUIDField(blank=True, editable=False, null=True)),
                ('reported_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='signalée le')),
                ('response', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='wrong_pairs', to='faqs.cachedresponse')),
            ],
            options={
                'verbose_name': 'réponse signalée',
                'verbose_name_plural': 'réponses signalées',
                'db_table': 'responses_wrong_pairs',
            },
        ),
        migrations.AddIndex(
            model_name='cachedresponse',
            index=models.Index(fields=['key_hash'], name='idx_responses_key_hash'),
        ),
        migrations.AddIndex(
            model_name='cachedresponse',
            index=models.Index(fields=['created_at'], name='idx_responses_created_at'),
        ),
        migrations.AddIndex(
            model_name='cachedresponse',
            index=models.Index(fields=['deployment', 'version'], name='idx_responses_version'),
        ),
        migrations.AddIndex(
            model_name='cachedresponse',
            index=models.Index(fields=['deployment', 'confirmed_at'], name='idx_responses_confirmed_at'),
        ),
        migrations.AddConstraint(
            model_name='cachedresponse',
            constraint=models.UniqueConstraint(fields=('deployment', 'audience', 'key_hash'), name='response_once_per_scope'),
        ),
        migrations.AddConstraint(
            model_name='answerdoubt',
            constraint=models.UniqueConstraint(fields=('response', 'visitor'), name='doubt_once_per_visitor'),
        ),
        migrations.AddIndex(
            model_name='learnedresponse',
            index=models.Index(fields=['agent', 'question_key'], name='faqs_learne_agent_i_4dcc90_idx'),
        ),
        migrations.AddIndex(
            model_name='learnedresponse',
            index=models.Index(fields=['index_state', 'next_attempt_at'], name='faqs_learne_index_s_1d9044_idx'),
        ),
        migrations.AddIndex(
            model_name='learnedresponse',
            index=models.Index(fields=['status', 'review_date'], name='faqs_learne_status_27fe65_idx'),
        ),
        migrations.AddConstraint(
            model_name='learnedresponse',
            constraint=models.UniqueConstraint(condition=models.Q(('source_message__isnull', False)), fields=('agent', 'source_message'), name='message_learned_once_per_agent'),
        ),
        migrations.AddIndex(
            model_name='deletedresponse',
            index=models.Index(fields=['shelf', 'version'], name='responses_d_shelf_i_8e763e_idx'),
        ),
        migrations.AddIndex(
            model_name='optionchoice',
            index=models.Index(fields=['last_chosen_at'], name='faqs_option_last_ch_6b1c5f_idx'),
        ),
        migrations.AddConstraint(
            model_name='optionchoice',
            constraint=models.UniqueConstraint(fields=('deployment', 'question_hash', 'option_hash'), name='choice_once'),
        ),
        migrations.AddConstraint(
            model_name='phrasing',
            constraint=models.UniqueConstraint(fields=('response', 'text'), name='phrasing_once_per_response'),
        ),
        migrations.AddIndex(
            model_name='questiongroup',
            index=models.Index(fields=['agent', 'recipe'], name='faqs_questi_agent_i_b9a771_idx'),
        ),
        migrations.AddConstraint(
            model_name='responsechunk',
            constraint=models.UniqueConstraint(fields=('response', 'chunk', 'with_units'), name='response_chunk_once'),
        ),
        migrations.AddIndex(
            model_name='unansweredquestion',
            index=models.Index(fields=['agent', 'asked_at'], name='faqs_unansw_agent_i_d43362_idx'),
        ),
        migrations.AddIndex(
            model_name='unansweredquestion',
            index=models.Index(fields=['asked_at'], name='faqs_unansw_asked_a_f6fc20_idx'),
        ),
        migrations.AddConstraint(
            model_name='wrongpair',
            constraint=models.UniqueConstraint(fields=('response', 'question_hash', 'answer_digest'), name='wrong_pair_once'),
        ),
    ]
