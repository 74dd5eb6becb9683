"""Rebuild an agent's index as a new generation, and go back to the one before.

A new collection is filled, its count is checked, and the alias moves in one call; vectors are reused where text and
recipe are the same. Two generations are kept. Every point is compared with its row again after the alias has moved, so
that none is lost and none comes back.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from agents.history import INDEX_IN_SERVICE, log_event
from agents.models import OPEN_JOBS, Agent, IndexingMethod, JobKind
from knowledge.embeddings.base import embedder
from knowledge.errors import CollectionMissingError, EmbeddingInputError, EmbeddingMismatchError, KnowledgeError
from knowledge.indexing.points import (
    IndexReport,
    OnProgress,
    PointWriter,
    alias_of,
    fingerprint,
    generations,
    new_generation,
    no_progress,
    note_indexed,
    plan_agent,
    previous_alias,
    previous_generation,
)
from knowledge.models import DocumentStatus, IndexBuild
from knowledge.search import PlannedPoint, answers_above, confirm_passages, query_of, search
from knowledge.synonyms import learn_from
from knowledge.vectors.base import CollectionInfo, PayloadFilter, VectorStore, collection_alias, vector_store
from knowledge.vectors.payloads import document_of, validated_answers


def build_generation(
    *, agent: Agent, method: IndexingMethod, generation: str, on_progress: OnProgress = no_progress
) -> IndexReport:
    """Fill a generation and put it in service. One whose alias has moved is not filled again: others write there."""
    if vector_store().resolve_alias(collection_alias(agent.slug, method)) == generation:
        put_in_service(agent=agent, method=method, generation=generation)
        report = IndexReport(points=vector_store().count(generation), generation=generation)
        report.count(agent)
        return report
    report = fill_generation(agent=agent, method=method, generation=generation, on_progress=on_progress)
    put_in_service(agent=agent, method=method, generation=generation)
    return report


def fill_generation(
    *, agent: Agent, method: IndexingMethod, generation: str, on_progress: OnProgress = no_progress
) -> IndexReport:
    """Fill and verify `generation`, which is not in service yet; after a crash, another run completes it."""
    report = IndexReport(generation=generation)
    store = vector_store()
    store.ensure(generation, embedder().recipe)
    writer = _writer(generation, donor=store.resolve_alias(collection_alias(agent.slug, method)))
    planned = writer.follow(PayloadFilter(), partial(plan_agent, agent, method), on_progress)
    _verify(store, generation, planned)
    learn_from(agent.documents.all())
    report.count(agent)
    report.points, report.embedded = len(planned), writer.embedded
    report.reused = report.points - report.embedded
    return report


def put_in_service(*, agent: Agent, method: IndexingMethod, generation: str) -> None:
    """Move the alias to a filled generation, keep the previous one, then write what changed since it was filled."""
    store, alias = vector_store(), collection_alias(agent.slug, method)
    before = store.resolve_alias(alias)
    if before is not None and before != generation:
        # Before the alias moves: a crash in between leaves two names of an index that answered.
        store.point_alias(previous_alias(agent, method), before)
    store.point_alias(alias, generation)
    documents = agent.documents.filter(status=DocumentStatus.INDEXED)
    known = set(documents.values_list("pk", flat=True))
    planned = _writer(generation, before).follow(PayloadFilter(), partial(plan_agent, agent, method))
    by_document: defaultdict[int | None, list[PlannedPoint]] = defaultdict(list)
    for point in planned:
        by_document[document_of(point.payload)].append(point)
    # A document indexed since has noted its own.
    noted = [document for document in documents if document.pk in known]
    note_indexed(noted, method, {each.pk: fingerprint(by_document[each.pk]) for each in noted})
    kept = previous_generation(store, agent, method)
    for name in generations(store, agent, method):
        if name < generation and name != kept:
            store.drop(name)


def prepare_rollback(*, agent: Agent, method: IndexingMethod) -> str:
    """Return the generation to go back to, its points of other apps up to date; raises where none can be searched."""
    store = vector_store()
    target = previous_generation(store, agent, method)
    if target is None:
        raise CollectionMissingError(
            f"{collection_alias(agent.slug, method)} has no previous generation to go back to.",
            public_message=_("Il n’y a pas de génération précédente à laquelle revenir."),
        )
    stored, used = store.info(target).recipe, embedder().recipe
    if stored != used:
        raise EmbeddingMismatchError(
            f"{target} was built with another embedding model ({stored}) than the one in use ({used}).",
            public_message=_(
                "La génération précédente a été construite avec un autre modèle d’embedding (%(model)s) : "
                "revenez d’abord à ce modèle, ou gardez l’index actuel."
            )
            % {"model": stored.model},
        )
    donor = store.resolve_alias(collection_alias(agent.slug, method))
    _writer(target, donor).follow(validated_answers(), partial(answers_above().plan_points, agent, method))
    return target


def rollback_agent_index(*, agent: Agent, method: IndexingMethod) -> str:
    """Put the previous generation in service again, in an emergency; returns its name. The journal records it."""
    target = prepare_rollback(agent=agent, method=method)
    store, alias = vector_store(), collection_alias(agent.slug, method)
    left = store.resolve_alias(alias)
    store.point_alias(alias, target)
    # The generation that was left is nobody's target: it goes with the next rebuild.
    store.point_alias(previous_alias(agent, method), target)
    log_event(agent, INDEX_IN_SERVICE, left, target)
    # What was written to the other generation meanwhile.
    _writer(target, left).follow(validated_answers(), partial(answers_above().plan_points, agent, method))
    return target


def _writer(generation: str, donor: str | None) -> PointWriter:
    """A writer that reuses the vectors of `donor`, the generation in service until now."""
    store, model = vector_store(), embedder()
    donors = [donor] if donor and donor != generation else []
    donors = [name for name in donors if store.info(name).recipe == model.recipe]
    return PointWriter(store=store, collection=generation, embedder=model, donors=donors)


def _verify(store: VectorStore, generation: str, planned: list[PlannedPoint]) -> None:
    stored, expected = store.count(generation), len({point.id for point in planned})
    if stored != expected:
        raise KnowledgeError(f"{generation} holds {stored} points, {expected} were planned.")


def unused_generations() -> list[CollectionInfo]:
    """The generations that no alias, open build or rollback needs; where none is in service, the newest is kept."""
    infos = vector_store().collections()
    # Asked after the list: a build that starts now uses a collection that is not in it.
    unfinished = {build.generation for build in IndexBuild.objects.filter(status__in=OPEN_JOBS)}
    of_alias: defaultdict[str, list[CollectionInfo]] = defaultdict(list)
    for info in infos:
        if alias := alias_of(info.name):
            of_alias[alias].append(info)
    found = []
    for alias, same in sorted(of_alias.items()):
        newest = max(info.name for info in same)  # stamps sort by time
        kept = unfinished if any(alias in info.aliases for info in same) else {newest, *unfinished}
        found += [info for info in same if not info.aliases and info.name not in kept]
    return found


def delete_abandoned() -> Iterator[int]:
    """Drop unused generations whose job is deleted; staff may still retry the others."""
    known = {build.generation for build in IndexBuild.objects.filter(kind=JobKind.REBUILD)}
    for info in unused_generations():
        if info.name not in known:
            vector_store().drop(info.name)
            yield 1


#: Passages compared for each question.
COMPARED_PASSAGES = 5
_EXCERPT = 160
#: What makes two passages the same; titles and scores may differ.
_SAME = ("question", "excerpt", "chunk_id")


def preview_rebuild(
    *, agent: Agent, method: IndexingMethod, questions: Sequence[str] = (), on_progress: OnProgress = no_progress
) -> dict[str, Any]:
    """What a rebuild would change and, with questions, what each retrieves before and after; nothing is kept."""
    planned = {point.id: point for point in plan_agent(agent, method)}
    store, alias = vector_store(), collection_alias(agent.slug, method)
    removed = changed = found = 0
    for batch in store.scroll(alias) if store.resolve_alias(alias) else ():
        for point in batch:
            if point.id in planned:
                found += 1
                changed += planned[point.id].differs_from({point.id: point})
            else:
                removed += 1
    counted = IndexReport()
    counted.count(agent)
    told: dict[str, Any] = {
        "documents": counted.documents,
        "chunks": counted.chunks,
        "waiting": counted.waiting,
        "points": len(planned),
        "added": len(planned) - found,
        "removed": removed,
        "changed": changed,
        "questions": [],
    }
    if questions:
        generation = new_generation(agent, method)
        try:
            fill_generation(agent=agent, method=method, generation=generation, on_progress=on_progress)
            told["questions"] = compare_questions(agent, method, generation, questions)
        finally:
            store.drop(generation)
    return told


def compare_questions(
    agent: Agent, method: IndexingMethod, generation: str, questions: Sequence[str]
) -> list[dict[str, Any]]:
    """The passages found for each question; `before` is `None` where the index in service cannot be searched."""
    compared = []
    for question in questions:
        after = _retrieve(agent, question, generation)
        if after is not None:
            before = _retrieve(agent, question, collection_alias(agent.slug, method))
            was, now = ([[row[name] for name in _SAME] for row in rows or ()] for rows in (before, after))
            changes = {"is_changed": was != now or before is None, "has_other_best": was[:1] != now[:1]}
            compared.append({"question": question, "before": before, "after": after, **changes})
    return compared


def _retrieve(agent: Agent, question: str, collection: str) -> list[dict[str, Any]] | None:
    try:
        found = search(collection, query_of(question), limit=COMPARED_PASSAGES)
    except (CollectionMissingError, EmbeddingMismatchError, EmbeddingInputError):
        return None
    return [
        {
            "title": passage.title,
            "question": passage.question,
            "excerpt": passage.content[:_EXCERPT],
            "score": round(passage.score, 4),
            "chunk_id": passage.chunk_id,
        }
        for passage in confirm_passages(found, agent_id=agent.pk).passages(COMPARED_PASSAGES)
    ]
