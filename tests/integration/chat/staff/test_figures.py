"""« Comment va le service »: days counted as by hand in any order of events, and every figure of the page, for who may see it."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.test import TestCase, override_settings
from django.utils import timezone
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as PropertyTestCase

from agents.jobs import carry_out, ensure
from agents.models import AgentLimit, Deployment, JobKind
from chat.models import Conversation, DailyCount, Feedback, Turn, TurnStatus, Verdict
from chat.retention import conversations_older_than, purge
from chat.staff import figures
from chat.staff.figures import Period, Totals, merge_counts
from chat.thread.turns import claim_turn, reopen_turn
from chat.thread.verdicts import give_feedback, withdraw_feedback
from tests.admin_pages import client_of, make_staff, queries_of, superuser_client
from tests.factories import make_conversation, make_deployment, make_turn, save_answer

SUMS = "turns llm_calls prompt_tokens completion_tokens timed up down resolved".split()


def local_day(moment: datetime) -> date:
    return moment.astimezone(ZoneInfo(settings.TIME_ZONE)).date()


def ending_of(turn: Turn, *, deleted: bool = False) -> str:
    if turn.status in ("running", "awaiting_approval"):
        return "interrupted" if deleted else "running"
    if turn.status == "done" and turn.answer_source:
        return turn.answer_source
    return "failed" if turn.status == "failed" else "interrupted"


class ByHand:
    def __init__(self) -> None:
        self.counts: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        self.milliseconds: Counter[tuple[Any, ...]] = Counter()

    def add(self, turns: Iterable[Turn], *, deleted: bool = False) -> None:
        for turn in turns:
            day, deployment = local_day(turn.started_at), turn.conversation.deployment_id
            key = (day, deployment, ending_of(turn, deleted=deleted))
            sums = self.counts[key]
            sums["turns"] += 1
            for name in ("llm_calls", "prompt_tokens", "completion_tokens"):
                sums[name] += getattr(turn, name)
            if turn.status == "done" and turn.run == 0 and turn.finished_at is not None:
                sums["timed"] += 1
                self.milliseconds[key] += int((turn.finished_at - turn.started_at).total_seconds() * 1000)
            if verdict := Feedback.objects.filter(turn=turn, withdrawn_at=None).first():
                sums[verdict.verdict] += 1
            is_answered = turn.status == "done" and turn.answer_source in ("llm", "memory_guard")
            sums["resolved"] += is_answered and not turn.asked_again and (verdict is None or verdict.verdict == "up")

    def as_plain(self) -> dict[Any, dict[str, int]]:
        return {key: {name: sums[name] for name in SUMS} for key, sums in self.counts.items()}


def as_counted() -> dict[Any, dict[str, int]]:
    """What the turns that are there and the rows of those that were deleted say, added up."""
    counts: dict[Any, Counter[str]] = defaultdict(Counter)
    for found in (figures._counted(Turn.objects.all()), figures._kept(DailyCount.objects.all())):
        for key, sums in found.items():
            counts[key] += sums
    return {key: {name: sums[name] for name in SUMS} for key, sums in counts.items()}


def past_turn(conversation: Conversation, asked_at: datetime, **columns: Any) -> Turn:
    """An ended turn of another day; it took 1.5 s unless said otherwise."""
    took = columns.pop("took", 1.5)
    turn = make_turn(conversation, **columns)
    finished = asked_at + timedelta(seconds=took)
    Turn.objects.filter(pk=turn.pk).update(started_at=asked_at, finished_at=finished)
    return Turn.objects.get(pk=turn.pk)


#: Late in the evening of a day that has 25 hours in Paris; a step goes over midnight.
START = datetime(2025, 10, 26, 21, 0, tzinfo=UTC)
EVENTS = "ask end repeat rate withdraw reopen delete purge merge pass_time next_day".split()
#: How a turn ends.
ENDS: list[dict[str, Any]] = [
    {"answer_source": "llm", "llm_calls": 2, "prompt_tokens": 900, "completion_tokens": 70},
    {"answer_source": "memory_guard"},
    {"answer_source": "guard_rail"},
    {"status": TurnStatus.FAILED, "error_code": "llm_timeout"},
]


class Desk:
    """A site in small whose clock is moved by hand; what it deletes is counted by hand before."""

    def __init__(self) -> None:
        self.now = START
        self.deployments: list[Deployment] = [make_deployment(), make_deployment()]
        self.gone = ByHand()
        self.running: list[Any] = []

    def act(self, event: str, at: int) -> None:
        getattr(self, event)(at)

    def _turn(self, at: int, *statuses: str) -> Turn | None:
        found = list(Turn.objects.filter(status__in=statuses).order_by("started_at", "pk"))
        return found[at % len(found)] if found else None

    def ask(self, at: int) -> None:
        conversation = make_conversation(self.deployments[at % 2], visitor=uuid.uuid4())
        Conversation.objects.filter(pk=conversation.pk).update(updated_at=self.now)
        self.running.append(
            claim_turn(conversation_id=conversation.pk, client_message_id=str(uuid.uuid4()), question="q")
        )

    def end(self, at: int) -> None:
        if not self.running:
            return
        claimed = self.running.pop(at % len(self.running))
        run = Turn.objects.filter(pk=claimed.turn.pk).values_list("run", flat=True).first()
        if run is None:
            return
        save_answer(claimed, "answer", run=run, **ENDS[at % 4])

    def repeat(self, at: int) -> None:
        if turn := self._turn(at, "done"):
            Turn.objects.filter(pk=turn.pk).update(asked_again=True)

    def rate(self, at: int) -> None:
        if turn := self._turn(at, "done"):
            give_feedback(turn, [Verdict.UP, Verdict.DOWN][at % 2])

    def withdraw(self, at: int) -> None:
        if turn := self._turn(at, "done"):
            withdraw_feedback(turn)

    def reopen(self, at: int) -> None:
        if (turn := self._turn(at, "failed")) and reopen_turn(turn.pk):
            claimed = claim_turn(
                conversation_id=turn.conversation_id, client_message_id=turn.client_message_id, question="q"
            )
            self.running.append(claimed)

    def delete(self, at: int) -> None:
        if turn := self._turn(at, "done", "failed", "running"):
            self._count_by_hand(Conversation.objects.filter(pk=turn.conversation_id))
            turn.conversation.delete()

    def purge(self, _at: int) -> None:
        old = conversations_older_than(1)
        self._count_by_hand(old)
        for _count in purge(old):
            pass

    def _count_by_hand(self, conversations: Any) -> None:
        turns = Turn.objects.filter(conversation__in=list(conversations))
        self.gone.add(turns.select_related("conversation"), deleted=True)

    def merge(self, _at: int) -> None:
        before = as_counted()
        merge_counts(mock.Mock())
        assert as_counted() == before

    def next_day(self, _at: int) -> None:
        self.now += timedelta(hours=25)

    def pass_time(self, at: int) -> None:
        self.now += timedelta(minutes=7 * (at % 200))


@override_settings(TIME_ZONE="Europe/Paris")
class AnyOrderTest(PropertyTestCase):
    @tried(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 999)), min_size=5, max_size=25))
    def test_counts_are_those_by_hand_in_any_order_of_events(self, events: list[tuple[str, int]]) -> None:
        desk = Desk()
        with (
            mock.patch.object(timezone, "now", side_effect=lambda: desk.now),
            mock.patch("chat.thread.verdicts._report"),
        ):
            for event, at in [("ask", 1), ("end", 0), *events]:
                desk.act(event, at)
                desk.now += timedelta(seconds=31)
            desk.gone.add(Turn.objects.select_related("conversation"))
            assert as_counted() == desk.gone.as_plain()


class CountingTest(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()
        self.conversation = make_conversation(self.deployment)

    def test_day_begins_at_midnight_of_the_site(self) -> None:
        before = datetime(2025, 3, 29, 22, 59, 59, tzinfo=UTC)
        past_turn(self.conversation, before)
        past_turn(self.conversation, before + timedelta(seconds=1))
        # The next day has 23 hours: it ends an hour earlier by UTC.
        past_turn(self.conversation, datetime(2025, 3, 30, 22, 0, tzinfo=UTC))
        with override_settings(TIME_ZONE="Europe/Paris"):
            days = Totals(Period(date(2025, 3, 29), date(2025, 3, 31)), None).days
        assert [sums["all"]["turns"] for sums in days.values()] == [1, 1, 1]

    def test_deployment_that_is_deleted_stays_counted(self) -> None:
        past_turn(self.conversation, START)
        key = self.deployment.pk
        self.deployment.delete()
        assert DailyCount.objects.get().deployment_id == key

    def test_worker_puts_the_same_counts_of_a_day_together_at_night(self) -> None:
        for _number in range(3):
            past_turn(make_conversation(self.deployment), START).conversation.delete()
        assert DailyCount.objects.count() == 3
        carry_out(ensure(JobKind.RETENTION).pk, in_background=True)
        carry_out(ensure(JobKind.FIGURES).pk, in_background=True)
        assert DailyCount.objects.get().turns == 3


ADDRESS = "/admin/chat/turn/figures/"
LAST = date(2026, 3, 31)
PERIOD = Period(LAST - timedelta(days=6), LAST)


def noon(day: date) -> datetime:
    return datetime.combine(day, time(12), tzinfo=ZoneInfo(settings.TIME_ZONE))


class TotalsTest(TestCase):
    """A week of two deployments, counted by hand; what was counted stays when its conversation goes."""

    def setUp(self) -> None:
        self.places = [make_deployment(), make_deployment()]
        stored = {"answer_source": "memory_guard", "took": 1.0}
        written = {"answer_source": "llm", "llm_calls": 2, "prompt_tokens": 900, "completion_tokens": 100, "took": 4.0}
        self.turns = [
            past_turn(make_conversation(self.places[place]), noon(LAST - timedelta(days=ago)), **columns)
            for place, ago, columns in (
                (0, 0, written),
                (1, 0, {**written, "prompt_tokens": 1100, "took": 6.0}),
                (0, 1, stored),
                (1, 1, stored),
                (0, 1, {"answer_source": "guard_rail"}),
                (1, 2, {"status": "failed"}),
                (0, 7, written),
            )
        ]
        for turn, withdrawn in ((self.turns[0], None), (self.turns[2], None), (self.turns[3], timezone.now())):
            Feedback.objects.create(turn=turn, verdict="up", withdrawn_at=withdrawn)
        for turn in (self.turns[2], self.turns[3], self.turns[6]):
            turn.conversation.delete()

    def test_questions_and_ratings_by_exit_deployment_and_day(self) -> None:
        found = Totals(PERIOD, None)
        assert (found.all["turns"], found.all["up"], found.all["down"]) == (6, 2, 0)
        endings = {"llm": 2, "memory_guard": 2, "guard_rail": 1, "failed": 1}
        assert {key: sums["turns"] for key, sums in found.endings.items()} == endings
        assert [found.deployments[place.pk]["turns"] for place in self.places] == [3, 3]
        assert Totals(PERIOD, [self.places[0].pk]).all["turns"] == 3
        days = [
            {kind: sums["turns"] for kind, sums in kinds.items() if kind != "all" and sums["turns"]}
            for kinds in found.days.values()
        ]
        assert days == [{}] * 4 + [{"unfinished": 1}, {"stored": 2, "other": 1}, {"model": 2}]

    def test_what_stored_answers_saved(self) -> None:
        found, names = Totals(PERIOD, None), ("llm_calls", "prompt_tokens", "completion_tokens", "milliseconds")
        assert [found.saved(name) for name in names] == [4, 2000, 200, pytest.approx(8000)]
        with mock.patch("chat.staff.figures.timezone.localdate", return_value=LAST):
            page = superuser_client().get(ADDRESS, {"days": "7"})
        assert page.context["tiles"]["Taux de résolution"] == "66,7\xa0%"  # 4 of 6: one refused, one failed
        rows = {row[0]: row for table in page.context["tables"] if table.key == "savings" for row in table.rows}
        assert rows["Tokens lus"][2] == "2\xa0000,0"


class LimitedFiguresTest(TestCase):
    """Whoever works on some agents reads of their deployments alone, by figures and by name."""

    def test_figures_and_names_are_those_of_their_own_and_of_nobody_where_there_is_none(self) -> None:
        for name in ("Accueil", "Mairie"):
            past_turn(make_conversation(make_deployment(name=name)), timezone.now())
        person = make_staff("chat.view_figures")
        limit = AgentLimit.objects.create(user=person)
        assert client_of(person).get(ADDRESS).context["tiles"]["Questions"] == "0"
        limit.agents.add(Deployment.objects.get(name="Mairie").agent_id)
        page = client_of(person).get(ADDRESS)
        assert page.context["tiles"]["Questions"] == "1"
        self.assertNotContains(page, "Accueil")
        other = Deployment.objects.get(name="Accueil")
        asked = client_of(person).get(ADDRESS, {"deployment": other.pk})
        assert asked.context["tiles"]["Questions"] == "1"
        self.assertNotContains(asked, "Accueil")


class FiguresPageTest(TestCase):
    def test_number_of_queries_does_not_grow_with_questions_or_days(self) -> None:
        client = superuser_client()
        past_turn(make_conversation(), timezone.now())
        client.get(ADDRESS)
        few = queries_of(client, ADDRESS)
        for ago in range(30):
            past_turn(make_conversation(make_deployment()), timezone.now() - timedelta(days=ago))
        assert queries_of(client, f"{ADDRESS}?days=365") <= few + 6
