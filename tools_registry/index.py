"""The index of tools: vectors of their effective texts in the database, and in the vector store for mode `external`.

A tool's vector is the sum of its texts' with fixed weights, measured on public data (`benchmarks/tools/README.md`).
"""

import hashlib
import logging
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from django.db import connection, transaction
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete

from agents import jobs
from agents.database import short_write
from agents.jobs import Held
from agents.models import Agent, Deployment, JobKind, RuntimeSettings
from agents.settings import ToolMode
from knowledge.embeddings.base import Embedder, Purpose, Recipe, Vectors, embedder
from knowledge.language.words import words
from knowledge.vectors.base import Point, batches, vector_store
from tools_registry.catalog import ToolList, all_tools, forget_recent
from tools_registry.models import ToolOverride, ToolSource, replace_tools_token
from tools_registry.tool import ToolSpec, registry

logger = logging.getLogger(__name__)

#: The name under which readers find the tools in the vector store.
EXTERNAL_ALIAS = "tools"
_FLOAT32 = np.dtype("<f4")
_POINT_NAMESPACE = uuid.UUID("5a7c0d8e-9a40-5f0e-8b8d-0f6d0f7a1c11")
_BATCH = 500
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class TextKind(StrEnum):
    """What a text of a tool is; stored with its vector."""

    DESCRIPTION = "description"
    NAME = "name"
    PARAMETERS = "parameters"
    EXAMPLE = "example"


#: What the texts of one kind weigh together in a tool's vector.
WEIGHTS = {TextKind.DESCRIPTION: 1.0, TextKind.NAME: 0.5, TextKind.PARAMETERS: 0.25, TextKind.EXAMPLE: 2.0}


@dataclass(frozen=True, slots=True)
class ToolText:
    kind: TextKind
    text: str


def texts_of(spec: ToolSpec) -> list[ToolText]:
    """Everything of a tool that is embedded, in a stable order."""
    texts = [ToolText(TextKind.NAME, " ".join([spoken_name(spec.name), *spec.keywords]))]
    if spec.description.strip():
        texts.insert(0, ToolText(TextKind.DESCRIPTION, spec.description))
    if described := parameter_text(spec):
        texts.append(ToolText(TextKind.PARAMETERS, described))
    texts.extend(ToolText(TextKind.EXAMPLE, example) for example in dict.fromkeys(spec.examples) if example.strip())
    return texts


def parameter_text(spec: ToolSpec) -> str:
    return ". ".join(
        f"{spoken_name(name)}: {inner['description']}"
        for name, inner in spec.properties.items()
        if isinstance(inner, dict) and isinstance(inner.get("description"), str)
    )


def spoken_name(name: str) -> str:
    """`MapTool_find-route` as words: "Map Tool find route"."""
    return " ".join(words(_CAMEL.sub(" ", name))) or name


def tool_vector(kinds: Sequence[TextKind], vectors: Vectors) -> Vectors:
    """The one vector of a tool from those of its texts."""
    counts = Counter(kinds)
    weights = np.array([WEIGHTS[kind] / counts[kind] for kind in kinds], dtype=np.float32)
    summed: Vectors = weights @ vectors
    norm = float(np.linalg.norm(summed))
    return summed / norm if norm else summed


def tool_vectors(texts: Sequence[Sequence[ToolText]], model: Embedder) -> Vectors:
    """The vector of each tool, a row each, from its texts."""
    flat = [text.text for found in texts for text in found]
    matrix = np.empty((len(texts), model.recipe.dimensions), dtype=_FLOAT32)
    if not flat:
        return matrix
    rows = model.embed(flat, purpose=Purpose.QUERY)  # compared with questions, as one question with another
    ends = np.cumsum([len(found) for found in texts])
    for position, (found, own) in enumerate(zip(texts, np.split(rows, ends[:-1]), strict=True)):
        matrix[position] = tool_vector([text.kind for text in found], own)
    return matrix


@dataclass(slots=True)
class ToolIndexReport:
    """`embedded` counts texts; `reused`, the tools whose vector was up to date."""

    tools: int = 0
    embedded: int = 0
    reused: int = 0
    removed: int = 0
    external: int | None = None
    changed: list[str] = field(default_factory=list)


def sync_index(*, external: bool | None = None) -> ToolIndexReport:
    """Index the effective texts of every tool. Raises `EmbeddingUnavailableError`; what was done stays."""
    ensure_overrides()
    tools = all_tools()
    model = embedder()
    stored = {row.tool_name: row for row in ToolOverride.objects.only("tool_name", "digest")}
    stale = [spec for spec in tools if stored[spec.name].digest != tool_digest(spec, model.recipe)]
    report = ToolIndexReport(tools=len(tools), reused=len(tools) - len(stale), changed=[spec.name for spec in stale])
    texts = [texts_of(spec) for spec in stale]
    report.embedded = sum(map(len, texts))
    rows = [
        ToolOverride(
            pk=stored[spec.name].pk,
            digest=tool_digest(spec, model.recipe),
            recipe=model.recipe.as_json(),
            vector=vector.tobytes(),
        )
        for spec, vector in zip(stale, tool_vectors(texts, model), strict=True)
    ]
    kept = {spec.name for spec in tools}
    gone = [row.pk for row in stored.values() if row.digest and row.tool_name not in kept]
    if rows or gone:
        with short_write():
            ToolOverride.objects.bulk_update(rows, ["digest", "recipe", "vector"], batch_size=100)
            ToolOverride.objects.filter(pk__in=gone).update(digest="", recipe=None, vector=None)
            replace_tools_token()
            transaction.on_commit(forget_recent)
    report.removed = len(gone)
    if external if external is not None else is_external_in_use():
        report.external = _sync_external(tools, model.recipe)
    return report


