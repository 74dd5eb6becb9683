"""The memory as a SQLite file with exactly the table of seed 000, section 3; what has no column there is in `metadata`.

Nothing is believed on the way in: a vector is taken over only from the model in use, and an entry whose passages are
not here as they were waits for staff. One of another program that names a phase or a project answers inside it only.
"""

import json
import sqlite3
from array import array
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from django.db.models import QuerySet
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from agents.errors import ApplicationError
from agents.models import Deployment
from agents.texts import read_json, storable
from faqs.learning import MEMORY_MAX_ANSWER_CHARACTERS, MEMORY_MAX_QUESTION_CHARACTERS, NOT_VALID, personal_data
from faqs.memory import PHASE, Scope, current_audience, find_entry, new_entry, recipe_key, write_entry
from faqs.models import CachedResponse, EntryStatus, LearnedResponse, StatusReason
from faqs.origins import origins_of
from faqs.precedence import valid_answer
from knowledge.embeddings.base import Embedder, Purpose, embedder
from knowledge.vectors.base import Vector

SCHEMA = """
CREATE TABLE responses (
    id INTEGER PRIMARY KEY,
    key_hash TEXT,
    question TEXT,
    answer TEXT,
    metadata TEXT,
    embedding BLOB,
    created_at TEXT,
    usage_count INTEGER
);
CREATE INDEX idx_responses_key_hash ON responses(key_hash);
CREATE INDEX idx_responses_created_at ON responses(created_at);
"""
_COLUMNS = "id, question, answer, metadata, embedding, created_at, usage_count"
#: Columns of ours that travel in the metadata, apart from the seed's own keys.
_OURS = "repondant"
_UNIT_SLACK = 1e-4
_KNOWN = frozenset({"phase", "project", "authors", "initial_score", "tags", _OURS})


class MemoryFileError(ApplicationError):
    """A file of the memory that cannot be read or written; `public_message` says which and why."""

    code = "memory_file"


@dataclass(slots=True)
class ImportReport:
    imported: int = 0
    to_review: int = 0
    #: Set aside, as a validated answer asks the same.
    answered: int = 0
    embedded: int = 0
    unchanged: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list)


def export_memory(entries: "QuerySet[CachedResponse]", path: Path) -> int:
    """Write entries to a new file, which takes the place of one that is there once it is complete."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        with closing(sqlite3.connect(partial)) as file:
            file.executescript(SCHEMA)
            rows = entries.order_by("pk").iterator(chunk_size=1_000)
            with file:
                count = file.executemany(
                    "INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?)", map(_exported, rows)
                ).rowcount
        partial.replace(path)
    except (OSError, sqlite3.Error) as error:
        raise MemoryFileError(
            f"{path}: {error}", public_message=_("Le fichier %(path)s ne peut pas être écrit.") % {"path": path}
        ) from error
    return max(count, 0)


def _exported(entry: CachedResponse) -> tuple[Any, ...]:
    ours = {
        "status": entry.status,
        "embedding_model": entry.embedding_model,
        "recipe": entry.recipe_key,
        "language": entry.language,
        "sources": entry.sources,
        "is_scoped": entry.is_scoped,
    }
    return (
        entry.pk,
        entry.key_hash,
        entry.question,
        entry.answer,
        json.dumps({**entry.metadata, _OURS: ours}, ensure_ascii=False),
        array("f", np.frombuffer(entry.embedding, dtype="<f4").tolist()).tobytes(),
        entry.created_at.astimezone(UTC).isoformat(),
        entry.usage_count,
    )


def import_memory(deployment: Deployment, path: Path, *, to_review: bool) -> ImportReport:
    """Add a file's entries to a deployment's memory; a row that cannot be one is skipped with its reason."""
    report = ImportReport()
    audience = current_audience(deployment)
    for number, raw in _rows(path):
        try:
            _import_row(_checked(raw), deployment, audience, report, to_review=to_review)
        except ValueError as error:
            report.skipped.append({"item": str(number), "reason": str(error)})
    return report


def _rows(path: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
    if not path.is_file():
        raise MemoryFileError(
            f"{path} is not a file", public_message=_("Le fichier %(path)s n’existe pas.") % {"path": path}
        )
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            for row in file.execute(f"SELECT {_COLUMNS} FROM responses ORDER BY id"):  # noqa: S608
                yield row[0], row[1:]
    except sqlite3.Error as error:
        raise MemoryFileError(
            f"{path}: {error}",
            public_message=_("%(path)s n’est pas un fichier SQLite avec une table « responses ».") % {"path": path},
        ) from error


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a file, checked. `ours`: what a file of this program adds to the metadata."""

    question: str
    answer: str
    metadata: Mapping[str, Any]
    ours: Mapping[str, Any]
    embedding: bytes
    created_at: datetime
    usage_count: int


