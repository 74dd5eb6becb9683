"""The memory: how its entries are identified, every write to `responses`, and the array by which they are found.

A write holds the lock of its deployment's memory and gives the rows it changes its next version: who reads what is
above version n misses nothing. Only the usage counter (`faqs.recall`) changes without one. The arrays of a process
follow the versions (`knowledge.vectors.matrix`); whether a near entry is served is decided on its row (`faqs.recall`).
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import MD5
from django.utils import timezone

from agents.database import short_write
from agents.effective import EffectiveConfig, effective_config
from agents.models import Audience, Deployment
from faqs.models import CachedResponse, DeploymentMemory, EntryStatus, LearnedResponse, Origin, StatusReason, WrongPair
from faqs.origins import accept_origins, keep_origins, stale_entries
from knowledge.embeddings.base import Purpose, Recipe, embedder
from knowledge.language.words import fold_keeping_accents
from knowledge.models import Chunk
from knowledge.thresholds import threshold_profile
from knowledge.vectors.base import Vector, batches
from knowledge.vectors.matrix import Followed, FollowedCollections, Uncommitted

_CLOSING = " ?!.…\u00a0\u202f"
_GROUPS = f"{Audience.GROUPS.value}:"

#: The phase of what the desk learns by itself: the answer is a summary of passages.
PHASE = "summary"


@dataclass(frozen=True, slots=True)
class Scope:
    """The phase and the project (seed 000, section 3) that a conversation names.

    An answer learned in a scope is given in that scope only, and no other answer is given there. A scope is no access
    control: the audience decides who may ask.
    """

    phase: str
    project: str


def normalised_question(question: str) -> str:
    """The question without case, spaces and closing punctuation; accents stay (« ou », « où »)."""
    return " ".join(fold_keeping_accents(question).split()).rstrip(_CLOSING)


def key_hash(*, phase: str, project: str, question: str) -> str:
    """SHA-256 of phase, project and normalised question (seed 000, section 3)."""
    return hashlib.sha256(f"{phase}{project}{normalised_question(question)}".encode()).hexdigest()


def question_hash(question: str) -> str:
    return hashlib.sha256(normalised_question(question).encode()).hexdigest()


def answer_digest(answer: str) -> str:
    """The MD5 of an answer, as SQL computes it to compare an answer with the reported one."""
    return hashlib.md5(answer.encode(), usedforsecurity=False).hexdigest()


@lru_cache(maxsize=64)
def recipe_key(recipe: Recipe) -> str:
    """Vectors with the same key are comparable."""
    text = json.dumps(recipe.as_json(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def audience_key(audience: str, group_ids: Iterable[int] = ()) -> str:
    """`public`, `signed_in`, or `groups:3,7`."""
    if audience != Audience.GROUPS:
        return str(audience)
    return _GROUPS + ",".join(str(pk) for pk in sorted(group_ids))


def may_answer(entry_audience: str, current_audience: str) -> bool:
    """Whether everybody who can ask now belonged to the audience that the entry was learned for."""
    if entry_audience == Audience.PUBLIC or entry_audience == current_audience:
        return True
    if not current_audience.startswith(_GROUPS):
        return False
    if entry_audience == Audience.SIGNED_IN:
        return True
    return entry_audience.startswith(_GROUPS) and _groups(current_audience) <= _groups(entry_audience)


def _groups(audience: str) -> set[str]:
    return {pk for pk in audience.removeprefix(_GROUPS).split(",") if pk}


#: Ids in one `IN (…)`, below SQLite's oldest limit on variables.
ID_BATCH = 500


def new_entry(
    *,
    question: str,
    vector: Vector,
    recipe: Recipe,
    phase: str,
    project: str,
    authors: Sequence[str] = (),
    initial_score: float | None = None,
    tags: Sequence[str] = (),
    extra: Mapping[str, Any] | None = None,
    **columns: Any,
) -> CachedResponse:
    """Return an entry that is not stored yet; `vector` has unit length, `columns` are those of the row as they are."""
    return CachedResponse(
        key_hash=key_hash(phase=phase, project=project, question=question),
        question=question,
        embedding=vector.astype("<f4").tobytes(),
        embedding_model=recipe.model,
        recipe_key=recipe_key(recipe),
        metadata={
            **(extra or {}),
            "phase": phase,
            "project": project,
            "authors": list(authors),
            "initial_score": initial_score,
            "tags": list(tags),
        },
        **columns,
    )


@contextmanager
def holding_memory(deployment_id: int) -> Iterator[DeploymentMemory]:
    """A transaction in which nobody else writes to the memory."""
    with short_write():
        yield DeploymentMemory.objects.select_for_update().get_or_create(pk=deployment_id)[0]


@contextmanager
def writing(deployment_id: int) -> Iterator[DeploymentMemory]:
    """A transaction that holds the memory's lock; the row it gives carries the version to write."""
    with holding_memory(deployment_id) as memory, writing_to(memory):
        yield memory


