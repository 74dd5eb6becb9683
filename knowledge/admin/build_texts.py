"""Indexations in words: what one did, how fast it is, why it does not move, what a question would retrieve."""

from datetime import timedelta
from typing import Any

from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agents.admin_base import rounded
from knowledge.models import BuildStatus, IndexBuild

#: An indexation that nobody has taken for this long has probably no worker.
UNCLAIMED_AFTER = timedelta(seconds=60)

REPORT_LABELS = {
    "documents": _("documents"),
    "chunks": _("passages"),
    "points": _("points"),
    "embedded": _("vecteurs calculés"),
    "reused": _("vecteurs repris"),
    "model_calls": _("appels au modèle"),
    "prompt_tokens": _("tokens lus par le modèle"),
    "completion_tokens": _("tokens écrits par le modèle"),
    "rejected": _("questions écartées"),
    "waiting": _("en attente de questions"),
    "pages": _("pages lues"),
    "unchanged": _("pages inchangées"),
    "gone": _("pages disparues"),
    "seconds": _("secondes"),
}


def duration_text(seconds: float) -> str:
    """« 3 min 20 s »."""
    whole = max(0, round(seconds))
    if whole < 60:
        return gettext("%(seconds)d s") % {"seconds": whole}
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return gettext("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": rest}
    hours, minutes = divmod(minutes, 60)
    return gettext("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}


def retrieved_text(rows: list[dict[str, Any]] | None) -> SafeString | str:
    if rows is None:
        return gettext("L’index actuel ne peut pas être interrogé.")
    items = (
        (rounded(row["score"], 3), row["title"], row["question"] or row["excerpt"]) for row in rows
    )
    return format_html(
        '<ol class="rp-text">{}</ol>', format_html_join("", "<li>{} · {} · {}</li>", items)
    )


def _done_per_second(build: IndexBuild) -> float:
    """The rate since this phase began; zero where nothing can be said yet."""
    began = build.phase_started_at or build.started_at
    if build.status != BuildStatus.RUNNING or began is None or not build.done:
        return 0.0
    elapsed = (timezone.now() - began).total_seconds()
    return build.done / elapsed if elapsed > 0 else 0.0


def pace_text(build: IndexBuild) -> str:
    """« 14,4 par seconde, encore 4 min 21 s », or nothing."""
    rate = _done_per_second(build)
    if not rate:
        return ""
    left = duration_text((build.total - build.done) / rate)
    return gettext("%(rate)s par seconde, encore %(left)s") % {
        "rate": rounded(rate, 1),
        "left": left,
    }


def state_hint(build: IndexBuild) -> str:
    """What staff should know about an indexation that does not move."""
    now = timezone.now()
    if build.status == BuildStatus.QUEUED and build.not_before and build.not_before > now:
        return gettext("%(reason)s Nouvel essai à %(time)s.") % {
            "reason": f"{build.error}. " if build.error else "",
            "time": formats.time_format(timezone.localtime(build.not_before)),
        }
    if build.status == BuildStatus.QUEUED and now - build.created_at > UNCLAIMED_AFTER:
        return gettext("Elle attend un worker : vérifiez qu’il est démarré.")
    expired = build.lease_expires_at is not None and build.lease_expires_at < now
    if build.status == BuildStatus.RUNNING and expired:
        return gettext("Le worker ne donne plus signe de vie ; un autre va la reprendre.")
    return ""
