"""« Comment va le service »: days counted as by hand in any order of events, and every figure of the page, for who may see it."""

import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.test import TestCase, override_settings
from django.utils import timezone, translation
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as PropertyTestCase

from agents.jobs import carry_out, ensure
from agents.models import AgentLimit, Deployment, JobKind
from chat.models import Conversation, DailyCount, Feedback, Message, Turn, TurnStatus, Verdict
from chat.retention import conversations_older_than, purge
from chat.staff import figures
from chat.staff.figures import Period, Totals, merge_counts, shown
from chat.thread.turns import Ending, claim_turn, rename_conversation, reopen_turn, save_exchange
from chat.thread.verdicts import give_feedback, withdraw_feedback
from knowledge.models import Chunk
from tests.admin_pages import client_of, make_staff, queries_of, superuser_client
from tests.factories import (
    add_document,
    make_agent,
    make_conversation,
    make_deployment,
    make_ending,
    make_learned,
    make_turn,
)

SUMS = "turns llm_calls prompt_tokens completion_tokens timed up down".split()


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
            key = (day, deployment, ending_of(turn, deleted=deleted), turn.language)
            sums = self.counts[key]
            sums["turns"] += 1
            for name in ("llm_calls", "prompt_tokens", "completion_tokens"):
                sums[name] += getattr(turn, name)
            if turn.status == "done" and turn.run == 0 and turn.finished_at is not None:
                sums["timed"] += 1
                self.milliseconds[key] += int((turn.finished_at - turn.started_at).total_seconds() * 1000)
            if verdict := Feedback.objects.filter(turn=turn, withdrawn_at=None).first():
                sums[verdict.verdict] += 1

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
    """An ended turn of another day, with an answer that shows these `sources`; it took 1.5 s unless said otherwise."""
    sources = columns.pop("sources", [])
    took = columns.pop("took", 1.5)
    turn = make_turn(conversation, **{"language": "fr", **columns})
    finished = asked_at + timedelta(seconds=took)
    Turn.objects.filter(pk=turn.pk).update(started_at=asked_at, finished_at=finished)
    Message.objects.create(
        conversation=conversation, turn=turn, role="assistant", content=str(uuid.uuid4()), sources=sources
    )
    return Turn.objects.get(pk=turn.pk)


#: Late in the evening of a day that has 25 hours in Paris; a step goes over midnight.
START = datetime(2025, 10, 26, 21, 0, tzinfo=UTC)
EVENTS = "ask end_stored end_model fail rate_up rate_down withdraw reopen title delete purge merge pass_time next_day".split()


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
        conversation = make_conversation(self.deployments[at % 2], visitor=uuid.uuid4(), is_temporary=at % 5 == 0)
        Conversation.objects.filter(pk=conversation.pk).update(updated_at=self.now)
        self.running.append(
            claim_turn(conversation_id=conversation.pk, client_message_id=str(uuid.uuid4()), question="q")
        )

    def _end(self, at: int, **columns: Any) -> None:
        if not self.running:
            return
        claimed = self.running.pop(at % len(self.running))
        run = Turn.objects.filter(pk=claimed.turn_id).values_list("run", flat=True).first()
        if run is None:
            return
        ending = make_ending(claimed, "answer")
        save_exchange(
            Ending(
                ending.turn_id,
                ending.conversation_id,
                run,
                columns.pop("status", TurnStatus.DONE),
                "answer",
                [],
                {**ending.columns, "language": ["fr", "en"][at % 2], **columns},
            )
        )

    def end_stored(self, at: int) -> None:
        self._end(at, answer_source="memory_guard")

    def end_model(self, at: int) -> None:
        self._end(at, answer_source="llm", llm_calls=2, prompt_tokens=900, completion_tokens=at)

    def fail(self, at: int) -> None:
        self._end(at, status=TurnStatus.FAILED, error_code="llm_timeout")

    def rate_up(self, at: int) -> None:
        if turn := self._turn(at, "done"):
            give_feedback(turn, Verdict.UP)

    def rate_down(self, at: int) -> None:
        if turn := self._turn(at, "done"):
            give_feedback(turn, Verdict.DOWN)

    def withdraw(self, at: int) -> None:
        if turn := self._turn(at, "done"):
            withdraw_feedback(turn)

    def reopen(self, at: int) -> None:
        if (turn := self._turn(at, "failed")) and reopen_turn(turn.pk):
            claimed = claim_turn(
                conversation_id=turn.conversation_id, client_message_id=turn.client_message_id, question="q"
            )
            self.running.append(claimed)

    def title(self, at: int) -> None:
        if turn := self._turn(at, "done"):
            rename_conversation(conversation_id=turn.conversation_id, turn_id=turn.pk, title="t", question="q")

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
            for event, at in [("ask", 1), ("end_model", 1), *events]:
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
            conversation = make_conversation(self.deployment)
            past_turn(conversation, START)
            conversation.delete()
        assert DailyCount.objects.count() == 3
        carry_out(ensure(JobKind.RETENTION).pk, in_background=True)
        carry_out(ensure(JobKind.FIGURES).pk, in_background=True)
        assert DailyCount.objects.get().turns == 3


