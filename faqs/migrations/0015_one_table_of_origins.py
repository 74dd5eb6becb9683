import django.db.models.deletion
from django.db import migrations, models

COPIES = [
    "INSERT INTO faqs_origin (entry_id, chunk_id, with_units, fingerprint) "
    "SELECT response_id, chunk_id, with_units, fingerprint FROM responses_chunks",
    "INSERT INTO faqs_origin (entry_id, learned_id, with_units, fingerprint) "
    "SELECT response_id, learned_id, FALSE, fingerprint FROM responses_answers",
    "INSERT INTO faqs_origin (answer_id, chunk_id, with_units, fingerprint) "
    "SELECT response_id, chunk_id, with_units, fingerprint FROM faqs_answerchunk",
]


def _key(to, *, related_name="origins", **options):
    return models.ForeignKey(null=True, related_name=related_name, to=to, **options)


OWNED = {"on_delete": django.db.models.deletion.CASCADE}
FREE = {"on_delete": django.db.models.deletion.DO_NOTHING, "db_constraint": False, "related_name": "+"}


class Migration(migrations.Migration):
    dependencies = [("faqs", "0014_deletions_by_version"), ("knowledge", "0012_delete_storagemark")]

    operations = [
        migrations.CreateModel(
            name="Origin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("with_units", models.BooleanField(db_default=False, default=False)),
                ("fingerprint", models.CharField(max_length=32)),
                ("entry", _key("faqs.cachedresponse", **OWNED)),
                ("answer", _key("faqs.learnedresponse", **OWNED)),
                ("chunk", _key("knowledge.chunk", **FREE)),
                ("learned", _key("faqs.learnedresponse", **FREE)),
            ],
            options={
                "verbose_name": "origine d’une réponse",
                "verbose_name_plural": "origines des réponses",
                "constraints": [
                    models.UniqueConstraint(fields=["entry", "chunk", "with_units"], name="entry_passage_once"),
                    models.UniqueConstraint(fields=["entry", "learned"], name="entry_answer_once"),
                    models.UniqueConstraint(fields=["answer", "chunk", "with_units"], name="answer_passage_once"),
                ],
            },
        ),
        migrations.RunSQL(COPIES, migrations.RunSQL.noop),
        migrations.DeleteModel("AnswerChunk"),
        migrations.DeleteModel("ResponseAnswer"),
        migrations.DeleteModel("ResponseChunk"),
    ]
