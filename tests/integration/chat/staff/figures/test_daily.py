"""Days counted into rows: the same as by hand, however events and counts are mixed, and after deletions."""

import uuid
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from typing import Any
from unittest import mock

from django.core.management import call_command
from django.test import TestCase, override_settings
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as PropertyTestCase

from agents.jobs import carry_out, ensure
from agents.models import Deployment, JobKind
from chat.archive.retention import conversations_older_than, purge
from chat.models import Conversation, CountedDay, DailyCount, DailyStep, DailyUse, DayToCount, Turn, TurnStatus, Verdict
from chat.staff.figures import daily
from chat.staff.figures.daily import bring_up_to_date, count_anew, count_day, count_due, due_days
from chat.thread.turns import Ending, claim_turn, rename_conversation, reopen_turn, save_exchange
from chat.thread.verdicts import give_feedback, withdraw_feedback
from tests.constants import override
from tests.factories import make_conversation, make_deployment, make_ending
from tests.figures_lab import ByHand, as_counted, past_turn

#: A night later the first day is counted for good, unless something of it changes; or a turn of it still runs.
PRELUDES = (
    "ask end_stored ask end_model ask fail next_day next_day count".split(),
    "ask end_stored ask next_day next_day count".split(),
)
#: Late in the evening of a day that has 25 hours in Paris; a step goes over midnight.
START = datetime(2025, 10, 26, 21, 0, tzinfo=UTC)
TRACE: list[dict[str, Any]] = [
    {"step": "search", "outcome": "found", "ms": 12.34, "detail": ""},
    {"step": "memory_guard", "outcome": "respond_from_memory", "ms": 0.5, "entry": 7},
    {"step": "answer_before", "text": "no time is kept of it"},
]
SOURCES: list[dict[str, Any]] = [
    {"n": 1, "chunk_id": 3, "learned_id": None},
    {"n": 2, "chunk_id": 3},
    {"learned_id": 5},
]
EVENTS = "ask end_stored end_model fail rate_up rate_down withdraw reopen title delete purge count count_one look pass_time next_day".split()


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
                SOURCES,
                {**ending.columns, "trace": TRACE, "language": ["fr", "en"][at % 2], **columns},
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

    def count(self, _at: int) -> None:
        count_due()

    def count_one(self, at: int) -> None:
        if days := due_days():
            count_day(days[at % len(days)])

    def look(self, _at: int) -> None:
        bring_up_to_date()

    def next_day(self, _at: int) -> None:
        self.now += timedelta(hours=25)

    def pass_time(self, at: int) -> None:
        self.now += timedelta(minutes=7 * (at % 200))


@override(TIME_ZONE="Europe/Paris", FIGURES_FRESH_SECONDS=0.0)
class AnyOrderTest(PropertyTestCase):
    @settings(max_examples=60, deadline=None)
    @given(
        st.sampled_from(PRELUDES),
        st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 999)), min_size=1, max_size=20),
    )
    def test_counts_are_those_by_hand_however_events_and_counts_are_mixed(
        self, prelude: list[str], events: list[tuple[str, int]]
    ) -> None:
        desk = Desk()
        with (
            mock.patch.object(timezone, "now", side_effect=lambda: desk.now),
            mock.patch("chat.thread.verdicts._report"),
        ):
            for event, at in [*((event, 1) for event in prelude), *events]:
                desk.act(event, at)
                desk.now += timedelta(seconds=31)
            count_due()
            desk.gone.add(Turn.objects.select_related("conversation"))
            assert as_counted() == desk.gone.as_plain()
            before = as_counted()
            count_anew()
            assert as_counted() == before