def ensure_overrides() -> None:
    """A row of `ToolOverride` for every tool of the code, so that staff find it; reading a source makes those of its."""
    known = set(ToolOverride.objects.values_list("tool_name", flat=True))
    missing = [spec for spec in registry if spec.name not in known]
    if missing:
        rows = [ToolOverride(tool_name=spec.name, is_active=not spec.is_optional) for spec in missing]
        ToolOverride.objects.bulk_create(rows, ignore_conflicts=True)


def tool_digest(spec: ToolSpec, recipe: Recipe) -> str:
    """What a tool's vectors depend on: its texts and the recipe."""
    parts = [f"{text.kind}\0{text.text}" for text in texts_of(spec)]
    return hashlib.sha256("\1".join([repr(recipe), *parts]).encode()).hexdigest()


def indexed_vectors(tools: ToolList, recipe: Recipe) -> tuple[dict[str, Vectors], list[str]]:
    """The vector of each tool that has one of this recipe, and the names of those that are missing or out of date."""
    wanted = recipe.as_json()
    vectors, current = {}, set()
    rows = ToolOverride.objects.exclude(digest="").values_list("tool_name", "digest", "recipe", "vector")
    for name, digest, stored_recipe, data in rows.iterator(chunk_size=_BATCH):
        spec = tools.named(name)
        if spec is None or stored_recipe != wanted:
            continue
        vectors[name] = np.frombuffer(data or b"", dtype=_FLOAT32)
        if digest == tool_digest(spec, recipe):
            current.add(name)
    return vectors, [spec.name for spec in tools if spec.name not in current]


def is_external_in_use() -> bool:
    """Whether any level (site, agent, deployment) chooses tools by the vector store."""
    return (
        RuntimeSettings.load().get("tool_mode") == ToolMode.EXTERNAL
        or Agent.objects.filter(settings__tool_mode=ToolMode.EXTERNAL).exists()
        or Deployment.objects.filter(config_overlay__tool_mode=ToolMode.EXTERNAL).exists()
    )


def _sync_external(tools: ToolList, recipe: Recipe) -> int:
    """Make the vector store hold exactly the indexed tools. One collection for each recipe, found by its alias."""
    store = vector_store()
    digest = hashlib.sha256(repr(recipe).encode()).hexdigest()[:8]
    collection = f"{EXTERNAL_ALIAS}_{digest}"
    store.ensure(collection, recipe)
    vectors, _missing = indexed_vectors(tools, recipe)
    points = {point_id(name): (name, vector) for name, vector in vectors.items()}
    present: dict[str, Vectors] = {point.id: point.vector for batch in store.scroll(collection) for point in batch}
    store.delete(collection, sorted(present.keys() - points.keys()))
    changed = [
        Point(key, vector, {"name": name})
        for key, (name, vector) in points.items()
        if key not in present or not np.allclose(present[key], vector, atol=1e-6)
    ]
    for batch in batches(changed, _BATCH):
        store.upsert(collection, batch)
    previous = store.resolve_alias(EXTERNAL_ALIAS)
    if previous != collection:
        store.point_alias(EXTERNAL_ALIAS, collection)
        if previous is not None:
            store.drop(previous)
    return len(points)


def point_id(name: str) -> str:
    return str(uuid.uuid5(_POINT_NAMESPACE, name))


#: The states of the tools for which this process has already asked.
_asked: set[str] = set()


def index_tools(_held: Held) -> None:
    sync_index()


def ask_for_index(state: str) -> None:
    """Have a worker update the index, once in this process for each state of the tools."""
    if state not in _asked:
        _asked.add(state)
        enqueue_index()


def enqueue_index() -> None:
    """Queue the indexing once for each transaction, however many rows it changes."""
    hooks: Iterable[tuple[Any, ...]] = connection.run_on_commit
    if not any(hook[1] is _enqueue for hook in hooks):
        transaction.on_commit(_enqueue)


def _enqueue() -> None:
    jobs.enqueue(JobKind.TOOLS, key=JobKind.TOOLS)


# Every change of what the catalogue is made of replaces its token in the same transaction, and is indexed after it.


def _touch(**_kwargs: Any) -> None:
    replace_tools_token()
    transaction.on_commit(forget_recent)
    enqueue_index()


for _model in (ToolOverride, ToolSource):
    post_save.connect(_touch, sender=_model, dispatch_uid=f"tools-{_model.__name__}-saved")
    post_delete.connect(_touch, sender=_model, dispatch_uid=f"tools-{_model.__name__}-deleted")
m2m_changed.connect(_touch, sender=ToolOverride.agents.through, dispatch_uid="tools-agents-changed")


def _retire_tools(instance: Agent, **_kwargs: Any) -> None:
    """Deactivate tools offered to the deleted agent only; without agents all agents would have them."""
    for override in ToolOverride.objects.filter(agents=instance):
        if override.agents.count() == 1:
            override.is_active = False
        override.save()


pre_delete.connect(_retire_tools, sender=Agent, dispatch_uid="tools-agent-deleted")