def _checked(raw: tuple[Any, ...]) -> _Row:
    """Raises `ValueError` with what is wrong."""
    question, answer, metadata, embedding, created_at, usage_count = raw
    if not isinstance(question, str) or not question.strip():
        raise ValueError(_("la question est vide"))
    if not isinstance(answer, str) or not answer.strip():
        raise ValueError(_("la réponse est vide"))
    if len(question) > MEMORY_MAX_QUESTION_CHARACTERS:
        raise ValueError(_("la question est trop longue"))
    if len(answer) > MEMORY_MAX_ANSWER_CHARACTERS:
        raise ValueError(_("la réponse est trop longue"))
    if NOT_VALID in answer.casefold():
        raise ValueError(_("la réponse est marquée <non valide>"))
    if personal_data(question):
        raise ValueError(_("la question contient des données personnelles"))
    found = _metadata(metadata)
    ours = found.get(_OURS)
    return _Row(
        question=storable(question).strip(),
        answer=storable(answer).strip(),
        metadata=found,
        ours=ours if isinstance(ours, dict) else {},
        embedding=embedding if isinstance(embedding, bytes) else b"",
        created_at=_moment(created_at),
        usage_count=usage_count if isinstance(usage_count, int) and usage_count > 0 else 0,
    )


def _metadata(text: Any) -> Mapping[str, Any]:
    try:
        found = read_json(text) if text else {}
    except (TypeError, ValueError) as error:
        raise ValueError(_("les métadonnées ne sont pas du JSON")) from error
    if not isinstance(found, dict):
        raise ValueError(_("les métadonnées ne sont pas un objet JSON"))
    return found


def _moment(text: Any) -> datetime:
    try:
        found = parse_datetime(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    if found is None:
        raise ValueError(_("la date « created_at » n’est pas au format ISO 8601"))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _import_row(row: _Row, deployment: Deployment, audience: str, report: ImportReport, *, to_review: bool) -> None:
    """Store a row as an entry: whether it answers at once, for whom, and with which vector."""
    model = embedder()
    vector = _vector(row, model)
    if vector is None:
        vector = model.embed_one(row.question, purpose=Purpose.QUERY)
        report.embedded += 1
    found = row.ours.get("sources")
    sources = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    # None where the passages are not here as they were.
    origins = origins_of(sources)
    # What a file has learned does not stand over what staff validated here.
    answer = valid_answer(deployment, row.question)
    status, reason = _status(row, waits=to_review or origins is None, answer=answer)
    scope, is_scoped = _scope(row, deployment)
    entry = new_entry(
        deployment_id=deployment.pk,
        audience=audience,
        question=row.question,
        answer=row.answer,
        vector=vector,
        recipe=model.recipe,
        phase=scope.phase,
        project=scope.project,
        status=status,
        status_reason=reason,
        language=str(row.ours.get("language") or "")[:10],
        authors=_texts(row.metadata.get("authors")),
        initial_score=_number(row.metadata.get("initial_score")),
        tags=_texts(row.metadata.get("tags")),
        extra={key: value for key, value in row.metadata.items() if key not in _KNOWN},
        sources=sources if origins is not None else [],
        created_at=row.created_at,
        usage_count=row.usage_count,
        is_scoped=is_scoped,
        superseded_by=answer,
    )
    existing = find_entry(entry)
    if existing is not None:
        if (existing.metadata.get("phase"), existing.metadata.get("project")) != (scope.phase, scope.project):
            raise ValueError(_("une autre phase ou un autre projet a la même clé"))
        if existing.created_at >= entry.created_at:
            report.unchanged += 1
            return
    write_entry(entry, origins or [])
    report.imported += 1
    report.answered += answer is not None
    report.to_review += status == EntryStatus.TO_REVIEW


def _status(row: _Row, *, waits: bool, answer: LearnedResponse | None) -> tuple[EntryStatus, StatusReason | str]:
    """Whether a row answers, and why not."""
    if answer is not None:
        return EntryStatus.OBSOLETE, StatusReason.SUPERSEDED
    if waits:
        return EntryStatus.TO_REVIEW, StatusReason.IMPORTED
    found = row.ours.get("status", EntryStatus.VALID.value)
    status = EntryStatus(found) if found in EntryStatus.values else EntryStatus.TO_REVIEW
    return status, "" if status == EntryStatus.VALID else StatusReason.CHUNK_CHANGED


def _scope(row: _Row, deployment: Deployment) -> tuple[Scope, bool]:
    """Return the scope of an entry, and whether it answers only there: by our flag, or by what a foreign file names."""
    named = row.metadata.get("project") or row.metadata.get("projet")
    phase, project = (str(name or "").strip() for name in (row.metadata.get("phase"), named))
    own = deployment.slug
    scope = Scope(phase or PHASE, project or own)
    if not row.ours and scope != Scope(PHASE, own):
        return scope, True
    return Scope(phase, project or own), row.ours.get("is_scoped") is True


def _vector(row: _Row, model: Embedder) -> Vector | None:
    """The file's vector, where it comes from the model in use."""
    if row.ours.get("recipe") != recipe_key(model.recipe):
        return None
    if len(row.embedding) != 4 * model.recipe.dimensions:
        return None
    vector: Vector = np.frombuffer(row.embedding, dtype=np.float32)
    # Ours have unit length and come back bit by bit; one that has not is no vector of the recipe.
    return vector if abs(float(np.linalg.norm(vector)) - 1) < _UNIT_SLACK else None


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(each) for each in value] if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number else None
