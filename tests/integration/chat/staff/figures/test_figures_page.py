"""« Comment va le service »: every figure of the page is the one by hand, for who may see it, in the reader's notation."""

import csv
import io
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, ClassVar
from unittest import mock
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from django.conf import settings
from django.test import TestCase
from django.utils import timezone, translation

from agents.admin_base import admin_url
from agents.models import AgentLimit, Deployment, RuntimeSettings
from chat.models import Conversation, Feedback, Message, Turn
from chat.staff.figures.daily import count_due
from chat.staff.figures.drawing import nice_top
from chat.staff.figures.reading import THINGS, Period, Uses, by_day, most_used, never_used, steps, topics, totals, uses
from chat.staff.figures.tables import shown
from faqs.models import LearnedResponse, QuestionGroup, UnansweredQuestion
from knowledge.models import Chunk
from tests.admin_pages import client_of, make_staff, queries_of, superuser_client
from tests.factories import add_document, make_agent, make_conversation, make_deployment, make_learned
from tests.figures_lab import local_day, past_turn

ADDRESS = "/admin/chat/turn/figures/"
LAST = date(2026, 3, 31)
PERIOD = Period(LAST - timedelta(days=9), LAST)
EXITS = ("memory_guard", "direct_qa", "llm", "llm", "guard_rail", "clarification", "round_limit", "")


@pytest.fixture(autouse=True, scope="module")
def _some_weeks_later() -> Iterator[None]:
    """By the real clock every count would be of a day more with every day that passes."""
    began, today = timezone.now(), noon(LAST + timedelta(days=20))
    later = mock.patch.object(timezone, "now", side_effect=lambda: today + (datetime.now(UTC) - began))
    with later:
        yield


def noon(day: date) -> datetime:
    return datetime.combine(day, time(12), tzinfo=ZoneInfo(settings.TIME_ZONE))


def make_traffic(turns: int) -> None:
    """Questions of thirty days in two deployments, half of them asked after a first count."""
    draw = random.Random(5)  # noqa: S311  # the same traffic each time
    agent = make_agent()
    add_document(agent)
    chunks = list(Chunk.objects.values_list("pk", flat=True))
    answers = [make_learned(agent, question=f"Question {n} ?", answer=f"{n}").pk for n in range(3)]
    places = [make_deployment(agent, name="Accueil"), make_deployment(name="Mairie")]
    for at in range(turns):
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
            trace=[
                {"step": "search", "ms": round(draw.random() * 90, 2)},
                {"step": "generation", "ms": round(draw.random() * 9_000, 2)},
            ][: 1 + written],
        )
        if draw.random() < 0.4:
            verdict = draw.choice(["up", "up", "down"])
            withdrawn = timezone.now() if draw.random() < 0.2 else None
            Feedback.objects.create(turn=turn, verdict=verdict, withdrawn_at=withdrawn)
        if at == turns // 2:
            count_due()


def within(period: Period, **columns: Any) -> list[Turn]:
    """The turns of a period, by a plain walk over all of them."""
    turns = Turn.objects.filter(**columns).select_related("conversation", "feedback")
    return [turn for turn in turns if period.first <= local_day(turn.started_at) <= period.last]


