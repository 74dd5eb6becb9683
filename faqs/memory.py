"""The memory: how its entries are identified, and every write to `responses`.

A key names the question as it was asked, apart from case, spaces and closing punctuation; an audience is a short text
that an entry keeps from the day it was learned. A write holds the lock of its deployment's memory and gives the rows it
changes its next version, so that versions commit in order and a reader of version n misses nothing by reading what is
above n. Only the usage counter (`faqs.recall`) changes without a version.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from agents.database import short_write
from agents.effective import EffectiveConfig, effective_config
from agents.models import Audience, Deployment
from faqs.models import CachedResponse, DeploymentMemory, EntryStatus, LearnedResponse, Origin, StatusReason, WrongPair
from faqs.origins import accept_origins, forget_origins, keep_origins, stale_entries
from knowledge.embeddings.base import Purpose, Recipe, embedder
from knowledge.language.words import fold_keeping_accents
from knowledge.models import Chunk
from knowledge.thresholds import threshold_profile
from knowledge.vectors.base import Vector, batches
from knowledge.vectors.matrix import Uncommitted

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
    """Whether everybody who can ask now belonged to the audience that the entry was learned for.

    A public answer may be given to members; an answer learned among some groups is given to those groups, or to fewer.
    """
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
_ID_BATCH = 500


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
            forget_origins(existing.pk)
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


def validate_entries(entries: "models.QuerySet[CachedResponse]") -> int:
    """Validate entries as they are: served from now on, with their age counted from now."""
    current = recipe_key(embedder().recipe)
    foreign = [entry for entry in entries if entry.recipe_key != current]
    for entry in foreign:
        _embed(entry)
    today, now = timezone.localdate(), timezone.now()
    count = 0
    for deployment_id, keys in _by_deployment(entries):
        with writing(deployment_id) as memory:
            accept_origins(keys)
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
    entries: "models.QuerySet[CachedResponse]",
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


def review_other_agents(deployment: Deployment) -> int:
    """Move the valid entries from passages of an agent that this deployment no longer offers to *to review*."""
    offered = [deployment.agent_id, *deployment.specialists.values_list("agent", flat=True)]
    chunks = Chunk.objects.exclude(document__agent__in=offered)
    answers = LearnedResponse.objects.exclude(agent__in=offered)
    foreign = Origin.objects.filter(Q(chunk__in=chunks) | Q(learned__in=answers), entry__deployment=deployment)
    entries = CachedResponse.objects.filter(pk__in=foreign.values("entry_id"), status=EntryStatus.VALID)
    return set_status(entries, EntryStatus.TO_REVIEW, StatusReason.AGENT_CHANGED)


def review_overdue() -> int:
    """Move the valid entries whose review date has passed to *to review*."""
    due = CachedResponse.objects.filter(status=EntryStatus.VALID, review_on__lt=timezone.localdate())
    return set_status(due, EntryStatus.TO_REVIEW, StatusReason.REVIEW_DUE)


def delete_entries(entries: "models.QuerySet[CachedResponse]") -> int:
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
    profile = threshold_profile(model, config.agent_slug)
    return None if profile is None else profile.memory


def retention_days(config: EffectiveConfig) -> int:
    """How long a deployment keeps its answers: as long as the agent that keeps them longest."""
    return max(agent.memory_max_age_days for agent in config.of_each_agent)


def expired_entries(deployment_id: int, max_age_days: int) -> "models.QuerySet[CachedResponse]":
    """The entries of a deployment older than `max_age_days` and not confirmed since."""
    before = timezone.now() - timedelta(days=max_age_days)
    expired = CachedResponse.objects.filter(deployment_id=deployment_id, confirmed_at__lt=before)
    decided = WrongPair.objects.filter(response=OuterRef("pk"))
    return expired.exclude(status=EntryStatus.OBSOLETE).filter(~Exists(decided))


def _expired_everywhere() -> "Iterator[models.QuerySet[CachedResponse]]":
    """The expired entries of each deployment."""
    with_memory = DeploymentMemory.objects.values("deployment_id")
    for deployment in Deployment.objects.filter(pk__in=with_memory).select_related("agent"):
        yield expired_entries(deployment.pk, retention_days(effective_config(deployment)))


def delete_expired() -> Iterator[int]:
    """Send overdue and outdated entries to review and delete expired ones; yields the number of each batch."""
    review_overdue()
    review_stale()
    for rows in _expired_everywhere():
        while keys := list(rows.values_list("pk", flat=True)[: settings.RETAIN_BATCH]):
            deleted = delete_entries(CachedResponse.objects.filter(pk__in=keys))
            if not deleted:
                break
            yield deleted


def prune_expired(*, deployment_id: int, max_age_days: int) -> int:
    """Delete the `expired_entries` of a deployment."""
    return delete_entries(expired_entries(deployment_id, max_age_days))


def _embed(entry: CachedResponse) -> None:
    model = embedder()
    vector = model.embed_one(entry.question, purpose=Purpose.QUERY)
    entry.embedding = vector.astype("<f4").tobytes()
    entry.embedding_model, entry.recipe_key = model.recipe.model, recipe_key(model.recipe)


def _by_deployment(entries: "models.QuerySet[CachedResponse]") -> Iterator[tuple[int, list[int]]]:
    """Batches of keys by deployment, in an order that concurrent writers share."""
    rows = sorted(entries.order_by().values_list("deployment_id", "pk"))
    for deployment_id, group in groupby(rows, key=lambda row: row[0]):
        for keys in batches((pk for _deployment, pk in group), _ID_BATCH):
            yield deployment_id, keys