ADDRESS = "/admin/chat/turn/figures/"
LAST = date(2026, 3, 31)
PERIOD = Period(LAST - timedelta(days=6), LAST)
EXITS = ("memory_guard", "direct_qa", "llm", "llm", "guard_rail", "clarification", "round_limit", "")


def noon(day: date) -> datetime:
    return datetime.combine(day, time(12), tzinfo=ZoneInfo(settings.TIME_ZONE))


def make_traffic(turns: int) -> None:
    """Questions of thirty days in two deployments."""
    draw = random.Random(5)  # noqa: S311  # the same traffic each time
    agent = make_agent()
    add_document(agent)
    chunks = list(Chunk.objects.values_list("pk", flat=True))
    answers = [make_learned(agent, question=f"Question {n} ?", answer=f"{n}").pk for n in range(3)]
    places = [make_deployment(agent, name="Accueil"), make_deployment(name="Mairie")]
    for _at in range(turns):
        source = draw.choice(EXITS)
        written = source in ("llm", "round_limit")
        turn = past_turn(
            make_conversation(draw.choice(places)),
            noon(LAST - timedelta(days=draw.randrange(30))),
            answer_source=source,
            status="done" if source else draw.choice(["failed", "interrupted"]),
            language=draw.choice(["fr", "en", ""]),
            llm_calls=draw.randrange(1, 4) if written else draw.randrange(2),
            prompt_tokens=draw.randrange(4_000) if written else draw.randrange(9),
            completion_tokens=draw.randrange(800) if written else 0,
            took=draw.random() * (9 if written else 1),
            sources=[{"chunk_id": draw.choice(chunks)}, {"learned_id": draw.choice(answers[:2])}],
        )
        if draw.random() < 0.4:
            verdict = draw.choice(["up", "up", "down"])
            withdrawn = timezone.now() if draw.random() < 0.2 else None
            Feedback.objects.create(turn=turn, verdict=verdict, withdrawn_at=withdrawn)


def within(period: Period, **columns: Any) -> list[Turn]:
    """The turns of a period, by a plain walk over all of them."""
    turns = Turn.objects.filter(**columns).select_related("conversation", "feedback")
    return [turn for turn in turns if period.first <= local_day(turn.started_at) <= period.last]


class FiguresByHandTest(TestCase):
    turns: ClassVar[dict[Period, list[Turn]]]

    @classmethod
    def setUpTestData(cls) -> None:
        make_traffic(240)
        cls.turns = {period: within(period) for period in (PERIOD, PERIOD.before)}
        today = mock.patch("chat.staff.figures.timezone.localdate", return_value=LAST)
        today.start()
        cls.addClassCleanup(today.stop)
        # What was counted stays when its conversations go.
        for conversation in Conversation.objects.order_by("pk")[::3]:
            conversation.delete()

    def test_questions_by_exit_and_deployment(self) -> None:
        for period, turns in self.turns.items():
            found = Totals(period, None)
            assert found.all["turns"] == len(turns)
            endings = Counter(map(ending_of, turns))
            assert {key: each["turns"] for key, each in found.endings.items()} == endings
            places = Counter(turn.conversation.deployment_id for turn in turns)
            assert {key: each["turns"] for key, each in found.deployments.items()} == places

    def test_questions_and_ratings_of_each_day(self) -> None:
        for period, turns in self.turns.items():
            found = Totals(period, None).days
            assert list(found) == period.each()
            for day, sums in found.items():
                asked = [turn for turn in turns if local_day(turn.started_at) == day]
                kinds = Counter(_kind(turn) for turn in asked)
                assert {key: n["turns"] for key, n in sums.items() if key != "all" and n["turns"]} == kinds
                rated = Counter(
                    turn.feedback.verdict
                    for turn in asked
                    if hasattr(turn, "feedback") and turn.feedback.withdrawn_at is None
                )
                every = sums["all"]
                assert (every["turns"], every["up"], every["down"]) == (len(asked), rated["up"], rated["down"])

    def test_what_stored_answers_saved(self) -> None:
        turns = self.turns[PERIOD]
        model = [turn for turn in turns if _kind(turn) == "model"]
        stored = [turn for turn in turns if _kind(turn) == "stored"]
        saved: dict[str, Any] = Totals(PERIOD, None).saved() or {}
        for name in ("llm_calls", "prompt_tokens", "completion_tokens"):
            mean = sum(getattr(turn, name) for turn in model) / len(model)
            spent = sum(getattr(turn, name) for turn in stored)
            assert saved[name] == pytest.approx(len(stored) * mean - spent)
        means = [sum(map(_milliseconds, each)) / len(each) for each in (model, stored)]
        assert saved["seconds"] == pytest.approx(len(stored) * (means[0] - means[1]) / 1000, rel=1e-3)
        page = superuser_client().get(ADDRESS, {"days": "7"})
        rows = {row[0]: row for table in page.context["tables"] if table.key == "savings" for row in table.rows}
        assert rows["Tokens lus"][2] == pytest.approx(saved["prompt_tokens"])