class FiguresByHandTest(TestCase):
    turns: ClassVar[dict[Period, list[Turn]]]

    @classmethod
    def setUpTestData(cls) -> None:
        make_traffic(240)
        count_due()
        cls.turns = {period: within(period) for period in (PERIOD, PERIOD.before)}
        # What was counted stays when its conversations go.
        for conversation in Conversation.objects.order_by("pk")[::3]:
            conversation.delete()
        count_due()
        RuntimeSettings(values={"prompt_price": "2.5", "completion_price": "10"}).save()

    def test_questions_by_exit_deployment_and_language(self) -> None:
        for period, turns in self.turns.items():
            found = totals(period)
            assert found.all.turns == len(turns)
            endings = Counter(turn.answer_source if turn.status == "done" else turn.status for turn in turns)
            assert {key: each.turns for key, each in found.endings.items()} == endings
            places = Counter(turn.conversation.deployment_id for turn in turns)
            assert {key: each.turns for key, each in found.deployments.items()} == places
            languages = Counter(turn.language for turn in turns)
            assert {key: each.turns for key, each in found.languages.items()} == languages

    def test_questions_and_ratings_of_each_day(self) -> None:
        for period, turns in self.turns.items():
            found = by_day(period)
            assert list(found) == period.each()
            for day, sums in found.items():
                asked = [turn for turn in turns if local_day(turn.started_at) == day]
                kinds = Counter(_kind(turn) for turn in asked)
                assert {key: n.turns for key, n in sums.items() if key != "all"} == kinds
                rated = Counter(
                    turn.feedback.verdict
                    for turn in asked
                    if hasattr(turn, "feedback") and turn.feedback.withdrawn_at is None
                )
                every = sums["all"]
                assert (every.turns, every.up, every.down) == (len(asked), rated["up"], rated["down"])

    def test_what_stored_answers_saved(self) -> None:
        turns = self.turns[PERIOD]
        model = [turn for turn in turns if _kind(turn) == "model"]
        stored = [turn for turn in turns if _kind(turn) == "stored"]
        saved = totals(PERIOD).saved()
        assert saved is not None
        for name, column in (
            ("calls", "llm_calls"),
            ("prompt_tokens", "prompt_tokens"),
            ("completion_tokens", "completion_tokens"),
        ):
            mean = sum(getattr(turn, column) for turn in model) / len(model)
            spent = sum(getattr(turn, column) for turn in stored)
            assert getattr(saved, name) == pytest.approx(len(stored) * mean - spent)
        means = [sum(map(_milliseconds, each)) / len(each) for each in (model, stored)]
        assert saved.seconds is not None
        assert saved.seconds == pytest.approx(len(stored) * (means[0] - means[1]) / 1000)
        rows = {row["Épargne"]: row for row in self.download("savings")}
        money = saved.prompt_tokens * 2.5 / 1e6 + saved.completion_tokens * 10 / 1e6
        assert float(rows["Argent"]["Épargné"]) == pytest.approx(money)

    def test_how_long_each_step_took(self) -> None:
        lines = [line for turn in self.turns[PERIOD] for line in turn.trace]
        found = steps(PERIOD)
        assert [step.name for step in found] == ["generation", "search"]
        for step in found:
            took = [line["ms"] for line in lines if line["step"] == step.name]
            assert (step.times, step.slowest) == (len(took), max(took))
            assert step.total == pytest.approx(sum(took))

    def test_how_often_each_passage_and_answer_was_used(self) -> None:
        # Of turns of which nothing was deleted, so that their answers are there to be read by hand.
        deployment = make_deployment()
        day = LAST - timedelta(days=1)
        chunks = list(Chunk.objects.values_list("pk", flat=True))[:2]
        for sources in ([chunks[0], chunks[0]], [chunks[0], chunks[1]], [chunks[1]], [chunks[0]]):
            past_turn(make_conversation(deployment), noon(day), sources=[{"chunk_id": key} for key in sources])
        count_due()
        by_hand = Counter(
            key
            for message in Message.objects.filter(conversation__deployment=deployment)
            for key in {source["chunk_id"] for source in message.sources}
        )
        found = uses(PERIOD, deployment.pk)
        assert next(found["passage"].most(9)) == dict(by_hand.most_common())
        everywhere = uses(PERIOD)
        never = never_used(THINGS[1], everywhere["answer"], None, 9)
        learned = set(LearnedResponse.objects.values_list("pk", flat=True))
        unused = learned - set(everywhere["answer"].keys.tolist())
        assert (never.total, never.unused) == (len(learned), len(unused))
        assert {each.row.pk for each in never.named} == unused

    def test_what_is_gone_takes_no_place_among_the_most_used(self) -> None:
        gone, chunk = Chunk.objects.order_by("-pk")[0].pk + 1, Chunk.objects.order_by("pk")[0]
        keys = [*range(gone, gone + 20), chunk.pk]
        used = Uses(np.array(keys), np.array([9] * 20 + [1]))
        assert [each.row for each in most_used(THINGS[0], used, 2)] == [chunk]

    def test_downloads_hold_what_the_page_shows_for_every_table(self) -> None:
        page = superuser_client().get(ADDRESS, self.query())
        for table in page.context["report"].tables:
            if not table.rows:
                continue
            rows = list(self.download(table.key))
            assert len(rows) == len(table.rows)
            self.assertContains(page, f'csv={table.key}"')
        days = self.download("days")
        assert sum(int(row["Questions"]) for row in days) == len(self.turns[PERIOD])

    def test_page_says_them_in_the_reader_s_notation(self) -> None:
        page = superuser_client().get(ADDRESS, self.query())
        every = len(self.turns[PERIOD])
        stored = sum(_kind(turn) == "stored" for turn in self.turns[PERIOD])
        share = f"{100 * stored / every:.1f}".replace(".", ",")
        self.assertContains(page, f"{share}\u00a0%")
        self.assertContains(page, f"<dd>{every} ")

    def query(self) -> dict[str, str]:
        return {"first": str(PERIOD.first), "last": str(PERIOD.last)}

    def download(self, key: str) -> list[dict[str, str]]:
        answer = superuser_client().get(ADDRESS, {**self.query(), "csv": key})
        assert answer["Content-Type"] == "text/csv"
        return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))


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
        self.person = make_staff("chat.view_figures", "knowledge.view_chunk")
        self.limit = AgentLimit.objects.create(user=self.person)
        self.own = Deployment.objects.get(name="Mairie")

    def test_nothing_is_told_to_whoever_has_no_deployment(self) -> None:
        assert client_of(self.person).get(ADDRESS).status_code == 403

    def test_figures_and_names_are_those_of_their_own(self) -> None:
        self.limit.agents.add(self.own.agent_id)
        page = client_of(self.person).get(ADDRESS)
        assert [str(each) for each in page.context["form"].fields["deployment"].queryset] == ["Mairie"]
        assert page.context["form"].cleaned_data["deployment"] == self.own
        named = {table.key: table for table in page.context["report"].tables}
        assert "deployments" not in named
        assert not named["used-passage"].rows
        other = Deployment.objects.get(name="Accueil")
        asked = client_of(self.person).get(ADDRESS, {"deployment": other.pk})
        assert "report" not in asked.context


