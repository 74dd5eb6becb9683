"""A service token is a key of another kind: its rows move to the keys, and the journal's lines with them."""

from typing import Any

from django.db import migrations, models


def move_tokens(apps: Any, _editor: Any) -> None:
    key_model, kinds = apps.get_model("chat", "ApiKey"), apps.get_model("contenttypes", "ContentType").objects
    old = kinds.filter(app_label="chat", model="servicetoken").first()
    for token in apps.get_model("chat", "ServiceToken").objects.order_by("pk"):
        is_taken = key_model.objects.filter(name=token.name).exists()
        key = key_model.objects.create(
            name=f"{token.name[:80]} · service {token.pk}" if is_taken else token.name,
            is_service=True,
            key_hash=token.token_hash,
            all_deployments=token.all_deployments,
            is_revoked=token.is_revoked,
        )
        key_model.objects.filter(pk=key.pk).update(created_at=token.created_at)
        key.deployments.set(token.deployments.all())
        if old is not None:
            new, _is_new = kinds.get_or_create(app_label="chat", model="apikey")
            lines = apps.get_model("auditlog", "LogEntry").objects.filter(content_type=old, object_pk=str(token.pk))
            lines.update(content_type=new, object_pk=str(key.pk), object_id=key.pk)


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0025_accent_help"),
        ("auditlog", "__latest__"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("chat", "0017_operations_are_messages"),
    ]

    operations = [
        migrations.AlterField(
            "apikey",
            "deployments",
            models.ManyToManyField(
                blank=True,
                help_text="La clé les ouvre, quel que soit leur public. Aucun : elle n’ouvre rien.",
                related_name="api_keys",
                to="agents.deployment",
                verbose_name="déploiements",
            ),
        ),
        migrations.AddField(
            "apikey",
            "is_service",
            models.BooleanField(db_default=False, default=False, editable=False, verbose_name="jeton de service"),
        ),
        migrations.AddField(
            "apikey",
            "all_deployments",
            models.BooleanField(
                db_default=False,
                default=False,
                help_text="Ce jeton écrit dans les conversations de tous les déploiements.",
                verbose_name="toutes les conversations",
            ),
        ),
        migrations.RunPython(move_tokens),
        migrations.DeleteModel("ServiceToken"),
    ]