def _kind(turn: Turn) -> str:
    if turn.status != "done":
        return "unfinished"
    if turn.answer_source in ("memory_guard", "direct_qa"):
        return "stored"
    return "model" if turn.answer_source in ("llm", "round_limit") else "other"


def _milliseconds(turn: Turn) -> int:
    assert turn.finished_at is not None
    return int((turn.finished_at - turn.started_at).total_seconds() * 1000)


class LimitedFiguresTest(TestCase):
    """Whoever works on some agents reads of their deployments, one at a time, and of theirs alone by name."""

    def setUp(self) -> None:
        make_traffic(40)
        self.person = make_staff("chat.view_figures")
        self.limit = AgentLimit.objects.create(user=self.person)
        self.own = Deployment.objects.get(name="Mairie")

    def test_nothing_is_told_to_whoever_has_no_deployment(self) -> None:
        assert client_of(self.person).get(ADDRESS).status_code == 403

    def test_figures_and_names_are_those_of_their_own(self) -> None:
        self.limit.agents.add(self.own.agent_id)
        page = client_of(self.person).get(ADDRESS)
        assert [str(each) for each in page.context["form"].fields["deployment"].queryset] == ["Mairie"]
        assert page.context["form"].cleaned_data["deployment"] == self.own
        named = {table.key: table for table in page.context["tables"]}
        assert "deployments" not in named
        other = Deployment.objects.get(name="Accueil")
        asked = client_of(self.person).get(ADDRESS, {"deployment": other.pk})
        assert "tables" not in asked.context


class FiguresPageTest(TestCase):
    def test_it_asks_for_a_right_of_its_own(self) -> None:
        assert client_of(make_staff("chat.view_turn")).get(ADDRESS).status_code == 403
        front = client_of(make_staff("chat.view_turn")).get("/admin/")
        self.assertNotContains(front, ADDRESS)
        allowed = client_of(make_staff("chat.view_figures"))
        assert allowed.get(ADDRESS).status_code == 200
        self.assertContains(allowed.get("/admin/"), ADDRESS)

    def test_number_of_queries_does_not_grow_with_questions_or_days(self) -> None:
        client = superuser_client()
        past_turn(make_conversation(), timezone.now())
        client.get(ADDRESS)
        few = queries_of(client, ADDRESS)
        make_traffic(30)
        assert queries_of(client, f"{ADDRESS}?days=365") <= few + 6

    def test_words_of_people_are_escaped(self) -> None:
        hostile = "<script>alert(1)</script>"
        past_turn(make_conversation(make_deployment(name=hostile)), timezone.now())
        page = superuser_client().get(ADDRESS)
        self.assertContains(page, "&lt;script&gt;alert(1)")
        self.assertNotContains(page, hostile)

    def test_numbers_are_those_of_the_language(self) -> None:
        with translation.override("fr"):
            assert shown(1234567, "count") == "1\u00a0234\u00a0567"
            assert shown(1234.5, "decimal") == "1\u00a0234,5"
            assert shown(0.1255, "percent") == "12,6\u00a0%"
        with translation.override("en"):
            assert shown(1234567, "count") == "1,234,567"
            assert shown(0.5, "percent") == "50.0%"
        assert shown(None, "count") == "–"