@contextmanager
def writing_to(memory: DeploymentMemory) -> Iterator[None]:
    """Writes within the block get the next version of a memory whose lock is held."""
    memory.version += 1
    Uncommitted.mark(memory.uuid)
    yield
    held = DeploymentMemory.objects.filter(pk=memory.pk)
    held.update(version=memory.version, purged_version=memory.purged_version)


def find_entry(entry: CachedResponse) -> CachedResponse | None:
    """Return the stored entry of the same scope and key."""
    scope = {name: getattr(entry, name) for name in ("deployment_id", "audience", "key_hash")}
    return CachedResponse.objects.filter(**scope).first()


def write_entry(entry: CachedResponse, origins: Sequence[Origin] = ()) -> CachedResponse:
    """Store an entry; one with the same scope and key is replaced, and keeps its uses."""
    with holding_memory(entry.deployment_id) as memory:
        return put_entry(entry, origins, find_entry(entry), memory)


def put_entry(
    entry: CachedResponse, origins: Sequence[Origin], existing: CachedResponse | None, memory: DeploymentMemory
) -> CachedResponse:
    """Store an entry over `existing` (`find_entry`), with the memory's lock held."""
    with writing_to(memory):
        entry.confirmed_at, entry.version = entry.created_at, memory.version
        if existing is not None:
            entry.pk, entry.usage_count = existing.pk, entry.usage_count or existing.usage_count
            Origin.objects.filter(entry=existing).delete()
        entry.save()
        keep_origins(entry.pk, origins)
    return entry


def edit_entry(entry: CachedResponse) -> None:
    """Store staff's changes to an entry; a changed question gets a new vector and key."""
    stored = CachedResponse.objects.only("question", "answer").get(pk=entry.pk)
    is_corrected = (stored.question, stored.answer) != (entry.question, entry.answer)
    model = embedder()
    if stored.question != entry.question or entry.recipe_key != recipe_key(model.recipe):
        _embed(entry)
        entry.key_hash = key_hash(
            phase=str(entry.metadata.get("phase", "")),
            project=str(entry.metadata.get("project", "")),
            question=entry.question,
        )
    if is_corrected and entry.status == EntryStatus.VALID:
        # A person's word of now.
        entry.validated_at, entry.superseded_by = timezone.now(), None
    with writing(entry.deployment_id) as memory:
        entry.version = memory.version
        # The counter belongs to the lookups that go on meanwhile.
        names = [f.name for f in CachedResponse._meta.concrete_fields if f.name != "usage_count"]
        entry.save(update_fields=[name for name in names if name != "id"])


def restore_entry(entry: CachedResponse, values: dict[str, Any], _by: Any) -> None:
    """Store values of the journal."""
    for name, value in values.items():
        setattr(entry, name, value)
    edit_entry(entry)


def validate_entries(entries: QuerySet[CachedResponse]) -> int:
    """Validate entries as they are: served from now on, with their age counted from now."""
    current = recipe_key(embedder().recipe)
    foreign = [entry for entry in entries if entry.recipe_key != current]
    for entry in foreign:
        _embed(entry)
    today, now = timezone.localdate(), timezone.now()
    count = 0
    for deployment_id, keys in _by_deployment(entries):
        with writing(deployment_id) as memory:
            accept_origins(entries=keys)
            for entry in foreign:
                if entry.deployment_id == deployment_id:
                    entry.save(update_fields=["embedding", "embedding_model", "recipe_key"])
            chosen = CachedResponse.objects.filter(pk__in=keys)
            chosen.filter(review_on__lt=today).update(review_on=None)
            count += chosen.update(
                status=EntryStatus.VALID,
                status_reason="",
                status_note="",
                confirmed_at=now,
                validated_at=now,
                superseded_by=None,
                version=memory.version,
            )
    return count


