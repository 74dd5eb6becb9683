"""What staff are told of workers and of upkeep, in words."""

from dataclasses import dataclass
from datetime import datetime

from django.utils import formats, timezone
from django.utils.translation import gettext, ngettext

from agents.models import Upkeep, Worker
from agents.processes.heartbeat import WorkerState
from agents.processes.upkeep import REAPING, RETENTION


@dataclass(frozen=True, slots=True)
class Background:
    """The work behind the pages. `alarm` is empty where all is well; `lines` say what lives, and what last ran."""

    alarm: str
    lines: tuple[str, ...]


def moment_text(moment: datetime) -> str:
    return formats.date_format(timezone.localtime(moment), "SHORT_DATETIME_FORMAT")


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


def missing_text(workers: WorkerState) -> str:
    """Of workers that are missing: since when."""
    if workers.seen_at is None:
        return gettext("Aucun worker n’a encore été vu : démarrez-en un.")
    return gettext("Aucun worker n’a été vu depuis %(since)s (%(moment)s) : démarrez-en un.") % {
        "since": duration_text(workers.seconds or 0.0),
        "moment": moment_text(workers.seen_at),
    }


def background(workers: WorkerState, waiting_seconds: float, patience: float) -> Background:
    """What the first page says. A site that never had a worker, and where nothing waits longer than `patience`, is no
    alarm.
    """
    is_waited_for = waiting_seconds > patience
    alarm = ""
    if workers.state == "silent" or (workers.state == "never" and is_waited_for):
        alarm = missing_text(workers)
        if is_waited_for:
            waited = gettext("Le plus ancien travail attend depuis %(since)s.")
            alarm = f"{alarm} {waited % {'since': duration_text(waiting_seconds)}}"
    runs = {row.name: row for row in Upkeep.objects.all()}
    upkeep = (_reaping_text(runs.get(REAPING)), _retention_text(runs.get(RETENTION)))
    lines = [*map(_worker_text, workers.alive), *upkeep]
    return Background(alarm, tuple(line for line in lines if line))


def _worker_text(worker: Worker) -> str:
    text = gettext("%(name)s (%(version)s), démarré le %(moment)s") % {
        "name": worker.name,
        "version": worker.version,
        "moment": moment_text(worker.started_at),
    }
    jobs = [f"{each['task']} {each['id']}".strip() + f" ({duration_text(each['seconds'])})" for each in worker.running]
    idle = gettext("rien à faire")
    return f"{text} : {', '.join(jobs) or idle}"


def _reaping_text(run: Upkeep | None) -> str:
    if run is None or run.finished_at is None:
        return ""
    text = gettext("Travaux abandonnés ou oubliés, cherchés le %(moment)s") % {"moment": moment_text(run.finished_at)}
    if run.acted_at is None:
        return f"{text}."
    found = gettext("trouvés le %(moment)s : %(done)s") % {"moment": moment_text(run.acted_at), "done": _counts(run)}
    return f"{text} ; {found}."


def _retention_text(run: Upkeep | None) -> str:
    if run is None or run.started_at is None:
        return ""
    if run.finished_at is None:
        text = gettext("Nettoyage en cours depuis le %(moment)s : %(done)s") % {
            "moment": moment_text(run.started_at),
            "done": _counts(run),
        }
    else:
        text = gettext("Dernier nettoyage le %(moment)s : %(done)s") % {
            "moment": moment_text(run.finished_at),
            "done": _counts(run),
        }
    if not run.failed:
        return f"{text}."
    failed = ngettext("%(count)d étape en échec", "%(count)d étapes en échec", len(run.failed))
    return f"{text} ; {failed % {'count': len(run.failed)}} ({', '.join(run.failed)})."


def _counts(run: Upkeep) -> str:
    return ", ".join(f"{name} {count}" for name, count in run.done.items()) or gettext("rien")
