"""What every vector store promises, on the table, on Qdrant's in-process mode, and on a Qdrant server where there is
one.
"""

import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge.embeddings.base import Recipe
from knowledge.errors import CollectionMissingError, EmbeddingMismatchError, KnowledgeError, VectorStoreUnavailableError
from knowledge.vectors.base import Condition, Hit, Json, PayloadFilter, Point, Query, Vector, VectorStore, Wanted
from knowledge.vectors.qdrant import QdrantVectorStore
from knowledge.vectors.table import TableVectorStore
from tests.in_process_qdrant import InProcessQdrant
from tests.servers.qdrant_server import QdrantServer
from tests.servers.web_site import Answer, web_site

pytestmark = pytest.mark.django_db

RECIPE = Recipe(model="contract", dimensions=3)
QDRANT_URL = os.environ.get("QDRANT_URL", "")


def make_store(kind: str) -> VectorStore:
    if kind == "table":
        return TableVectorStore()
    if kind == "qdrant-memory":
        return InProcessQdrant()
    if not QDRANT_URL:
        pytest.skip("QDRANT_URL is not set: no Qdrant server to test against")
    return QdrantVectorStore(
        url=QDRANT_URL, api_key=os.environ.get("QDRANT_API_KEY", ""), prefix=f"test_{uuid.uuid4().hex[:8]}_"
    )


@pytest.fixture(params=["table", "qdrant-memory", "qdrant-server"])
def store(request: pytest.FixtureRequest) -> Iterator[VectorStore]:
    store = make_store(request.param)
    yield store
    for info in store.collections():
        store.drop(info.name)


@pytest.fixture
def filled(store: VectorStore) -> VectorStore:
    """A store with the collection `animals`: three directions, one of them twice."""
    store.ensure("animals", RECIPE)
    store.upsert(
        "animals",
        [
            point(1, [1, 0, 0], name="chat", legs=4, tame=True),
            point(2, [0, 1, 0], name="loup", legs=4, tame=False),
            point(3, [1, 0, 0], name="poule", legs=2, tame=True),
            point(4, [0, 0, 1], name=None, note="sans patte"),
        ],
    )
    return store


def ident(number: int) -> str:
    return str(uuid.UUID(int=number))


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


def point(number: int, values: Sequence[float], **payload: Json) -> Point:
    return Point(ident(number), vector(*values), payload)


def ask(
    store: VectorStore,
    collection: str = "animals",
    values: Sequence[float] = (1, 0, 0),
    question: str = "",
    limit: int = 10,
    **wanted: Any,
) -> list[Hit]:
    return store.query(collection, Query(vector(*values), RECIPE, question), Wanted(limit, **wanted))


def numbers(hits: Sequence[Hit]) -> list[int]:
    return [uuid.UUID(hit.id).int for hit in hits]


def matching(store: VectorStore, payload_filter: PayloadFilter) -> set[int]:
    """The points that a filter keeps, the same whether they are searched or named."""
    found = set(numbers(ask(store, payload_filter=payload_filter)))
    assert sorted(store.ids_where("animals", payload_filter)) == sorted(map(ident, found))
    return found


def test_ensure_with_another_recipe_is_refused_also_behind_an_alias(filled: VectorStore) -> None:
    filled.point_alias("zoo", "animals")
    others = (replace(RECIPE, model="another"), replace(RECIPE, dimensions=4), replace(RECIPE, query_prefix="query: "))
    for name in ("animals", "zoo"):
        filled.ensure(name, RECIPE)
        for other in others:
            with pytest.raises(EmbeddingMismatchError):
                filled.ensure(name, other)


def test_missing_collection_is_an_error_for_every_verb(store: VectorStore) -> None:
    kept = PayloadFilter(all_of=(Condition("a", 1),))
    verbs: list[Callable[[], object]] = [
        lambda: store.upsert("none", [point(1, [1, 0, 0])]),
        lambda: store.upsert("none", []),
        lambda: ask(store, "none"),
        lambda: store.fetch("none", [ident(1)]),
        lambda: store.fetch("none", []),
        lambda: store.scroll("none"),
        lambda: store.delete("none", [ident(1)]),
        lambda: store.delete("none", []),
        lambda: store.ids_where("none", kept),
        lambda: store.count("none"),
        lambda: store.info("none"),
        lambda: store.point_alias("alias", "none"),
    ]
    for verb in verbs:
        with pytest.raises(CollectionMissingError):
            verb()