def set_status(
    entries: QuerySet[CachedResponse],
    status: EntryStatus,
    reason: StatusReason,
    *,
    note: str = "",
    superseded_by: LearnedResponse | None = None,
) -> int:
    """Make entries obsolete or to review, with the reason; returns how many changed their status."""
    count = 0
    for deployment_id, keys in _by_deployment(entries.exclude(status=status)):
        with writing(deployment_id) as memory:
            # With the memory held, the condition is asked again: a person may have vouched for one meanwhile.
            still = entries.exclude(status=status).filter(pk__in=keys).values_list("pk", flat=True)
            count += CachedResponse.objects.filter(pk__in=list(still)).update(
                status=status,
                status_reason=reason,
                status_note=note,
                superseded_by=superseded_by,
                version=memory.version,
            )
    return count


def review_stale(chunk_ids: Iterable[int] | None = None, learned_ids: Iterable[int] | None = None) -> int:
    """Send valid entries with a changed or deleted origin to *to review*."""
    stale = stale_entries(chunk_ids, learned_ids).filter(status=EntryStatus.VALID)
    return set_status(stale, EntryStatus.TO_REVIEW, StatusReason.CHUNK_CHANGED)


def agents_of(deployment: Deployment) -> list[int]:
    """The agents that a deployment offers, the default one first."""
    return [deployment.agent_id, *deployment.specialists.values_list("agent", flat=True)]


def review_other_agents(deployment: Deployment) -> int:
    """Move the valid entries from passages of an agent that this deployment no longer offers to *to review*."""
    offered = agents_of(deployment)
    chunks = Chunk.objects.exclude(document__agent__in=offered)
    answers = LearnedResponse.objects.exclude(agent__in=offered)
    foreign = Origin.objects.filter(Q(chunk__in=chunks) | Q(learned__in=answers), entry__deployment=deployment)
    entries = CachedResponse.objects.filter(pk__in=foreign.values("entry_id"), status=EntryStatus.VALID)
    return set_status(entries, EntryStatus.TO_REVIEW, StatusReason.AGENT_CHANGED)


def review_overdue() -> int:
    """Move the valid entries whose review date has passed to *to review*."""
    due = CachedResponse.objects.filter(status=EntryStatus.VALID, review_on__lt=timezone.localdate())
    return set_status(due, EntryStatus.TO_REVIEW, StatusReason.REVIEW_DUE)


def delete_entries(entries: QuerySet[CachedResponse]) -> int:
    """Delete entries for good, in one write a deployment."""
    count = 0
    for deployment_id, keys in _by_deployment(entries):
        with writing(deployment_id) as memory:
            memory.purged_version = memory.version
            Origin.objects.filter(entry__in=keys).delete()
            LearnedResponse.objects.filter(superseded_by_entry__in=keys).update(superseded_by_entry=None)
            WrongPair.objects.filter(response_id__in=keys).delete()
            # Not `delete()`: its signal would record each row a second time, under a version of its own.
            count += CachedResponse.objects.filter(pk__in=keys)._raw_delete(using="default") or 0
    return count


def memory_threshold(config: EffectiveConfig, *, model: str) -> float | None:
    """The similarity from which the memory answers: from staff, the environment or the model's profile, else off."""
    if not config.memory:
        return None
    if config.memory_threshold is not None:
        return config.memory_threshold
    if settings.MEMORY_SIMILARITY_THRESHOLD is not None:
        return float(settings.MEMORY_SIMILARITY_THRESHOLD)
    profile = threshold_profile(model, config.agent.slug)
    return None if profile is None else profile.memory


def retention_days(config: EffectiveConfig) -> int:
    """How long a deployment keeps its answers: as long as the agent that keeps them longest."""
    return max(agent.memory_max_age_days for agent in config.of_each_agent)


def expired_entries(deployment_id: int, max_age_days: int) -> QuerySet[CachedResponse]:
    """The entries of a deployment older than `max_age_days` and not confirmed since."""
    before = timezone.now() - timedelta(days=max_age_days)
    expired = CachedResponse.objects.filter(deployment_id=deployment_id, confirmed_at__lt=before)
    decided = WrongPair.objects.filter(response=OuterRef("pk"))
    return expired.exclude(status=EntryStatus.OBSOLETE).filter(~Exists(decided))


def delete_expired() -> Iterator[int]:
    """Send overdue and outdated entries to review and delete expired ones; yields the number of each batch."""
    review_overdue()
    review_stale()
    with_memory = DeploymentMemory.objects.values("deployment_id")
    for deployment in Deployment.objects.filter(pk__in=with_memory).select_related("agent"):
        rows = expired_entries(deployment.pk, retention_days(effective_config(deployment)))
        while keys := list(rows.values_list("pk", flat=True)[: settings.RETAIN_BATCH]):
            deleted = delete_entries(CachedResponse.objects.filter(pk__in=keys))
            if not deleted:
                break
            yield deleted


