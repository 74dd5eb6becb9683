"""The tables of the first release. `replaces` lets a database that was made step by step before it go on."""

import django.core.validators
import django.db.models.deletion
import knowledge.models
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True
    replaces = [
        ('knowledge', '0001_initial'),
        ('knowledge', '0002_answers_and_tools'),
        ('knowledge', '0003_document_formats'),
        ('knowledge', '0004_web_pages'),
    ]

    dependencies = [
        ('agents', '0001_first_release'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Category',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, unique=True, verbose_name='nom')),
            ],
            options={
                'verbose_name': 'catégorie',
                'verbose_name_plural': 'catégories',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Document',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('name', models.CharField(max_length=500, verbose_name='fichier')),
                ('title', models.CharField(blank=True, default='', max_length=500, verbose_name='titre')),
                ('source_type', models.CharField(blank=True, choices=[('markdown', 'Markdown'), ('text', 'Texte'), ('html', 'HTML'), ('pdf', 'PDF'), ('docx', 'DOCX'), ('pptx', 'PPTX'), ('xlsx', 'XLSX'), ('csv', 'CSV')], default='', max_length=20, verbose_name='format')),
                ('language', models.CharField(blank=True, default='', editable=False, max_length=8, verbose_name='langue')),
                ('file', models.FileField(max_length=200, upload_to=knowledge.models._document_path, verbose_name='contenu')),
                ('file_hash', models.CharField(blank=True, default='', editable=False, max_length=64)),
                ('status', models.CharField(choices=[('pending', 'En attente'), ('indexed', 'Indexé'), ('failed', 'En échec')], default='pending', max_length=20, verbose_name='état')),
                ('error', models.TextField(blank=True, default='', verbose_name='raison de l’échec')),
                ('enabled', models.BooleanField(default=True, help_text='Les passages d’un document désactivé ne servent plus à répondre.', verbose_name='actif')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='ajouté le')),
                ('indexed_at', models.DateTimeField(blank=True, null=True, verbose_name='indexé le')),
                ('indexed_state', models.JSONField(blank=True, default=dict, editable=False)),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='documents', to='agents.agent', verbose_name='agent')),
                ('category', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='knowledge.category', verbose_name='catégorie')),
            ],
            options={
                'verbose_name': 'document',
                'verbose_name_plural': 'documents',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='VectorCollection',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=250, unique=True)),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('recipe', models.JSONField()),
                ('version', models.PositiveBigIntegerField(default=0)),
                ('purged_version', models.PositiveBigIntegerField(default=0)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'verbose_name': 'collection de vecteurs',
                'verbose_name_plural': 'collections de vecteurs',
            },
        ),
        migrations.CreateModel(
            name='Chunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('index', models.PositiveIntegerField(verbose_name='rang')),
                ('parent_context', models.TextField(blank=True, default='', verbose_name='chemin de titres')),
                ('content', models.TextField(verbose_name='texte')),
                ('summary', models.TextField(blank=True, default='', verbose_name='résumé')),
                ('keywords', models.JSONField(blank=True, default=list, verbose_name='mots-clés')),
                ('knowledge_units', models.JSONField(blank=True, default=list, verbose_name='questions et réponses')),
                ('units_origin', models.CharField(choices=[('waiting', 'En attente de questions'), ('found', 'Trouvées dans le document'), ('generated', 'Écrites par le modèle'), ('staff', 'Écrites ou relues par l’équipe')], default='waiting', max_length=20, verbose_name='questions')),
                ('enabled', models.BooleanField(default=True, help_text='Un passage désactivé n’est ni indexé ni utilisé pour répondre.', verbose_name='actif')),
                ('content_hash', models.CharField(editable=False, max_length=64)),
                ('source', models.JSONField(blank=True, editable=False, null=True)),
                ('conflict', models.JSONField(blank=True, editable=False, null=True)),
                ('rejected_units', models.JSONField(blank=True, default=list, editable=False, verbose_name='questions écartées')),
                ('asked_with', models.CharField(blank=True, default='', editable=False, max_length=300)),
                ('category', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='knowledge.category', verbose_name='catégorie')),
                ('document', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chunks', to='knowledge.document', verbose_name='document')),
            ],
            options={
                'verbose_name': 'passage',
                'verbose_name_plural': 'passages',
                'ordering': ['document', 'index'],
            },
        ),
        migrations.CreateModel(
            name='PairVerdict',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('stored', models.TextField(max_length=2000, verbose_name='question enregistrée')),
                ('asked', models.TextField(max_length=2000, verbose_name='question posée')),
                ('same_answer', models.BooleanField(verbose_name='même réponse')),
                ('index', models.CharField(blank=True, default='', max_length=80, verbose_name='index')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='décidé le')),
                ('decided_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='décidé par')),
            ],
            options={
                'verbose_name': 'verdict sur une paire',
                'verbose_name_plural': 'verdicts sur des paires',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='QuestionOverlap',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(editable=False, max_length=64)),
                ('kind', models.CharField(choices=[('duplicate', 'Même question, même réponse'), ('contradiction', 'Même question, réponses différentes')], max_length=20, verbose_name='constat')),
                ('similarity', models.FloatField(verbose_name='similarité')),
                ('first_question', models.TextField(verbose_name='question')),
                ('first_answer', models.TextField(verbose_name='réponse')),
                ('first_source', models.TextField(blank=True, default='', verbose_name='source')),
                ('second_question', models.TextField(verbose_name='autre question')),
                ('second_answer', models.TextField(verbose_name='autre réponse')),
                ('second_source', models.TextField(blank=True, default='', verbose_name='autre source')),
                ('dismissed', models.BooleanField(default=False, verbose_name='accepté tel quel')),
                ('found_at', models.DateTimeField(auto_now_add=True, verbose_name='constaté le')),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='overlaps', to='agents.agent', verbose_name='agent')),
                ('first_chunk', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='knowledge.chunk', verbose_name='passage')),
                ('second_chunk', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='knowledge.chunk', verbose_name='autre passage')),
            ],
            options={
                'verbose_name': 'questions proches',
                'verbose_name_plural': 'questions proches',
                'ordering': ['dismissed', 'kind', '-similarity'],
            },
        ),
        migrations.CreateModel(
            name='ThresholdCalibration',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model', models.CharField(max_length=200, verbose_name='modèle d’embedding')),
                ('index', models.CharField(blank=True, default='', max_length=80, verbose_name='index')),
                ('direct_answer', models.FloatField(blank=True, null=True, verbose_name='seuil de réponse directe')),
                ('memory', models.FloatField(blank=True, null=True, verbose_name='seuil de la mémoire')),
                ('budget', models.FloatField(verbose_name='part d’erreurs admise')),
                ('hits', models.PositiveIntegerField(verbose_name='bonnes réponses données')),
                ('same_pairs', models.PositiveIntegerField(verbose_name='paires de même réponse')),
                ('false_hits', models.PositiveIntegerField(verbose_name='mauvaises réponses données')),
                ('different_pairs', models.PositiveIntegerField(verbose_name='paires de réponse différente')),
                ('source', models.CharField(max_length=250, verbose_name='source')),
                ('created_at', models.DateTimeField(auto_now=True, verbose_name='calibré le')),
            ],
            options={
                'verbose_name': 'calibrage',
                'verbose_name_plural': 'calibrages',
                'ordering': ['model', 'index'],
                'constraints': [models.UniqueConstraint(fields=('model', 'index'), name='one_calibration_per_index')],
            },
        ),
        migrations.CreateModel(
            name='VectorAlias',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=250, unique=True)),
                ('collection', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='aliases', to='knowledge.vectorcollection')),
            ],
            options={
                'verbose_name': 'alias de collection',
                'verbose_name_plural': 'alias de collections',
            },
        ),
        migrations.CreateModel(
            name='VectorPoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('point_id', models.UUIDField()),
                ('version', models.PositiveBigIntegerField()),
                ('deleted', models.BooleanField(default=False)),
                ('payload', models.JSONField()),
                ('terms', models.BinaryField(null=True)),
                ('vector', models.BinaryField()),
                ('collection', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='points', to='knowledge.vectorcollection')),
            ],
            options={
                'verbose_name': 'point',
                'verbose_name_plural': 'points',
            },
        ),
        migrations.CreateModel(
            name='WebSource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('url', models.CharField(max_length=500, verbose_name='adresse')),
                ('kind', models.CharField(choices=[('page', 'Une page'), ('sitemap', 'Un plan de site (sitemap)')], default='page', max_length=20, verbose_name='nature')),
                ('refresh_hours', models.PositiveIntegerField(blank=True, help_text='Vide : le réglage de l’agent ou du site. 0 : jamais.', null=True, validators=[django.core.validators.MaxValueValidator(8760)], verbose_name='relire toutes les (heures)')),
                ('is_active', models.BooleanField(default=True, verbose_name='suivie')),
                ('error', models.TextField(blank=True, default='', editable=False, verbose_name='raison de l’échec')),
                ('checked_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='lue le')),
                ('due_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='prochaine lecture')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='ajoutée le')),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='web_sources', to='agents.agent', verbose_name='agent')),
                ('category', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='knowledge.category', verbose_name='catégorie')),
            ],
            options={
                'verbose_name': 'adresse du web',
                'verbose_name_plural': 'adresses du web',
                'ordering': ['url'],
            },
        ),
        migrations.CreateModel(
            name='IndexBuild',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('documents', 'Documents'), ('rebuild', 'Reconstruction'), ('sync', 'Mise à jour'), ('refresh', 'Relecture du web')], max_length=20, verbose_name='travail')),
                ('method', models.CharField(blank=True, choices=[('qr_atomique', 'Q/R Atomique'), ('legacy', 'Classique (legacy)')], default='', max_length=20, verbose_name='méthode')),
                ('document_ids', models.JSONField(blank=True, default=list)),
                ('status', models.CharField(choices=[('queued', 'En attente'), ('running', 'En cours'), ('done', 'Terminé'), ('staged', 'À approuver'), ('failed', 'En échec'), ('cancelled', 'Annulé')], default='queued', max_length=20, verbose_name='état')),
                ('phase', models.CharField(blank=True, choices=[('fetching', 'Pages du web'), ('reading', 'Lecture des documents'), ('questions', 'Questions écrites par le modèle'), ('vectors', 'Points')], default='', max_length=20, verbose_name='étape')),
                ('phase_started_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('done', models.PositiveIntegerField(default=0, verbose_name='fait')),
                ('total', models.PositiveIntegerField(default=0, verbose_name='à faire')),
                ('report', models.JSONField(blank=True, default=dict, verbose_name='bilan')),
                ('error', models.TextField(blank=True, default='', verbose_name='erreur')),
                ('generation', models.CharField(blank=True, default='', max_length=200, verbose_name='génération')),
                ('needs_approval', models.BooleanField(default=False, verbose_name='à approuver avant mise en service')),
                ('preview', models.JSONField(blank=True, default=dict, editable=False)),
                ('attempts', models.PositiveSmallIntegerField(default=0, verbose_name='essais')),
                ('lease_owner', models.CharField(blank=True, default='', editable=False, max_length=200)),
                ('lease_expires_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('not_before', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='prochain essai')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='demandé le')),
                ('started_at', models.DateTimeField(blank=True, null=True, verbose_name='commencé le')),
                ('finished_at', models.DateTimeField(blank=True, null=True, verbose_name='fini le')),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='builds', to='agents.agent', verbose_name='agent')),
                ('source', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='builds', to='knowledge.websource', verbose_name='adresse du web')),
            ],
            options={
                'verbose_name': 'indexation',
                'verbose_name_plural': 'indexations',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='WebPage',
            fields=[
                ('document', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='page', serialize=False, to='knowledge.document')),
                ('state', models.CharField(choices=[('waiting', 'Pas encore lue'), ('present', 'En ligne'), ('failed', 'Non lue la dernière fois'), ('gone', 'Disparue'), ('left', 'Sortie du plan du site')], default='waiting', max_length=20, verbose_name='page')),
                ('error', models.TextField(blank=True, default='')),
                ('etag', models.CharField(blank=True, default='', max_length=200)),
                ('last_modified', models.CharField(blank=True, default='', max_length=100)),
                ('checked_at', models.DateTimeField(blank=True, null=True, verbose_name='lue le')),
                ('times_gone', models.PositiveIntegerField(default=0)),
                ('switched_off', models.BooleanField(default=False)),
                ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='pages', to='knowledge.websource')),
            ],
            options={
                'verbose_name': 'page du web',
                'verbose_name_plural': 'pages du web',
            },
        ),
        migrations.AddConstraint(
            model_name='document',
            constraint=models.UniqueConstraint(fields=('agent', 'name'), name='document_once_per_agent'),
        ),
        migrations.AddIndex(
            model_name='chunk',
            index=models.Index(fields=['document', 'index'], name='knowledge_c_documen_e735be_idx'),
        ),
        migrations.AddConstraint(
            model_name='questionoverlap',
            constraint=models.UniqueConstraint(fields=('agent', 'key'), name='overlap_once_per_agent'),
        ),
        migrations.AddIndex(
            model_name='vectorpoint',
            index=models.Index(fields=['collection', 'version'], name='knowledge_v_collect_602409_idx'),
        ),
        migrations.AddConstraint(
            model_name='vectorpoint',
            constraint=models.UniqueConstraint(fields=('collection', 'point_id'), name='vector_point_once'),
        ),
        migrations.AddConstraint(
            model_name='websource',
            constraint=models.UniqueConstraint(fields=('agent', 'url'), name='web_source_once_per_agent'),
        ),
        migrations.AddConstraint(
            model_name='indexbuild',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'rebuild'), ('status__in', ['queued', 'running', 'staged'])), fields=('agent', 'method'), name='one_rebuild_at_a_time'),
        ),
        migrations.AddConstraint(
            model_name='indexbuild',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'sync'), ('status', 'queued')), fields=('agent',), name='one_waiting_update_per_agent'),
        ),
        migrations.AddConstraint(
            model_name='indexbuild',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'refresh'), ('status__in', ['queued', 'running'])), fields=('source',), name='one_refresh_at_a_time'),
        ),
    ]