def test_collections_are_listed_by_name_with_recipe_size_and_aliases(filled: VectorStore) -> None:
    filled.ensure("a first one", replace(RECIPE, dimensions=7))
    filled.point_alias("zoo", "animals")
    filled.point_alias("ferme", "animals")
    first, animals = filled.collections()
    assert (first.name, first.points, first.aliases, first.recipe.dimensions) == ("a first one", 0, (), 7)
    assert (animals.name, animals.points, animals.aliases) == ("animals", 4, ("ferme", "zoo"))
    assert filled.info("zoo") == animals
    assert animals.recipe == RECIPE


def test_collection_made_again_under_its_name_is_empty(filled: VectorStore) -> None:
    ask(filled)
    filled.drop("animals")
    filled.ensure("animals", RECIPE)
    assert ask(filled) == []
    assert list(filled.scroll("animals")) == []
    assert filled.count("animals") == 0
    assert filled.fetch("animals", [ident(1)]) == {}


def test_alias_moves_to_another_collection_and_can_be_removed(filled: VectorStore) -> None:
    filled.ensure("machines", RECIPE)
    filled.upsert("machines", [point(9, [1, 0, 0], name="train")])
    filled.point_alias("current", "animals")
    assert numbers(ask(filled, "current")) == [1, 3, 2, 4]
    filled.point_alias("current", "machines")
    assert numbers(ask(filled, "current")) == [9]
    assert filled.info("animals").aliases == ()
    with pytest.raises(CollectionMissingError):
        filled.point_alias("current", "nowhere")
    assert filled.resolve_alias("current") == "machines"
    filled.remove_alias("current")
    filled.remove_alias("current")
    assert filled.resolve_alias("current") is None
    assert filled.count("machines") == 1


def test_verbs_work_through_an_alias(filled: VectorStore) -> None:
    filled.point_alias("zoo", "animals")
    filled.upsert("zoo", [point(5, [1, 1, 0], name="âne")])
    filled.delete("zoo", [ident(1)])
    filled.delete("zoo", filled.ids_where("zoo", PayloadFilter(all_of=(Condition("name", "loup"),))))
    assert filled.count("animals") == filled.count("zoo") == 3
    assert set(filled.fetch("zoo", [ident(5), ident(1)])) == {ident(5)}


def test_alias_cannot_take_the_name_of_a_collection(filled: VectorStore) -> None:
    filled.ensure("machines", RECIPE)
    with pytest.raises(KnowledgeError):
        filled.point_alias("machines", "animals")
    assert filled.resolve_alias("machines") is None


def test_upsert_again_overwrites_vector_and_payload(filled: VectorStore) -> None:
    filled.upsert("animals", [point(1, [0, 0, 5], name="chatte")])
    stored = filled.fetch("animals", [ident(1)])[ident(1)]
    assert stored.payload == {"name": "chatte"}
    assert stored.vector.tolist() == [0, 0, 1]
    assert stored.vector.dtype == np.float32
    assert filled.count("animals") == 4
    assert numbers(ask(filled, values=(0, 0, 1), limit=2)) == [1, 4]


def test_wrong_size_writes_nothing(filled: VectorStore) -> None:
    with pytest.raises(EmbeddingMismatchError):
        filled.upsert("animals", [point(7, [1, 0, 0]), point(8, [1, 0])])
    assert filled.count("animals") == 4


@pytest.mark.parametrize("values", [(0, 0, 0), (np.nan, 0, 0), (np.inf, 0, 0)])
def test_vector_without_direction_is_refused(filled: VectorStore, values: list[float]) -> None:
    with pytest.raises(EmbeddingMismatchError):
        filled.upsert("animals", [point(7, values)])
    with pytest.raises(EmbeddingMismatchError):
        ask(filled, values=values)


def test_id_that_is_no_uuid_is_refused(filled: VectorStore) -> None:
    with pytest.raises(KnowledgeError):
        filled.upsert("animals", [Point("seven", vector(1, 0, 0), {})])
    with pytest.raises(KnowledgeError):
        filled.fetch("animals", ["seven"])


