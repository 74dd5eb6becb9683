"""What an agent's file holds of this app: the sets of questions of reference of its deployments."""

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.models import Agent
from agents.staff.agent_files import AgentPart, Originals, Taken
from chat.models import GoldenSet, QuestionOrigin
from chat.staff.golden.expectations import fault_of
from chat.staff.golden.sets import add_questions

_COLUMNS = ("name", "language", "is_gate", "is_nightly")


def _dump(agent: Agent, _originals: Originals) -> list[dict[str, Any]]:
    sets = GoldenSet.objects.filter(deployment__agent=agent).select_related("deployment")
    return [
        {
            "deployment": each.deployment.slug,
            **{name: getattr(each, name) for name in _COLUMNS},
            "questions": [
                {"question": row.question, "note": row.note, **row.expected} for row in each.questions.order_by("key")
            ],
        }
        for each in sets.order_by("deployment__slug", "name").prefetch_related("questions")
    ]


def _load(agent: Agent, rows: list[dict[str, Any]], _originals: Originals, taken: Taken, _by: Any) -> None:
    """A set comes with its deployment; one whose name is taken is left."""
    deployments = {each.slug: each for each in agent.deployments.all()}
    for row in rows:
        deployment = deployments.get(str(row["deployment"]))
        if deployment is None or GoldenSet.objects.filter(name=row["name"]).exists():
            text = _("Le jeu de questions « %(name)s » est laissé : son nom ou son déploiement est pris.")
            taken.notices.append(text % {"name": row["name"]})
            continue
        made = GoldenSet(deployment=deployment, **{name: row[name] for name in _COLUMNS})
        made.full_clean()
        made.save()
        readable = [each for each in row["questions"] if not fault_of(each)]
        add_questions(made, readable, QuestionOrigin.FILE)


PART = AgentPart("golden", gettext_lazy("Questions de référence"), _dump, _load)