class CountingTest(TestCase):
    """Some weeks after the days that are counted: by the real clock each test would count a day more with every day."""

    def setUp(self) -> None:
        self.today = START + timedelta(days=30)
        began = timezone.now()
        self.enterContext(
            mock.patch.object(timezone, "now", side_effect=lambda: self.today + (datetime.now(UTC) - began))
        )
        self.deployment = make_deployment()
        self.conversation = make_conversation(self.deployment)

    def test_day_begins_at_midnight_of_the_site(self) -> None:
        self.today = datetime(2025, 4, 10, 12, 0, tzinfo=UTC)
        before = datetime(2025, 3, 29, 22, 59, 59, tzinfo=UTC)
        past_turn(self.conversation, before)
        past_turn(self.conversation, before + timedelta(seconds=1))
        # The next day has 23 hours: it ends an hour earlier by UTC.
        past_turn(self.conversation, datetime(2025, 3, 30, 22, 0, tzinfo=UTC))
        with override_settings(TIME_ZONE="Europe/Paris"):
            count_due()
        days = DailyCount.objects.order_by("day").values_list("day", "turns")
        assert list(days) == [(date(2025, 3, 29), 1), (date(2025, 3, 30), 1), (date(2025, 3, 31), 1)]

    def test_counting_twice_writes_the_same(self) -> None:
        past_turn(self.conversation, START, sources=SOURCES, trace=TRACE)
        assert count_due() > 30
        once = as_counted()
        assert once[2]
        count_anew()
        assert as_counted() == once

    def test_of_two_counts_at_once_the_second_is_not_written(self) -> None:
        turn = past_turn(self.conversation, START)
        day = date(2025, 10, 26)
        inner = daily.tally_of

        def read_while_another_counts(of: date) -> Any:
            found = inner(of)
            with mock.patch.object(daily, "tally_of", inner):
                give_feedback(turn, Verdict.UP)
                assert count_day(of)
            return found

        with mock.patch.object(daily, "tally_of", read_while_another_counts):
            assert not count_day(day)
        assert DailyCount.objects.get(day=day).up == 1

    def test_what_changes_while_a_day_is_read_leaves_it_due(self) -> None:
        turn = past_turn(self.conversation, START)
        count_due()
        inner = daily.tally_of

        def read_then_rated(of: date) -> Any:
            found = inner(of)
            give_feedback(turn, Verdict.UP)
            return found

        day = date(2025, 10, 26)
        with mock.patch.object(daily, "tally_of", read_then_rated):
            count_day(day)
        assert day in due_days()
        count_due()
        assert DailyCount.objects.get(day=day).up == 1
        assert not DayToCount.objects.exists()

    def test_deleted_conversations_stay_counted_in_one_row_without_a_trace_of_them(self) -> None:
        conversations = [make_conversation(self.deployment) for _each in range(3)]
        for conversation in conversations:
            past_turn(conversation, START, sources=SOURCES, trace=TRACE)
        count_due()
        counted = as_counted()
        for conversation in conversations:
            conversation.delete()
        count_due()
        assert as_counted() == counted
        for model in (DailyCount, DailyStep):
            assert not model.objects.filter(is_past=False).exists()
        assert DailyCount.objects.get().turns == 3
        assert DailyUse.objects.count() == 2

    def test_deployment_that_is_deleted_stays_counted(self) -> None:
        past_turn(self.conversation, START)
        count_due()
        key = self.deployment.pk
        self.deployment.delete()
        count_due()
        assert DailyCount.objects.get().deployment_id == key

    def test_turn_that_runs_over_midnight_keeps_its_day_due(self) -> None:
        turn = past_turn(self.conversation, START)
        Turn.objects.filter(pk=turn.pk).update(status=TurnStatus.AWAITING_APPROVAL)
        count_due()
        assert due_days()[-1] == date(2025, 10, 26)
        Turn.objects.filter(pk=turn.pk).update(status=TurnStatus.DONE)
        count_due()
        assert DailyCount.objects.get().status == "done"

    def test_page_counts_a_few_days_and_says_how_many_are_left(self) -> None:
        past_turn(self.conversation, timezone.now() - timedelta(days=9))
        assert bring_up_to_date() == 7
        assert bring_up_to_date() == 4
        assert bring_up_to_date() == 1
        assert bring_up_to_date() == 0
        with mock.patch.object(daily, "count_day") as counting:
            bring_up_to_date()
        counting.assert_not_called()

    def test_worker_counts_the_days_at_night_after_it_deleted(self) -> None:
        past_turn(self.conversation, timezone.now() - timedelta(days=1))
        carry_out(ensure(JobKind.RETENTION).pk, in_background=True)
        carry_out(ensure(JobKind.FIGURES).pk, in_background=True)
        assert DailyCount.objects.get().turns == 1
        assert not due_days(unless_counted_since=timezone.now() - timedelta(minutes=1))

    def test_command_counts_what_is_due_or_everything(self) -> None:
        past_turn(self.conversation, timezone.now() - timedelta(days=2))
        out = StringIO()
        call_command("count_days", "--json", stdout=out)
        assert out.getvalue().strip() == '{"days": 3}'
        DailyCount.objects.update(turns=99)
        call_command("count_days", "--all", stdout=StringIO())
        assert DailyCount.objects.get().turns == 1
        assert CountedDay.objects.count() == 3