def test_query_gives_payloads_and_cosines_best_first(filled: VectorStore) -> None:
    hits = ask(filled, values=(3, 4, 0), limit=3)
    assert [(uuid.UUID(h.id).int, h.score) for h in hits] == [(2, 0.8), (1, 0.6), (3, 0.6)]
    assert hits[0].payload == {"name": "loup", "legs": 4, "tame": False}


def test_ties_go_by_id_even_at_the_limit(store: VectorStore) -> None:
    store.ensure("animals", RECIPE)
    store.upsert("animals", [point(n, [1, 2, 3]) for n in (9, 4, 7, 1, 8, 3)])
    for limit in range(1, 7):
        assert numbers(ask(store, values=(1, 1, 1), limit=limit)) == [1, 3, 4, 7, 8, 9][:limit]


def test_min_score_is_inclusive(filled: VectorStore) -> None:
    assert numbers(ask(filled, values=(3, 4, 0), min_score=0.6)) == [2, 1, 3]
    assert numbers(ask(filled, values=(3, 4, 0), min_score=0.600001)) == [2]
    assert numbers(ask(filled, values=(-1, 0, 0), min_score=-1.0)) == [2, 4, 1, 3]


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_query_with_another_recipe_or_size_is_refused(filled: VectorStore, weight: float) -> None:
    for query in (Query(vector(1, 0, 0), replace(RECIPE, model="b"), "chat"), Query(vector(1, 0), RECIPE, "chat")):
        with pytest.raises(EmbeddingMismatchError):
            filled.query("animals", query, Wanted(lexical_weight=weight, limit=1))


def test_payloads_come_back_as_they_were(store: VectorStore) -> None:
    payload: dict[str, Json] = {
        "question": 'Où est l’œuvre ? 🦉 "citée" \\ فﷺ',
        "none": None,
        "nested": {"list": [1, 2.5, True, None, "x"], "empty": {}},
        "big": 2**40,
        "": "no name",
    }
    store.ensure("animals", RECIPE)
    store.upsert("animals", [Point(ident(1), vector(1, 0, 0), payload)])
    assert ask(store)[0].payload == payload
    assert store.fetch("animals", [ident(1)])[ident(1)].payload == payload


def test_scroll_gives_every_point_of_a_large_batch_once_in_a_stable_order(store: VectorStore) -> None:
    store.ensure("animals", RECIPE)
    everything = [ident(n) for n in range(1, 704)]
    store.upsert("animals", [point(n, [1, n, 0], n=n) for n in range(1, 704)])
    batches = list(store.scroll("animals", batch_size=100))
    seen = [p.id for batch in batches for p in batch]
    assert sorted(seen) == everything
    assert {len(batch) for batch in batches} == {100, 3}
    assert store.count("animals") == len(store.fetch("animals", everything)) == len(everything)
    assert [p.id for batch in store.scroll("animals") for p in batch] == seen


def unavailable(store: QdrantVectorStore, named: str) -> None:
    for verb in (store.ping, store.collections, lambda: ask(store), lambda: store.drop("animals")):
        with pytest.raises(VectorStoreUnavailableError, match=named):
            verb()


def test_store_that_is_gone_is_reported_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Who waited for its time limit would wait longer than any test may take.
    unavailable(QdrantVectorStore(url=f"http://127.0.0.1:{port}", timeout=3600), "cannot be reached")


@pytest.mark.parametrize(
    ("status", "body", "named"),
    [
        (401, "Must provide an API key", "QDRANT_API_KEY"),
        (403, "Invalid API key", "QDRANT_API_KEY"),
        (500, "{}", "500"),
        (404, "<html>No such page</html>", "QDRANT_URL"),
        (200, "<html>Welcome</html>", "QDRANT_URL"),
        (200, "{}", "QDRANT_URL"),
    ],
)
def test_server_that_refuses_or_is_another_program_is_unavailable(status: int, body: str, named: str) -> None:
    with web_site() as site:
        site.fallback = Answer(body, "application/json", status)
        unavailable(QdrantVectorStore(url=site.url()), named)


@pytest.mark.parametrize(
    ("url", "api_key", "found"),
    [
        ("http://127.0.0.1:6333", "key", []),
        ("https://qdrant.example", "key", []),
        ("http://qdrant.example", "key", ["knowledge.W010"]),
        ("qdrant.example:6333", "", ["knowledge.E010"]),
    ],
)
def test_configuration_is_checked(url: str, api_key: str, found: list[str]) -> None:
    messages = QdrantVectorStore(url=url, api_key=api_key).check()
    assert [message.id for message in messages] == found


