"""The built-in tools: search the knowledge, date and time."""

import zoneinfo
from typing import Annotated

from django.conf import settings
from django.utils import timezone, translation
from django.utils.formats import date_format
from pydantic import Field

from agents.effective import current_config
from agents.models import Deployment
from knowledge.embeddings.base import Purpose, Vectors, embedder
from knowledge.search import SearchResult, confirm_passages, search
from knowledge.vectors.base import Query, collection_alias, vector_store
from tools_registry.errors import ToolReportedError
from tools_registry.tool import NextStep, ToolContext, tool

#: Characters of a passage that a search gives to the model.
_PASSAGE_CHARACTERS = 2_000


@tool(keywords=("documents", "connaissances", "rechercher"), uses_database=True, optional=True)
def search_knowledge(
    query: Annotated[str, Field(min_length=2, max_length=1_000)],
    context: ToolContext,
    limit: Annotated[int, Field(ge=1, le=10)] = 5,
) -> NextStep:
    """Search the documents and validated answers of this desk for passages about a subject.

    Use it when the passages already given do not answer the question, with other words or about one part of it.

    Args:
        query: what to look for, as a question or a few words that stand alone.
        limit: how many passages to return, from 1 to 10.
    """
    try:
        config = current_config(context.deployment_id or 0)
    except Deployment.DoesNotExist as error:
        raise ToolReportedError("There is no knowledge to search here.") from error
    model = embedder()

    def nearest(vector: Vectors) -> SearchResult:
        return search(
            collection_alias(config.agent.slug, config.indexing_method),
            Query(vector, model.recipe, query),
            limit=limit,
            min_score=config.match_threshold,
        )

    def confirmed(found: SearchResult) -> list[dict[str, object]]:
        # A greeting that staff wrote an answer to is no knowledge.
        hits = confirm_passages(found, agent_id=config.agent.pk).passages(limit)
        return [
            {
                "title": passage.title,
                "context": passage.parent_context,
                "question": passage.question,
                "text": passage.content[:_PASSAGE_CHARACTERS],
                "score": round(passage.score, 3),
            }
            for passage in hits
            if not passage.is_courtesy
        ]

    def embedded() -> NextStep:
        vector = model.embed_one(query, purpose=Purpose.QUERY)
        if vector_store().uses_database:
            return NextStep(lambda: confirmed(nearest(vector)), uses_database=True)
        found = nearest(vector)
        return NextStep(lambda: confirmed(found), uses_database=True)

    return NextStep(embedded)


@tool(keywords=("heure", "jour", "aujourd'hui", "date"), optional=True)
def current_date_and_time(context: ToolContext, time_zone: Annotated[str, Field(max_length=60)] = "") -> dict[str, str]:
    """Tell the current date, time and day of the week.

    Args:
        time_zone: a name such as "Europe/Paris"; the desk's own time zone when left out.
    """
    try:
        zone = zoneinfo.ZoneInfo(time_zone or settings.TIME_ZONE)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ToolReportedError(f"There is no time zone {time_zone!r}.") from error
    now = timezone.now().astimezone(zone)
    with translation.override(context.language):
        return {"now": now.isoformat(timespec="seconds"), "day": date_format(now, "l j F Y"), "time_zone": zone.key}