class FiguresPageTest(TestCase):
    def test_it_asks_for_a_right_of_its_own(self) -> None:
        assert client_of(make_staff("chat.view_turn")).get(ADDRESS).status_code == 403
        front = client_of(make_staff("chat.view_turn")).get("/admin/")
        self.assertNotContains(front, ADDRESS)
        allowed = client_of(make_staff("chat.view_figures"))
        assert allowed.get(ADDRESS).status_code == 200
        self.assertContains(allowed.get("/admin/"), ADDRESS)

    def test_an_empty_site_says_what_will_be_here(self) -> None:
        self.assertContains(superuser_client().get(ADDRESS), "Ici seront, jour par jour")

    def test_words_of_people_and_of_documents_ask_for_their_own_rights(self) -> None:
        past_turn(make_conversation(), timezone.now())
        client = client_of(make_staff("chat.view_figures", "knowledge.view_chunk"))
        keys = {table.key for table in client.get(ADDRESS).context["report"].tables}
        assert {"used-passage", "unused-passage"} <= keys
        assert not keys & {"topics", "used-answer", "used-memory"}
        assert client.get(ADDRESS, {"csv": "topics"}).status_code == 404

    def test_number_of_queries_does_not_grow_with_questions_or_days(self) -> None:
        client = superuser_client()
        past_turn(make_conversation(), timezone.now())
        client.get(ADDRESS)
        few = queries_of(client, ADDRESS)
        make_traffic(30)
        count_due()
        assert queries_of(client, f"{ADDRESS}?days=365") <= few + 6

    def test_dates_that_make_no_period_are_said(self) -> None:
        past_turn(make_conversation(), timezone.now())
        client = superuser_client()
        for query, told in (
            ({"first": "2026-05-02", "last": "2026-05-01"}, "La première date est après"),
            ({"first": "1999-01-01", "last": "2026-05-01"}, "Une période a 731"),
            ({"first": "0001-01-01", "last": "0001-01-02"}, "hors du calendrier"),
            ({"first": "hier"}, "Saisissez une date valide"),
            ({"days": "12"}, "Sélectionnez un choix valide"),
        ):
            page = client.get(ADDRESS, query)
            assert page.status_code == 200
            assert "report" not in page.context
            self.assertContains(page, told)

    def test_topics_are_those_asked_most(self) -> None:
        agent = make_agent()
        groups = [
            QuestionGroup.objects.create(agent=agent, question=text, vector=b"", recipe="")
            for text in ("=Piscine ?", "Gare ?")
        ]
        day = noon(LAST)
        asked = ((0, 0, "refused"), (0, 1, "low_score"), (1, 2, "refused"), (0, 12, "refused"), (1, 3, "reported"))
        for at, (group, ago, reason) in enumerate(asked):
            UnansweredQuestion.objects.create(
                agent=agent,
                group=groups[group],
                question="?",
                reason=reason,
                source_turn=f"{at:032d}",
                asked_at=day - timedelta(days=ago),
                vector=b"",
                recipe="",
            )
        found = [(each.text, each.times, each.before) for each in topics(PERIOD, None, 9)]
        assert found == [("=Piscine ?", 2, 1), ("Gare ?", 1, 0)]
        query = {"first": str(PERIOD.first), "last": str(PERIOD.last), "csv": "topics"}
        sheet = superuser_client().get(ADDRESS, query).content.decode("utf-8-sig")
        assert "'=Piscine ?,2,1" in sheet

    def test_words_of_people_are_escaped(self) -> None:
        hostile = "<script>alert(1)</script>"
        past_turn(make_conversation(make_deployment(name=hostile)), timezone.now())
        page = superuser_client().get(ADDRESS)
        self.assertContains(page, "&lt;script&gt;alert(1)")
        self.assertNotContains(page, hostile)

    def test_numbers_are_those_of_the_language(self) -> None:
        with translation.override("fr"):
            assert shown(1234567, "count") == "1\u00a0234\u00a0567"
            assert shown(Decimal("1234.5"), "money") == "1\u00a0234,50"
            assert shown(0.1255, "percent") == "12,6\u00a0%"
        with translation.override("en"):
            assert shown(1234567, "count") == "1,234,567"
            assert shown(0.5, "percent") == "50.0%"
        assert shown(None, "count") == "–"

    def test_axis_ends_at_a_round_number(self) -> None:
        assert [nice_top(n) for n in (0, 1, 3, 10, 11, 60, 2740)] == [1, 1, 3, 10, 20, 60, 3000]

    def test_policy_of_the_page_needs_no_style_within(self) -> None:
        past_turn(make_conversation(), timezone.now())
        page = superuser_client().get(ADDRESS).content.decode()
        svg = page[page.index('<svg class="rp-chart"') :]
        assert "style=" not in svg[: svg.index("</svg>")]

    def test_page_is_under_its_address(self) -> None:
        assert admin_url(Turn, "figures") == ADDRESS
