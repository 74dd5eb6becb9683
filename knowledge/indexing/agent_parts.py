"""What an agent's file holds of this app: categories, documents as they were given, addresses of the web, decided
synonyms.

Passages are read from the documents anew. Documents of the web are fetched again from their addresses.
"""

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.errors import ApplicationError
from agents.models import Agent
from agents.staff.agent_files import AgentFileError, AgentPart, Originals, Taken
from knowledge.acronyms.stored import keys_of
from knowledge.indexing.jobs.queue import enqueue_documents
from knowledge.indexing.path import receive_file
from knowledge.models import Category, Document, Synonym, SynonymState, WebSource

_SOURCE = "url kind refresh_hours is_active".split()


def _category(name: object) -> Category | None:
    return Category.objects.get_or_create(name=str(name)[:200])[0] if name else None


def _dump_documents(agent: Agent, originals: Originals) -> list[dict[str, Any]]:
    rows = agent.documents.filter(page=None).exclude(file="").select_related("category")
    return [
        {
            "name": row.name,
            "title": row.title,
            "enabled": row.enabled,
            "category": row.category.name if row.category else "",
            "file": originals.add(_content(row)),
        }
        for row in rows.order_by("name")
    ]


def _content(document: Document) -> bytes:
    try:
        with document.file.open("rb") as file:
            data: bytes = file.read()
    except OSError as error:
        text = _("L’original du document « %(name)s » ne se lit pas : %(reason)s.")
        said = text % {"name": document.name, "reason": error.strerror or error}
        raise AgentFileError(f"document {document.pk}: {error}", public_message=said) from error
    return data


def _load_documents(agent: Agent, rows: list[dict[str, Any]], originals: Originals, taken: Taken, _by: Any) -> None:
    keys = []
    for row in rows:
        data = originals.read(row["file"])
        try:
            stored = receive_file(
                agent=agent,
                name=str(row["name"])[:500],
                size=len(data),
                read=lambda data=data: data,  # type: ignore[misc]
                category=_category(row["category"]),
            )
        except ApplicationError as error:
            taken.notices.append(f"{row['name']} : {error.public_message}")
            continue
        document = stored.document
        document.title, document.enabled = str(row["title"])[:500], bool(row["enabled"])
        document.save(update_fields=["title", "enabled"])
        keys.append(document.pk)
    if keys:
        enqueue_documents(agent=agent, document_ids=keys)


def _dump_sources(agent: Agent, _originals: Originals) -> list[dict[str, Any]]:
    rows = agent.web_sources.select_related("category").order_by("url")
    return [
        {**{name: getattr(row, name) for name in _SOURCE}, "category": row.category.name if row.category else ""}
        for row in rows
    ]


def _load_sources(agent: Agent, rows: list[dict[str, Any]], _originals: Originals, taken: Taken, _by: Any) -> None:
    with transaction.atomic():
        for row in rows:
            source = WebSource(agent=agent, **{name: row[name] for name in _SOURCE})
            source.category = _category(row["category"])
            source.full_clean()
            source.save()
    if rows:
        taken.notices.append(_("Les adresses du web sont lues à leur prochaine heure."))


def _dump_synonyms(agent: Agent, _originals: Originals) -> list[dict[str, Any]]:
    decided = agent.synonyms.exclude(state=SynonymState.FOUND)
    return [{"short": pair.short, "long": pair.long, "state": pair.state} for pair in decided.order_by("short", "long")]


def _load_synonyms(agent: Agent, rows: list[dict[str, Any]], _originals: Originals, _taken: Taken, _by: Any) -> None:
    with transaction.atomic():
        for row in rows:
            values = {name: row[name] for name in ("short", "long", "state")}
            restore_synonym(Synonym(agent=agent), values, None)


def restore_synonym(pair: Synonym, values: dict[str, Any], _by: Any) -> None:
    """Write what a file, or the journal, says of a pair; its keys follow its forms."""
    for name, value in values.items():
        setattr(pair, name, value)
    pair.short_key, pair.long_key = keys_of(pair.short, pair.long)
    pair.full_clean()
    pair.save()


PARTS = (
    AgentPart("synonyms", gettext_lazy("Sigles et synonymes"), _dump_synonyms, _load_synonyms),
    AgentPart("web_sources", gettext_lazy("Adresses du web"), _dump_sources, _load_sources),
    AgentPart("documents", gettext_lazy("Documents"), _dump_documents, _load_documents),
)