def test_two_prefixes_share_a_server_without_seeing_each_other() -> None:
    one = InProcessQdrant(prefix="one_")
    two = InProcessQdrant(prefix="two_")
    with one._asking() as two._client:
        pass
    for store in (one, two):
        store.ensure("animals", RECIPE)
        store.point_alias("zoo", "animals")
    one.upsert("zoo", [point(1, [1, 0, 0])])
    assert [(i.name, i.points, i.aliases) for i in one.collections()] == [("animals", 1, ("zoo",))]
    assert [(i.name, i.points, i.aliases) for i in two.collections()] == [("animals", 0, ("zoo",))]


@pytest.mark.parametrize(
    ("payload_filter", "kept"),
    [
        (PayloadFilter(), {1, 2, 3, 4}),
        (PayloadFilter(all_of=(Condition("name", "chat"),)), {1}),
        (PayloadFilter(all_of=(Condition("legs", 4), Condition("tame", True))), {1}),
        (PayloadFilter(any_of=(Condition("name", "loup"), Condition("legs", 2))), {2, 3}),
        (PayloadFilter(all_of=(Condition("tame", False),)), {2}),
        (PayloadFilter(all_of=(Condition("legs", True),)), set()),
        (PayloadFilter(all_of=(Condition("legs", "4"),)), set()),
        (PayloadFilter(all_of=(Condition("tame", 1),)), set()),
        (PayloadFilter(any_of=(Condition("absent", "x"), Condition("other", 1))), set()),
        (
            PayloadFilter(
                all_of=(Condition("legs", 4), Condition("tame", False)),
                any_of=(Condition("name", "chat"), Condition("name", "loup")),
            ),
            {2},
        ),
    ],
)
def test_filter_keeps_what_it_says(filled: VectorStore, payload_filter: PayloadFilter, kept: set[int]) -> None:
    assert matching(filled, payload_filter) == kept


