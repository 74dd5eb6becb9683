"""What an agent's file holds of this app: validated answers with their other phrasings. The memory has files of its
own.
"""

from datetime import date
from typing import Any

from django.utils.translation import gettext_lazy

from agents.errors import ApplicationError
from agents.models import Agent
from agents.staff.agent_files import AgentPart, Originals, Taken
from faqs.answers.writing import save_learned
from faqs.models import LearnedResponse, WrittenHow

_COLUMNS = "kind question answer category status status_reason".split()


def _dump(agent: Agent, _originals: Originals) -> list[dict[str, Any]]:
    rows = agent.learned_responses.prefetch_related("phrasings").order_by("question", "pk")
    return [
        {
            **{name: getattr(row, name) for name in _COLUMNS},
            "review_date": row.review_date.isoformat() if row.review_date else None,
            "phrasings": sorted(phrasing.text for phrasing in row.phrasings.all()),
        }
        for row in rows
    ]


def _load(agent: Agent, rows: list[dict[str, Any]], _originals: Originals, taken: Taken, by: Any) -> None:
    for row in rows:
        response = LearnedResponse(agent=agent, **{name: row[name] for name in _COLUMNS})
        response.review_date = date.fromisoformat(row["review_date"]) if row["review_date"] else None
        response.owner_id = by.pk if by is not None else None
        response.clean_fields(exclude=["agent", "question_key", "owner", "answer"])
        try:
            save_learned(response, phrasings=row["phrasings"], how=WrittenHow.IMPORTED, by=by)
        except ApplicationError as error:
            taken.notices.append(f"{row['question'][:80]} : {error.public_message}")


PART = AgentPart("answers", gettext_lazy("Réponses validées"), _dump, _load)
