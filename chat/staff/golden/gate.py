"""Sets marked as gates: what passed with what serves and fails with what is tried keeps it from going live.

A gate that has not looked yet begins to, and says so. Whoever has the right lets a run pass all the same, with a
reason.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Model, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.models import Agent, Deployment, IndexingMethod
from chat.models import GoldenResult, GoldenRun, GoldenSet, RunKind, RunStatus
from chat.staff.golden.paper import level_of, settings_on
from chat.staff.golden.runs import enqueue_run
from knowledge.indexing.jobs.queue import BuildGate
from knowledge.models import IndexBuild

#: Questions named where a gate says what stopped it.
_NAMED = 3


def guards_index(agent: Agent, method: IndexingMethod) -> bool:
    return bool(_gates_of_index(agent, method))


def look_at_build(build: IndexBuild) -> str:
    """Why a staged index may not go live; empty: it may."""
    gates = _gates_of_index(build.agent, IndexingMethod(build.method))
    return _joined(_refusal(_run_of(each, RunKind.BUILD, build=build)) for each in gates)


BUILD_GATE = BuildGate(guards=guards_index, look=look_at_build)


def _gates_of_index(agent: Agent, method: IndexingMethod) -> list[GoldenSet]:
    gates = _gates(_of_agent(agent))
    return [each for each in gates if each.deployment.method_of(agent) == method]


def look_at_settings(target: Model, changes: Mapping[str, Any]) -> str:
    """Why settings may not be saved on this row; empty: they may."""
    level, reasons = level_of(target), []
    for each in _gates(_reached(target)):
        if settings_on(each.deployment, level, changes):
            of = {"level": level, "target_id": target.pk, "changes": dict(changes)}
            reasons.append(_refusal(_run_of(each, RunKind.SETTINGS, **of)))
    return _joined(reasons)


def _reached(target: Model) -> Q:
    if isinstance(target, Deployment):
        return Q(deployment=target)
    if isinstance(target, Agent):
        return _of_agent(target)
    return Q()


def _of_agent(agent: Agent) -> Q:
    return Q(deployment__agent=agent) | Q(deployment__specialists__agent=agent)


def _gates(reached: Q) -> list[GoldenSet]:
    sets = GoldenSet.objects.filter(reached, is_gate=True, questions__isnull=False)
    return list(sets.select_related("deployment__agent").distinct())


def _run_of(golden_set: GoldenSet, kind: RunKind, **of: Any) -> GoldenRun:
    """The last run of this matter that still says something, or a new one."""
    since = golden_set.changed_at
    if kind == RunKind.BUILD:
        # One that was given up may have been filled again since.
        filled = IndexBuild.objects.values_list("finished_at", flat=True).get(pk=of["build"].pk)
        since = max(since, filled or since)
    runs = GoldenRun.objects.filter(golden_set=golden_set, kind=kind, **of)
    runs = runs.filter(created_at__gte=since).exclude(status=RunStatus.CANCELLED)
    if kind == RunKind.SETTINGS:
        young = timezone.now() - timedelta(hours=settings.GOLDEN_GATE_HOURS)
        runs = runs.filter(created_at__gte=young, applied_at=None)
    return runs.first() or enqueue_run(golden_set, kind, since=since, **of)


def worse_results(run: GoldenRun) -> list[GoldenResult]:
    """Of a run that is over: what passed and would fail. Where what serves could not be asked, as after a change of the
    embedding model, its last run counts.
    """
    results = list(run.results.all())
    lost = [each for each in results if each.before and each.before["error"] and not each.has_passed]
    passed: set[str] = set()
    if lost and run.golden_set_id:
        kinds = (RunKind.SET, RunKind.NIGHTLY)
        earlier = GoldenRun.objects.filter(golden_set=run.golden_set_id, kind__in=kinds, pk__lt=run.pk)
        if (last := earlier.filter(status=RunStatus.DONE).first()) is not None:
            passed = {each.question for each in last.results.all() if each.has_passed}
    return [each for each in results if each.is_worse or (each in lost and each.question in passed)]


def _refusal(run: GoldenRun) -> str:
    run.refresh_from_db()  # a worker in this very process may have been quick
    if run.override_reason:
        return ""
    address = reverse("admin:chat_goldenrun_change", args=[run.pk])
    if not run.is_over:
        said = _("Le contrôle « %(set)s » est en cours : recommencez quand il sera fini.")
        return _linked(said % {"set": run.golden_set}, address)
    if run.status == RunStatus.FAILED:
        # It says nothing of what is tried: another looks.
        _again(run)
        said = _("Le contrôle « %(set)s » a échoué (%(error)s) et recommence.")
        return _linked(said % {"set": run.golden_set, "error": run.error}, address)
    worse = worse_results(run)
    if not worse:
        return ""
    said = ngettext(
        "Le contrôle « %(set)s » l’arrête : %(count)d question réussie aujourd’hui échouerait (%(named)s).",
        "Le contrôle « %(set)s » l’arrête : %(count)d questions réussies aujourd’hui échoueraient (%(named)s).",
        len(worse),
    )
    named = " ; ".join(each.question[:100] for each in worse[:_NAMED])
    return _linked(said % {"set": run.golden_set, "count": len(worse), "named": named}, address)


def _again(run: GoldenRun) -> None:
    if run.golden_set is not None:
        of = {name: getattr(run, name) for name in ("build", "level", "target_id", "changes")}
        enqueue_run(run.golden_set, RunKind(run.kind), **of)


def _linked(text: str, address: str) -> SafeString:
    return format_html('{} <a href="{}" class="text-link underline">{}</a>', text, address, _("Voir le contrôle"))


def _joined(reasons: Iterable[str]) -> str:
    found = [reason for reason in reasons if reason]
    return format_html("{} {}", found[0], _joined(found[1:])) if found else ""


def let_pass(run: GoldenRun, by: AbstractBaseUser | None, reason: str) -> None:
    GoldenRun.objects.filter(pk=run.pk).update(overridden_by=by, override_reason=reason[:500])