_values = st.sampled_from([-2, -1, 0, 1, 3])
_vectors = st.tuples(_values, _values, _values).filter(any)
_payloads = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["qa_pair", "source_material", None]),
        "n": st.integers(0, 2),
        "is_faq": st.booleans(),
        "tag": st.sampled_from(["a", "b", "c"]),
    },
)
_conditions = st.one_of(
    st.builds(Condition, st.just("type"), st.sampled_from(["qa_pair", "source_material", "x"])),
    st.builds(Condition, st.just("n"), st.integers(0, 2)),
    st.builds(Condition, st.just("is_faq"), st.booleans()),
    st.builds(Condition, st.just("tag"), st.sampled_from(["a", "b"])),
)
_some = st.lists(_conditions, max_size=2).map(tuple)
_filters = st.builds(PayloadFilter, all_of=_some, any_of=_some)
_ids = st.integers(1, 12)
_points = st.builds(
    lambda number, values, payload: Point(ident(number), vector(*values), payload), _ids, _vectors, _payloads
)
_operations = st.one_of(
    st.tuples(st.just("upsert"), st.lists(_points, max_size=6)),
    st.tuples(st.just("delete"), st.lists(_ids.map(ident), max_size=3)),
    st.tuples(st.just("ids_where"), _filters),
    st.tuples(st.just("query"), st.tuples(_vectors, st.integers(1, 14), _filters)),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(operations=st.lists(_operations, min_size=1, max_size=12))
def test_two_stores_answer_alike(operations: list[tuple[str, Any]]) -> None:
    stores: list[VectorStore] = [TableVectorStore(), InProcessQdrant()]
    name = f"alike_{uuid.uuid4().hex}"
    for store in stores:
        store.ensure(name, RECIPE)
    for operation in [*operations, ("query", ((1, 1, 0), 20, PayloadFilter()))]:
        mine, theirs = (_perform(store, name, *operation) for store in stores)
        assert mine == theirs
    table, qdrant = (sorted((p.id, p.payload) for batch in store.scroll(name) for p in batch) for store in stores)
    assert table == qdrant


def _perform(store: VectorStore, name: str, verb: str, argument: Any) -> object:
    if verb != "query":
        told = getattr(store, verb)(name, argument)
        return sorted(told or ()), store.count(name)
    values, limit, payload_filter = argument
    hits = ask(store, name, values, limit=limit, payload_filter=payload_filter)
    # One millionth of leeway for two engines' rounding; order and ids must agree.
    return [(hit.id, pytest.approx(hit.score, abs=2e-6), hit.payload) for hit in hits]


def hybrid(store: VectorStore, question: str, *, lexical_weight: float = 1.0, **asked: Any) -> list[Hit]:
    return ask(store, question=question, lexical_weight=lexical_weight, **asked)


SAYINGS = (
    "le chat dort sur le tapis",
    "le loup court dans la forêt",
    "les poules pondent des œufs frais",
    "un chat et un loup se parlent",
    "rien à voir ici du tout",
)


@pytest.fixture
def talking(store: VectorStore) -> VectorStore:
    store.ensure("animals", RECIPE)
    store.upsert(
        "animals", [point(n, [1, n, 0], content=said, category="a" if n % 2 else "b") for n, said in enumerate(SAYINGS)]
    )
    return store


def test_hybrid_query_finds_words_that_the_vector_misses(talking: VectorStore) -> None:
    assert numbers(hybrid(talking, "Où pond la poule ?", lexical_weight=5))[0] == 2
    assert numbers(hybrid(talking, "Où pond la poule ?", lexical_weight=0))[0] == 0


def test_hybrid_hit_has_the_cosine_and_the_overlap(talking: VectorStore) -> None:
    hits = {uuid.UUID(hit.id).int: hit for hit in hybrid(talking, "le chat")}
    assert hits[1].score == pytest.approx(1 / 2**0.5, abs=1e-5)
    assert hits[0].overlap > hits[2].overlap == 0
    assert hits[0].payload["content"] == SAYINGS[0]


def test_hybrid_overlaps_are_the_same_in_every_store(talking: VectorStore) -> None:
    expected = TableVectorStore()
    if not isinstance(talking, TableVectorStore):
        expected.ensure("same", RECIPE)
        expected.upsert("same", [p for batch in talking.scroll("animals") for p in batch])
    collection = "animals" if isinstance(talking, TableVectorStore) else "same"
    for question in ("le chat et les œufs", "forêts inconnues", "zèbre", "et le la"):
        there = hybrid(expected, question, collection=collection)
        here = hybrid(talking, question)
        assert numbers(here) == numbers(there)
        assert [h.overlap for h in here] == pytest.approx([h.overlap for h in there], abs=2e-6)


def test_hybrid_question_is_two_calls_that_bring_no_vectors_back() -> None:
    with QdrantServer() as server, mock.patch.object(server, "answer", wraps=server.answer) as answered:
        store = QdrantVectorStore(url=f"http://127.0.0.1:{server.port}")
        store.ensure("animals", RECIPE)
        answered.reset_mock()
        hybrid(store, "le chat dort")
    _recipe, batch = answered.call_args_list
    returned = [each.get("with_vector") for each in json.loads(batch.args[2])["searches"]]
    assert returned == [None, None, *[["terms"]] * 4]


def test_hybrid_query_is_filtered_and_limited_but_keeps_the_nearest(talking: VectorStore) -> None:
    only = PayloadFilter(all_of=(Condition("category", "b"),))
    assert set(numbers(hybrid(talking, "loup", payload_filter=only))) == {0, 2, 4}
    assert numbers(hybrid(talking, "poule", lexical_weight=9, limit=1)) == [2, 0, 1, 3]


def test_hybrid_query_follows_changed_words(talking: VectorStore) -> None:
    talking.upsert("animals", [point(4, [1, 4, 0], content="la baleine nage")])
    assert numbers(hybrid(talking, "baleines", lexical_weight=5))[0] == 4
    talking.delete("animals", [ident(4)])
    assert all(hit.overlap == 0 for hit in hybrid(talking, "baleines"))


@pytest.mark.parametrize("question", ["", "?", "et le la", "𝔥𝔢𝔩𝔩𝔬", "\x00", "x" * 5_000])
def test_hybrid_query_takes_any_question(talking: VectorStore, question: str) -> None:
    assert len(hybrid(talking, question)) == len(SAYINGS)