def _embed(entry: CachedResponse) -> None:
    model = embedder()
    vector = model.embed_one(entry.question, purpose=Purpose.QUERY)
    entry.embedding = vector.astype("<f4").tobytes()
    entry.embedding_model, entry.recipe_key = model.recipe.model, recipe_key(model.recipe)


def _by_deployment(entries: QuerySet[CachedResponse]) -> Iterator[tuple[int, list[int]]]:
    """Batches of keys by deployment, in an order that concurrent writers share."""
    rows = sorted(entries.order_by().values_list("deployment_id", "pk"))
    for deployment_id, group in groupby(rows, key=lambda row: row[0]):
        for keys in batches((pk for _deployment, pk in group), ID_BATCH):
            yield deployment_id, keys


#: Rows taken at once from the database while an array is loaded.
_LOAD_BATCH = 2_000
_FLOAT32 = np.dtype("<f4")
_NONE_WRONG: frozenset[str] = frozenset()
_COLUMNS = (
    "pk",
    "version",
    "status",
    "recipe_key",
    "question",
    "audience",
    "created_at",
    "confirmed_at",
    "review_on",
    "is_scoped",
    "embedding",
)
_EMBEDDING = _COLUMNS.index("embedding")

#: Sorts equal similarities by the most recent entry first.
EntryKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class MemoryMark:
    """The version of a deployment's memory, and its current audience."""

    deployment_id: int
    uuid: uuid.UUID
    version: int
    purged_version: int
    audience: str


class Held(NamedTuple):
    """The fields of an entry that an array caches beside its vector; they hold for the entry's `version`.

    `wrong`: the questions for which the entry was reported, as `question_hash`.
    """

    pk: int
    key: EntryKey
    version: int
    question: str
    audience: str
    confirmed_at: float
    review_on: date | None
    wrong: frozenset[str]
    is_scoped: bool = False


def memory_mark(deployment: Deployment) -> MemoryMark | None:
    """The mark of a deployment loaded with its `memory` (a query for groups alone); `None`: nothing was learned."""
    memory = getattr(deployment, "memory", None)
    if memory is None or not memory.version:
        return None
    identity = (deployment.pk, memory.uuid, memory.version, memory.purged_version)
    return MemoryMark(*identity, current_audience(deployment))


def stored_mark(deployment_id: int) -> MemoryMark | None:
    """The mark of a deployment, read anew: one query, two for a group's audience."""
    read = ("audience", "memory__uuid", "memory__version", "memory__purged_version")
    found = Deployment.objects.select_related("memory").only(*read).filter(pk=deployment_id).first()
    return None if found is None else memory_mark(found)


def current_audience(deployment: Deployment) -> str:
    is_limited = deployment.audience == Audience.GROUPS
    return audience_key(deployment.audience, deployment.groups.values_list("pk", flat=True) if is_limited else ())


@dataclass(frozen=True, slots=True)
class Nearest:
    """One reading of an array: the nearest entries, best first, and the age of the oldest of all."""

    found: list[tuple[Held, float]]
    oldest: float


class _Entries(NamedTuple):
    """Changes of a memory: the keys of changed entries, and the rows of those that may answer."""

    removed: Iterable[int]
    rows: Sequence[tuple[Any, ...]]
    wrong: Mapping[int, frozenset[str]]


