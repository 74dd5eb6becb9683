"""Versions of validated answers become lines of the history, as far back as that has no lines of the answer itself."""

from django.conf import settings
from django.db import migrations
from django.db.models import Min

FIELDS = "question phrasings answer category status status_reason review_date".split()
#: By which way a version came, as the history names it.
ORIGINS = {"imported": "import", "restored": "restore", "system": "worker"}
BATCH = 500


def _plain(value):
    return value.isoformat() if hasattr(value, "isoformat") else value


def carry_over(apps, schema_editor):
    alias = schema_editor.connection.alias
    line_model, version_model = apps.get_model("auditlog", "LogEntry"), apps.get_model("faqs", "AnswerVersion")
    versions = version_model.objects.using(alias)
    if not versions.exists():
        return
    kinds = apps.get_model("contenttypes", "ContentType").objects.using(alias)
    kind, _is_new = kinds.get_or_create(app_label="faqs", model="learnedresponse")
    lines = line_model.objects.using(alias).filter(content_type=kind)
    first_line = dict(lines.values_list("object_pk").annotate(first=Min("timestamp")))
    made, before = [], None
    for version in versions.select_related("made_by", "response").order_by("response", "number").iterator(BATCH):
        if before is not None and before.response_id == version.response_id:
            changes = {
                name: [_plain(getattr(before, name)), _plain(getattr(version, name))]
                for name in FIELDS
                if getattr(before, name) != getattr(version, name)
            }
            key = str(version.response_id)
            # A line of the same change exists already, but for the phrasings.
            if key in first_line and version.made_at >= first_line[key]:
                changes = {name: change for name, change in changes.items() if name == "phrasings"}
            if changes:
                made.append(
                    line_model(
                        content_type=kind,
                        object_pk=key,
                        object_id=version.response_id,
                        object_repr=version.response.question[:200],
                        action=1,
                        changes=changes,
                        actor=version.made_by,
                        timestamp=version.made_at,
                        additional_data={
                            "origin": ORIGINS.get(version.how, "admin"),
                            "who": version.made_by.username if version.made_by else "",
                        },
                    )
                )
        before = version
    line_model.objects.using(alias).bulk_create(made, batch_size=BATCH)


class Migration(migrations.Migration):
    dependencies = [
        ("faqs", "0010_names"),
        ("auditlog", "0015_alter_logentry_changes"),
        ("contenttypes", "0002_remove_content_type_name"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(carry_over, migrations.RunPython.noop),
        migrations.DeleteModel(name="AnswerVersion"),
    ]
