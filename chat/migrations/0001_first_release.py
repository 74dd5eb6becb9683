"""The tables of the first release. `replaces` lets a database that was made step by step before it go on."""

import chat.models
import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True
    replaces = [
        ('chat', '0001_initial'),
        ('chat', '0002_answers_and_tools'),
        ('chat', '0003_threads'),
        ('chat', '0004_runner'),
        ('chat', '0005_answered_by'),
        ('chat', '0006_api_keys'),
        ('chat', '0007_clarification'),
        ('chat', '0008_summaries'),
        ('chat', '0009_phase_and_project'),
    ]

    dependencies = [
        ('agents', '0001_first_release'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Turn',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('client_message_id', models.CharField(editable=False, max_length=100)),
                ('status', models.CharField(choices=[('running', 'En cours'), ('done', 'Terminé'), ('interrupted', 'Interrompu'), ('failed', 'En échec'), ('awaiting_approval', 'Attend un accord')], default='running', max_length=20, verbose_name='état')),
                ('answer_source', models.CharField(blank=True, choices=[('memory_guard', 'Mémoire'), ('direct_qa', 'Réponse directe'), ('clarification', 'Demande de précision'), ('guard_rail', 'Garde-fou'), ('llm', 'Modèle de langage'), ('extractive', 'Passages cités'), ('round_limit', 'Limite des outils')], default='', max_length=20, verbose_name='voie de réponse')),
                ('model', models.CharField(blank=True, default='', max_length=200, verbose_name='modèle')),
                ('score', models.FloatField(blank=True, null=True, verbose_name='score de la réponse')),
                ('best_score', models.FloatField(blank=True, null=True, verbose_name='meilleur score')),
                ('llm_calls', models.PositiveSmallIntegerField(default=0, verbose_name='appels au modèle')),
                ('prompt_tokens', models.PositiveIntegerField(default=0, verbose_name='tokens lus')),
                ('completion_tokens', models.PositiveIntegerField(default=0, verbose_name='tokens écrits')),
                ('rounds', models.PositiveSmallIntegerField(default=0, verbose_name='relances après outils')),
                ('efficiency', models.FloatField(default=100.0, verbose_name='efficacité')),
                ('stop_reason', models.CharField(blank=True, choices=[('answered', 'Réponse donnée'), ('round_limit', 'Limite de relances atteinte'), ('saturated', 'Plus de progrès'), ('cancelled', 'Arrêtée'), ('awaiting_approval', 'Attend un accord')], default='', max_length=20, verbose_name='fin de la boucle d’outils')),
                ('is_personal', models.BooleanField(default=False, verbose_name='réponse personnelle')),
                ('answered_by', models.CharField(blank=True, default='', max_length=200, verbose_name='agent')),
                ('trace', models.JSONField(blank=True, default=list, verbose_name='trace')),
                ('error_code', models.CharField(blank=True, default='', max_length=50, verbose_name='erreur')),
                ('lease_expires_at', models.DateTimeField(editable=False)),
                ('run', models.PositiveSmallIntegerField(db_default=0, default=0, editable=False)),
                ('stop_requested_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('started_at', models.DateTimeField(auto_now_add=True, verbose_name='commencé le')),
                ('finished_at', models.DateTimeField(blank=True, null=True, verbose_name='fini le')),
            ],
            options={
                'verbose_name': 'tour',
                'verbose_name_plural': 'tours',
                'ordering': ['started_at'],
            },
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True, verbose_name='nom')),
                ('prefix', models.CharField(editable=False, max_length=20, verbose_name='début de la clé')),
                ('key_hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('is_revoked', models.BooleanField(default=False, verbose_name='révoquée')),
                ('expires_at', models.DateTimeField(blank=True, help_text='Vide : jamais.', null=True, verbose_name='expire le')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='créée le')),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='dernier usage')),
                ('deployments', models.ManyToManyField(help_text='La clé les ouvre, quel que soit leur public. Aucun : elle n’ouvre rien.', related_name='api_keys', to='agents.deployment', verbose_name='déploiements')),
            ],
            options={
                'verbose_name': 'clé d’API',
                'verbose_name_plural': 'clés d’API',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Conversation',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('visitor', models.UUIDField(blank=True, editable=False, null=True)),
                ('channel', models.CharField(choices=[('page', 'Page de conversation'), ('widget', 'Widget'), ('api', 'API')], default='page', editable=False, max_length=10, verbose_name='canal')),
                ('client_thread', models.JSONField(blank=True, editable=False, null=True)),
                ('title', models.CharField(blank=True, default='', max_length=200, verbose_name='titre')),
                ('phase', models.CharField(blank=True, db_default='', default='', max_length=80, verbose_name='phase')),
                ('project', models.CharField(blank=True, db_default='', default='', max_length=80, verbose_name='projet')),
                ('version', models.PositiveIntegerField(default=0, editable=False)),
                ('leaf', models.UUIDField(blank=True, editable=False, null=True)),
                ('is_temporary', models.BooleanField(default=False, verbose_name='temporaire')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='créée le')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='dernier message')),
                ('api_key', models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='conversations', to='chat.apikey', verbose_name='clé d’API')),
                ('deployment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='conversations', to='agents.deployment', verbose_name='déploiement')),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='conversations', to=settings.AUTH_USER_MODEL, verbose_name='utilisateur')),
            ],
            options={
                'verbose_name': 'conversation',
                'verbose_name_plural': 'conversations',
                'ordering': ['-updated_at'],
            },
        ),
        migrations.CreateModel(
            name='AppliedOperation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('operation_id', models.UUIDField(editable=False)),
                ('idempotency_key', models.CharField(blank=True, default='', max_length=100)),
                ('round_index', models.PositiveSmallIntegerField()),
                ('version', models.PositiveIntegerField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='applied_operations', to='chat.conversation')),
            ],
        ),
        migrations.CreateModel(
            name='ServiceToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True, verbose_name='nom')),
                ('token_hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('all_deployments', models.BooleanField(default=False, help_text='Ce jeton écrit dans les conversations de tous les déploiements.', verbose_name='toutes les conversations')),
                ('is_revoked', models.BooleanField(default=False, verbose_name='révoqué')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='émis le')),
                ('deployments', models.ManyToManyField(blank=True, help_text='Sans effet si toutes les conversations sont ouvertes.', to='agents.deployment', verbose_name='déploiements')),
            ],
            options={
                'verbose_name': 'jeton de service',
                'verbose_name_plural': 'jetons de service',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='SharedThread',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token', models.CharField(default=chat.models.share_token, editable=False, max_length=64, unique=True)),
                ('title', models.CharField(max_length=200, verbose_name='titre')),
                ('exchanges', models.JSONField(default=list, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='partagée le')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expire le')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='shares', to='chat.conversation', verbose_name='conversation')),
            ],
            options={
                'verbose_name': 'conversation partagée',
                'verbose_name_plural': 'conversations partagées',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='ThreadSummary',
            fields=[
                ('turn', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='summary', serialize=False, to='chat.turn', verbose_name='tour')),
                ('text', models.TextField(verbose_name='texte')),
            ],
            options={
                'verbose_name': 'résumé',
                'verbose_name_plural': 'résumés',
            },
        ),
        migrations.AddField(
            model_name='turn',
            name='conversation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='turns', to='chat.conversation', verbose_name='conversation'),
        ),
        migrations.AddField(
            model_name='turn',
            name='parent',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='children', to='chat.turn'),
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('after', models.UUIDField(blank=True, editable=False, null=True)),
                ('role', models.CharField(choices=[('user', 'Utilisateur'), ('assistant', 'Assistant'), ('tool', 'Outil')], max_length=20, verbose_name='rôle')),
                ('content', models.TextField(verbose_name='texte')),
                ('sources', models.JSONField(blank=True, default=list, verbose_name='sources')),
                ('tool_calls', models.JSONField(blank=True, default=list, verbose_name='appels d’outils')),
                ('tool_call_id', models.CharField(blank=True, default='', editable=False, max_length=100)),
                ('name', models.CharField(blank=True, default='', max_length=64, verbose_name='outil')),
                ('operation_id', models.UUIDField(blank=True, editable=False, null=True)),
                ('relance_index', models.PositiveSmallIntegerField(blank=True, editable=False, null=True)),
                ('success', models.BooleanField(blank=True, null=True, verbose_name='réussi')),
                ('error', models.TextField(blank=True, default='', verbose_name='erreur')),
                ('duration_ms', models.PositiveIntegerField(blank=True, null=True, verbose_name='durée (ms)')),
                ('timestamp', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='horodatage')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='écrit le')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='chat.conversation', verbose_name='conversation')),
                ('turn', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='chat.turn', verbose_name='tour')),
            ],
            options={
                'verbose_name': 'message',
                'verbose_name_plural': 'messages',
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='Feedback',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('verdict', models.CharField(choices=[('up', 'Utile'), ('down', 'À revoir')], max_length=10, verbose_name='avis')),
                ('reason', models.CharField(blank=True, choices=[('incorrect', 'Inexacte'), ('incomplete', 'Incomplète'), ('off_topic', 'À côté de la question'), ('bad_source', 'Mauvaise source'), ('outdated', 'Périmée'), ('unclear', 'Pas claire'), ('other', 'Autre')], default='', max_length=20, verbose_name='motif')),
                ('comment', models.TextField(blank=True, default='', verbose_name='commentaire')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='donné le')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='modifié le')),
                ('withdrawn_at', models.DateTimeField(blank=True, null=True, verbose_name='retiré le')),
                ('reported_at', models.DateTimeField(blank=True, null=True, verbose_name='signalé le')),
                ('turn', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='feedback', to='chat.turn', verbose_name='tour')),
            ],
            options={
                'verbose_name': 'avis',
                'verbose_name_plural': 'avis',
                'ordering': ['-updated_at'],
            },
        ),
        migrations.CreateModel(
            name='ToolRound',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('operation_id', models.UUIDField(editable=False)),
                ('round_index', models.PositiveSmallIntegerField()),
                ('content', models.TextField(blank=True, default='')),
                ('tool_calls', models.JSONField(default=list)),
                ('tool_names', models.JSONField(default=list)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tool_rounds', to='chat.conversation')),
                ('turn', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tool_rounds', to='chat.turn')),
            ],
            options={
                'ordering': ['round_index'],
            },
        ),
        migrations.CreateModel(
            name='ToolExecution',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveSmallIntegerField()),
                ('tool_call_id', models.CharField(max_length=100)),
                ('name', models.CharField(max_length=64)),
                ('state', models.CharField(choices=[('planned', 'Planned'), ('started', 'Started'), ('finished', 'Finished')], default='planned', max_length=10)),
                ('approval', models.CharField(blank=True, choices=[('pending', 'Pending'), ('approved', 'Approved'), ('denied', 'Denied')], default='', max_length=10)),
                ('content', models.TextField(blank=True, default='')),
                ('success', models.BooleanField(null=True)),
                ('error', models.TextField(blank=True, default='')),
                ('duration_ms', models.PositiveIntegerField(null=True)),
                ('is_personal', models.BooleanField(default=False)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('round', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='executions', to='chat.toolround')),
            ],
            options={
                'ordering': ['position'],
            },
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(fields=['user', '-updated_at'], name='chat_conver_user_id_e2a76b_idx'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(fields=['visitor', '-updated_at'], name='chat_conver_visitor_5726f9_idx'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('is_temporary', True)), fields=['updated_at'], name='temporary_conversations'),
        ),
        migrations.AddConstraint(
            model_name='appliedoperation',
            constraint=models.UniqueConstraint(fields=('conversation', 'operation_id'), name='one_application_per_operation'),
        ),
        migrations.AddConstraint(
            model_name='appliedoperation',
            constraint=models.UniqueConstraint(condition=models.Q(('idempotency_key', ''), _negated=True), fields=('conversation', 'idempotency_key'), name='one_operation_per_idempotency_key'),
        ),
        migrations.AddConstraint(
            model_name='turn',
            constraint=models.UniqueConstraint(fields=('conversation', 'client_message_id'), name='one_turn_per_client_message'),
        ),
        migrations.AddConstraint(
            model_name='turn',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', ['running', 'awaiting_approval'])), fields=('conversation',), name='one_open_turn_per_conversation'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.UniqueConstraint(condition=models.Q(('operation_id', None)), fields=('turn', 'role'), name='one_question_and_one_answer_per_turn'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.UniqueConstraint(condition=models.Q(('role', 'tool')), fields=('conversation', 'operation_id', 'tool_call_id'), name='one_tool_message_per_call'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.UniqueConstraint(condition=models.Q(('operation_id__isnull', False), ('role', 'assistant')), fields=('conversation', 'operation_id'), name='one_request_per_operation'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('role', 'tool'), _negated=True), models.Q(('operation_id__isnull', False), models.Q(('tool_call_id', ''), _negated=True), models.Q(('name', ''), _negated=True)), _connector='OR'), name='tool_message_names_its_call'),
        ),
        migrations.AddIndex(
            model_name='feedback',
            index=models.Index(fields=['verdict', '-updated_at'], name='chat_feedba_verdict_2906df_idx'),
        ),
        migrations.AddConstraint(
            model_name='toolround',
            constraint=models.UniqueConstraint(fields=('conversation', 'operation_id'), name='one_plan_per_operation'),
        ),
        migrations.AddConstraint(
            model_name='toolround',
            constraint=models.UniqueConstraint(fields=('turn', 'round_index'), name='one_plan_per_round'),
        ),
        migrations.AddConstraint(
            model_name='toolexecution',
            constraint=models.UniqueConstraint(fields=('round', 'tool_call_id'), name='one_execution_per_call'),
        ),
    ]