class _Array(Followed[MemoryMark, EntryKey, _Entries]):
    """The entries of one memory and one recipe."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe.dimensions)
        self.recipe_key = recipe_key(recipe)
        self.held: dict[int, Held] = {}
        self._oldest: float | None = None

    @property
    def oldest(self) -> float:
        """When the oldest entry was last confirmed, in seconds; infinite where there is none."""
        if self._oldest is None:
            self._oldest = min((held.confirmed_at for held in self.held.values()), default=float("inf"))
        return self._oldest

    def size(self, mark: MemoryMark) -> int:
        return self._servable(mark).count()

    def everything(self, mark: MemoryMark) -> Iterator[_Entries]:
        self.held, self._oldest = {}, None
        wrong = _wrong_questions(response__deployment_id=mark.deployment_id)
        rows = self._servable(mark).values_list(*_COLUMNS).iterator(chunk_size=_LOAD_BATCH)
        for batch in batches(rows, _LOAD_BATCH):
            yield _Entries((), batch, wrong)

    def changes(self, mark: MemoryMark) -> _Entries:
        written = CachedResponse.objects.filter(deployment=mark.deployment_id, version__gt=self.seen)
        rows = list(written.order_by().values_list(*_COLUMNS))
        servable = [row for row in rows if row[2] == EntryStatus.VALID and row[3] == self.recipe_key]
        wrong = _wrong_questions(response_id__in=[row[0] for row in servable]) if servable else {}
        return _Entries([row[0] for row in rows], servable, wrong)

    def purged(self, mark: MemoryMark) -> int:
        memory = DeploymentMemory.objects.filter(deployment=mark.deployment_id)
        return memory.values_list("purged_version", flat=True).first() or 0

    def apply(self, rows: _Entries) -> None:
        # A row whose vector was damaged from outside is left out rather than taken for another.
        dimensions = self.matrix.dimensions
        size = dimensions * _FLOAT32.itemsize
        good = [row for row in rows.rows if len(row[_EMBEDDING]) == size]
        fresh = [_held(row, rows.wrong.get(row[0], _NONE_WRONG)) for row in good]
        vectors = np.frombuffer(b"".join(row[_EMBEDDING] for row in good), dtype=_FLOAT32)
        before = [held.key for pk in rows.removed if (held := self.held.pop(pk, None)) is not None]
        self.matrix.apply(
            keys=[held.key for held in fresh], rows=vectors.reshape(len(good), dimensions), removed=before
        )
        self.held.update({held.pk: held for held in fresh})
        self._oldest = None

    def nearest(self, vector: Vector, *, limit: int, least: float | None) -> Nearest:
        snapshot = self.matrix.snapshot()
        found = snapshot.top(vector, limit=limit)
        return Nearest(
            found=[
                (held, score)
                for key, score, _overlap in found
                # Another thread may have followed a later version meanwhile.
                if (least is None or score >= least) and (held := self.held.get(-key[1])) is not None
            ],
            oldest=self.oldest,
        )

    def _servable(self, mark: MemoryMark) -> QuerySet[CachedResponse]:
        return CachedResponse.objects.filter(
            deployment_id=mark.deployment_id, recipe_key=self.recipe_key, status=EntryStatus.VALID
        )


def _held(row: tuple[Any, ...], wrong: frozenset[str]) -> Held:
    pk, version, _status, _recipe, question, audience, created_at, confirmed_at, *rest = row
    review_on, is_scoped, _embedding = rest
    key = (-int(created_at.timestamp() * 1_000_000), -pk)
    return Held(pk, key, version, question, audience, confirmed_at.timestamp(), review_on, wrong, is_scoped)


def _wrong_questions(**entries: Any) -> dict[int, frozenset[str]]:
    """The questions that entries were reported for, unless the reported answer has been replaced since."""
    still = Q(answer_digest="") | Q(answer_digest=MD5("response__answer"))
    found: dict[int, set[str]] = {}
    for pk, asked in WrongPair.objects.filter(still, **entries).values_list("response_id", "question_hash"):
        found.setdefault(pk, set()).add(asked)
    return {pk: frozenset(asked) for pk, asked in found.items()}


_arrays: FollowedCollections[_Array] = FollowedCollections("MEMORY_CACHE_BYTES")


def _array(mark: MemoryMark, recipe: Recipe) -> _Array:
    """The cached array of this process, or a new one for a transaction that has written to the memory."""
    if Uncommitted.covers(mark.uuid):
        return _Array(recipe)
    return _arrays.get((mark.uuid, recipe_key(recipe)), lambda: _Array(recipe))


def is_known_empty(mark: MemoryMark, recipe: Recipe) -> bool:
    """Whether this process has seen, at this mark, that no entry may answer. Touches no database."""
    array = _arrays.held((mark.uuid, recipe_key(recipe)))
    return array is not None and array.seen >= mark.version and not array.held


def nearest_entries(mark: MemoryMark, vector: Vector, *, recipe: Recipe, limit: int, least: float | None) -> Nearest:
    """Return the entries nearest to a unit vector, best first, the most recent of equals before the others."""
    array = _array(mark, recipe)
    with array.lock:
        changed = array.follow(mark)
        nearest = array.nearest(vector, limit=limit, least=least) if changed else None
    if nearest is None:
        return array.nearest(vector, limit=limit, least=least)
    _arrays.trim()
    return nearest
