"""The tables of the first release. `replaces` lets a database that was made step by step before it go on."""

import django.core.validators
import django.db.models.deletion
import tools_registry.models
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True
    replaces = [
        ('tools_registry', '0001_initial'),
    ]

    dependencies = [
        ('agents', '0001_first_release'),
    ]

    operations = [
        migrations.CreateModel(
            name='IndexedTool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tool_name', models.CharField(max_length=64, unique=True)),
                ('digest', models.CharField(max_length=64)),
                ('texts', models.JSONField()),
                ('recipe', models.JSONField()),
                ('vectors', models.BinaryField()),
            ],
            options={
                'verbose_name': 'outil indexé',
                'verbose_name_plural': 'outils indexés',
            },
        ),
        migrations.CreateModel(
            name='ToolSource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField(help_text='Début du nom de ses outils.', max_length=20, unique=True, validators=[django.core.validators.RegexValidator('^[a-zA-Z0-9_-]+$')], verbose_name='identifiant')),
                ('name', models.CharField(max_length=200, verbose_name='nom')),
                ('kind', models.CharField(choices=[('mcp_stdio', 'Serveur MCP local (stdio)'), ('mcp_http', 'Serveur MCP (HTTP)'), ('openapi', 'Document OpenAPI')], max_length=20, verbose_name='nature')),
                ('command', models.CharField(blank=True, default='', help_text='Pour stdio : un nom de la variable MCP_STDIO_SERVERS.', max_length=80, verbose_name='commande')),
                ('url', models.CharField(blank=True, default='', help_text='Du serveur MCP, ou du document OpenAPI quand il n’est pas collé ci-dessous.', max_length=500, verbose_name='adresse')),
                ('document', models.TextField(blank=True, default='', max_length=2000000, verbose_name='document OpenAPI')),
                ('allowed_hosts', models.JSONField(blank=True, default=list, help_text='Noms des serveurs que cette source peut appeler, avec leur port s’il n’est pas habituel.', verbose_name='hôtes permis')),
                ('headers', models.JSONField(blank=True, default=dict, help_text='Par exemple {"Authorization": "Bearer ${TOOL_SECRET_CRM}"} : les secrets sont nommés, jamais écrits.', verbose_name='en-têtes')),
                ('tags', models.JSONField(blank=True, default=list, help_text='Noms de groupes dont il faut faire partie pour utiliser ses outils.', verbose_name='droits')),
                ('is_personal', models.BooleanField(default=True, help_text='Les réponses faites avec ses outils ne sont jamais gardées pour d’autres.', verbose_name='résultats personnels')),
                ('timeout_seconds', models.FloatField(default=20.0, validators=[django.core.validators.MinValueValidator(0.1), django.core.validators.MaxValueValidator(120.0)], verbose_name='délai (secondes)')),
                ('is_active', models.BooleanField(default=True, verbose_name='active')),
                ('refreshed_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='liste lue le')),
                ('last_error', models.TextField(blank=True, default='', editable=False, verbose_name='dernière erreur')),
            ],
            options={
                'verbose_name': 'source d’outils',
                'verbose_name_plural': 'sources d’outils',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='ToolUsage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tool_name', models.CharField(max_length=64, unique=True, verbose_name='outil')),
                ('selected', models.PositiveBigIntegerField(default=0, verbose_name='proposé')),
                ('called', models.PositiveBigIntegerField(default=0, verbose_name='appelé')),
                ('failed', models.PositiveBigIntegerField(default=0, verbose_name='en échec')),
                ('last_selected_at', models.DateTimeField(blank=True, null=True, verbose_name='dernière proposition')),
                ('last_called_at', models.DateTimeField(blank=True, null=True, verbose_name='dernier appel')),
            ],
            options={
                'verbose_name': 'usage d’un outil',
                'verbose_name_plural': 'usage des outils',
                'ordering': ['tool_name'],
            },
        ),
        migrations.CreateModel(
            name='CatalogueState',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('catalogue', models.CharField(default=tools_registry.models.new_token, max_length=32)),
                ('index', models.CharField(default=tools_registry.models.new_token, max_length=32)),
                ('external', models.CharField(blank=True, default='', max_length=32)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('pk', 1)), name='tool_catalogue_one_row')],
            },
        ),
        migrations.CreateModel(
            name='ToolOverride',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tool_name', models.CharField(editable=False, max_length=64, unique=True, verbose_name='outil')),
                ('description', models.TextField(blank=True, default='', help_text='Remplace la description de l’outil. Vide : celle du code.', max_length=4000, verbose_name='description')),
                ('parameters', models.JSONField(blank=True, default=dict, help_text='Par nom de paramètre ; un paramètre absent garde sa description.', verbose_name='descriptions des paramètres')),
                ('extra_tags', models.JSONField(blank=True, default=list, help_text='Noms de groupes dont il faut aussi faire partie pour utiliser l’outil, en plus de ceux du code.', verbose_name='droits ajoutés')),
                ('needs_approval', models.BooleanField(blank=True, default=None, help_text='Demander l’accord de l’utilisateur avant chaque exécution.', null=True, verbose_name='accord d’une personne')),
                ('is_active', models.BooleanField(default=True, verbose_name='actif')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='modifié le')),
                ('agents', models.ManyToManyField(blank=True, help_text='Agents qui proposent cet outil. Aucun : tous.', related_name='+', to='agents.agent', verbose_name='agents')),
            ],
            options={
                'verbose_name': 'outil',
                'verbose_name_plural': 'outils',
                'ordering': ['tool_name'],
            },
        ),
        migrations.CreateModel(
            name='LabelledQuestion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('text', models.CharField(max_length=500, unique=True, verbose_name='question')),
                ('expected', models.ManyToManyField(related_name='+', to='tools_registry.tooloverride', verbose_name='outils attendus')),
            ],
            options={
                'verbose_name': 'question étiquetée',
                'verbose_name_plural': 'questions étiquetées',
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='ToolExample',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('text', models.CharField(max_length=500, verbose_name='formulation')),
                ('override', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='examples', to='tools_registry.tooloverride', verbose_name='outil')),
            ],
            options={
                'verbose_name': 'formulation',
                'verbose_name_plural': 'formulations',
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(fields=('override', 'text'), name='tool_example_once')],
            },
        ),
        migrations.CreateModel(
            name='RemoteTool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tool_name', models.CharField(max_length=64, unique=True, verbose_name='outil')),
                ('remote_name', models.CharField(max_length=200, verbose_name='nom dans la source')),
                ('description', models.TextField(blank=True, default='', verbose_name='description')),
                ('parameters', models.JSONField(default=dict, verbose_name='paramètres')),
                ('operation', models.JSONField(default=dict, verbose_name='opération')),
                ('needs_approval', models.BooleanField(default=False, verbose_name='accord d’une personne')),
                ('is_allowed', models.BooleanField(default=False, verbose_name='permis')),
                ('is_present', models.BooleanField(default=True, verbose_name='présent')),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tools', to='tools_registry.toolsource', verbose_name='source')),
            ],
            options={
                'verbose_name': 'outil distant',
                'verbose_name_plural': 'outils distants',
                'ordering': ['tool_name'],
                'constraints': [models.UniqueConstraint(fields=('source', 'remote_name'), name='remote_tool_once')],
            },
        ),
    ]
