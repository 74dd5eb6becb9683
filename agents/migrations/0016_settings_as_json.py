"""Settings move from a column each into one JSON column of their level: what differs from the default, by name."""

from decimal import Decimal

import agents.settings
from django.db import migrations, models

#: Settings of the site and of agents, and of the site alone.
SHARED = (
    "api_source_lines category_use clarification clarification_band clarification_margin contact "
    "context_exchanges context_messages courtesies direct_answer_threshold direct_answers dispatch_margin "
    "extractive_passages generate_questions generate_titles gone_page_checks guard_rail_message "
    "guard_rail_threshold history_messages llm_model match_count match_threshold max_answer_tokens max_rounds "
    "max_tool_calls memory memory_auto_prune memory_learning memory_max_age_days memory_threshold "
    "page_refresh_hours presentation record_unanswered rewrite_follow_ups saturation shadow_mode "
    "show_cited_pages summarise_exchanges system_prompt temperature tool_mode tool_recent_calls tool_threshold "
    "tool_top_k tools_enabled unanswered_threshold verify_answers withhold_stale_answers"
).split()
SITE_ONLY = (
    "asks_per_minute_address asks_per_minute_key asks_per_minute_user completion_price prompt_price "
    "question_calls_per_day sign_ins_per_minute"
).split()


def _stored(value):
    return str(value) if isinstance(value, Decimal) else value


def carry_over(apps, schema_editor):
    alias = schema_editor.connection.alias
    for agent in apps.get_model("agents", "Agent").objects.using(alias):
        found = {name: getattr(agent, name) for name in SHARED}
        agent.settings = {name: value for name, value in found.items() if value not in (None, "")}
        agent.save(update_fields=["settings"])
    model = apps.get_model("agents", "RuntimeSettings")
    for site in model.objects.using(alias):
        found = {name: getattr(site, name) for name in (*SHARED, *SITE_ONLY)}
        site.values = {
            name: _stored(value)
            for name, value in found.items()
            if value not in (None, "") and value != model._meta.get_field(name).get_default()
        }
        site.save(update_fields=["values"])


class Migration(migrations.Migration):
    dependencies = [("agents", "0015_jobs")]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="settings",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text="Réglages qui l’emportent sur ceux du site.",
                validators=[agents.settings.validate_settings],
                verbose_name="réglages",
            ),
        ),
        migrations.AddField(
            model_name="runtimesettings",
            name="values",
            field=models.JSONField(
                blank=True, default=dict, validators=[agents.settings.validate_settings], verbose_name="réglages"
            ),
        ),
        migrations.RunPython(carry_over, migrations.RunPython.noop),
        *(migrations.RemoveField(model_name="agent", name=name) for name in SHARED),
        *(migrations.RemoveField(model_name="runtimesettings", name=name) for name in (*SHARED, *SITE_ONLY)),
    ]
