"""The array of this process and the database: what other processes write is seen, without reading it all again."""

from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import pytest
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from agents.models import Deployment
from faqs.learning import report_wrong
from faqs.memory import delete_entries, memory_mark, nearest_entries, set_status
from faqs.models import CachedResponse, EntryStatus, StatusReason
from knowledge.embeddings.base import Recipe
from tests.constants import override
from tests.factories import make_deployment, make_entry, recall
from tests.waiting import in_threads

QUESTION = "Quels sont les horaires de la piscine ?"
RECIPE = Recipe(model="array", dimensions=4)


def served(deployment: Deployment, question: str = QUESTION) -> str | None:
    found = recall(deployment, question)
    return found.answer.text if found.answer else None


class OtherProcessTests(TransactionTestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()
        make_entry(self.deployment, "Où est la gare ?", "Au nord.")
        assert served(self.deployment, "Où est la gare ?") == "Au nord."

    def test_what_changed_is_read_and_nothing_else(self) -> None:
        for number in range(30):
            make_entry(self.deployment, f"Question numéro {number} ?", "Oui.")
        assert served(self.deployment, "Question numéro 3 ?") == "Oui."
        make_entry(self.deployment, answer="9 h")
        assert served(self.deployment) == "9 h"
        in_threads(lambda: make_entry(self.deployment, answer="10 h"))
        with CaptureQueriesContext(connection) as captured:
            assert served(self.deployment) == "10 h"
        reads = [q["sql"] for q in captured if '"responses"."embedding"' in q["sql"]]
        assert len(reads) == 1
        assert '"version" >' in reads[0]
        with CaptureQueriesContext(connection) as captured:
            served(self.deployment)
        assert not [q for q in captured if '"responses"."embedding"' in q["sql"]]

    def test_no_use_is_lost_when_many_ask_at_once(self) -> None:
        entry = make_entry(self.deployment)
        found = in_threads(*[lambda: [served(self.deployment) for _ in range(5)]] * 6)
        entry.refresh_from_db()
        assert found == [[entry.answer] * 5] * 6
        assert entry.usage_count == 60


class BoundsTests(TestCase):
    def test_deleting_many_entries_is_one_version_and_few_queries(self) -> None:
        deployment = make_deployment()
        for number in range(20):
            make_entry(deployment, f"Question numéro {number} ?", "Oui.")
        with CaptureQueriesContext(connection) as captured:
            assert delete_entries(CachedResponse.objects.all()) == 20
        assert len(captured) < 15

    @override(MEMORY_MAX_CANDIDATES=2)
    def test_candidates_are_bounded(self) -> None:
        deployment = make_deployment()
        for year in range(2018, 2024):
            make_entry(deployment, f"Combien coûte la carte en {year} ?", "12 euros.")
        found = recall(deployment, "Combien coûte la carte en 2024 ?", threshold=0.1)
        assert len(found.refused) == 2


class Followed(RuleBasedStateMachine):
    """Any sequence of writes leaves the array equal to a full reading of the table."""

    deployment: ClassVar[Deployment]

    def __init__(self) -> None:
        super().__init__()
        CachedResponse.objects.all().delete()
        self.random = np.random.default_rng(3)

    def entries(self, number: int) -> Any:
        keys = list(CachedResponse.objects.order_by("pk").values_list("pk", flat=True))
        return CachedResponse.objects.filter(pk__in=[keys[number % len(keys)]] if keys else [])

    @rule(number=st.integers(0, 5), valid=st.booleans())
    def write(self, number: int, valid: bool) -> None:
        vector = self.random.normal(size=4).astype(np.float32)
        make_entry(
            self.deployment,
            f"Question numéro {number} ?",
            "Oui.",
            vector=vector / np.linalg.norm(vector),
            recipe=RECIPE,
            status=EntryStatus.VALID if valid else EntryStatus.TO_REVIEW,
            created_at=timezone.now() - timedelta(days=number),
        )

    @rule(number=st.integers(0, 5))
    def set_aside(self, number: int) -> None:
        set_status(self.entries(number), EntryStatus.OBSOLETE, StatusReason.STAFF)

    @rule(number=st.integers(0, 5))
    def validate(self, number: int) -> None:
        set_status(self.entries(number), EntryStatus.VALID, StatusReason.STAFF)

    @rule(number=st.integers(0, 5), bulk=st.booleans())
    def delete(self, number: int, bulk: bool) -> None:
        entries = self.entries(number)
        delete_entries(entries) if bulk else entries.delete()

    @rule(number=st.integers(0, 5))
    def report(self, number: int) -> None:
        for entry in self.entries(number):
            report_wrong(entry_id=entry.pk, question=entry.question)

    @rule(number=st.integers(0, 5))
    def roll_back(self, number: int) -> None:
        with transaction.atomic():
            self.set_aside(number)
            self.write(number, True)
            transaction.set_rollback(True)

    @invariant()
    def array_is_the_table(self) -> None:
        loaded = Deployment.objects.select_related("memory").get(pk=self.deployment.pk)
        mark = memory_mark(loaded)
        if mark is None:
            return
        asked = np.array([1, 0, 0, 0], dtype=np.float32)
        nearest = nearest_entries(mark, asked, recipe=RECIPE, limit=100, least=None)
        table = CachedResponse.objects.filter(status=EntryStatus.VALID)
        stored = {entry.pk: entry for entry in table}
        found = {held.pk: (held.version, score) for held, score in nearest.found}
        assert set(found) == set(stored)
        for pk, (version, score) in found.items():
            assert version == stored[pk].version
            assert score == pytest.approx(np.frombuffer(stored[pk].embedding, "<f4")[0], abs=1e-5)
        assert len(nearest.found) == len(stored)
        ages = [entry.confirmed_at.timestamp() for entry in table]
        assert nearest.oldest == min(ages, default=float("inf"))


class FollowingTests(TransactionTestCase):
    def test_array_equals_the_table_after_any_sequence_of_writes(self) -> None:
        Followed.deployment = make_deployment()
        run_state_machine_as_test(
            Followed,
            settings=hypothesis_settings(
                max_examples=10, stateful_step_count=15, deadline=None, database=None, phases=[Phase.generate]
            ),
        )
