"""What every list of the admin holds against: many rows, searches of any length, and look-ups in columns that hold secrets."""

import io
import itertools
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import Group
from django.db.models import Field, JSONField
from django.test import Client, override_settings

from agents.admin_base import StaffAdmin, admin_url
from agents.models import JobKind, RuntimeSettings
from chat.models import ApiKey, Conversation, Feedback, Turn
from faqs.models import QuestionGroup
from knowledge.models import Category, Chunk, Document, IndexBuild, PairVerdict, WebSource
from tests.admin_pages import queries_of, superuser_client
from tests.doors.world import make_site
from tests.factories import (
    make_agent,
    make_calibration,
    make_conversation,
    make_deployment,
    make_entry,
    make_exchange,
    make_learned,
    make_source,
    make_user,
)
from tools_registry.models import ToolOverride

pytestmark = pytest.mark.django_db
LISTS = list(admin.site._registry.values())
SEARCHED = [each for each in LISTS if each.search_fields]
#: Columns whose value is a secret, or tells one that is tried.
_TELLING = re.compile(r"hash|token(?!s)|secret|password|digest|key\b", re.IGNORECASE)
#: Shown to whoever may see the row, or a number of something.
_HARMLESS = {"public_key", "api_key", "asks_per_minute_key"}


def telling(each: "ModelAdmin[Any]") -> list[str]:
    columns = (f for f in each.model._meta.get_fields() if isinstance(f, Field))
    return [f.name for f in columns if _TELLING.search(f.name) and f.name not in _HARMLESS]


#: Nobody adds (a) or deletes (d) a row by hand, or changes (c) it in its form.
DERIVED = {
    "agents.Agent": "a",
    "agents.RuntimeSettings": "ad",
    "knowledge.IndexBuild": "adc",
    "knowledge.Chunk": "ad",
    "tools_registry.ToolOverride": "ad",
    "chat.Conversation": "ac",
    "chat.Turn": "adc",
}


@pytest.fixture
def client() -> Client:
    return superuser_client()


def makers() -> dict[str, Callable[[], object]]:
    """What adds a row to each list that grows; every row is of the same agent."""
    deployment, names = make_deployment(), (f"name-{number}" for number in itertools.count())
    agent, source = deployment.agent, make_source()
    category, group = Category.objects.create(name="Tarifs"), QuestionGroup(agent=agent, recipe="r", vector=b"")

    def make_chunk() -> None:
        document = Document.objects.create(agent=agent, name=next(names), category=category, file="a.md")
        Chunk.objects.create(
            document=document, category=category, index=0, content="Texte.", content_hash=document.name
        )

    def make_tool() -> None:
        name = next(names)
        ToolOverride.objects.create(source=source, tool_name=name, remote_name=name)

    def make_report() -> None:
        turn = make_exchange(make_conversation(deployment), "Quand ?", "À 9 h.")
        Feedback.objects.create(turn=turn, verdict="down")

    def make_group() -> None:
        group.pk, group.question = None, next(names)
        group.save()

    return {
        "auth.User": make_user,
        "auth.Group": lambda: Group.objects.create(name=next(names)),
        "agents.Agent": make_agent,
        "agents.Deployment": make_deployment,
        "knowledge.Category": lambda: Category.objects.create(name=next(names)),
        "knowledge.Document": make_chunk,
        "knowledge.Chunk": make_chunk,
        "knowledge.IndexBuild": lambda: IndexBuild.objects.create(agent=agent, kind=JobKind.DOCUMENTS),
        "knowledge.WebSource": lambda: WebSource.objects.create(agent=agent, url=f"http://example.org/{next(names)}"),
        "knowledge.ThresholdCalibration": make_calibration,
        "knowledge.PairVerdict": lambda: PairVerdict.objects.create(stored=next(names), asked="b", same_answer=True),
        "faqs.LearnedResponse": lambda: make_learned(agent, phrasings=["Autre ?"]),
        "faqs.CachedResponse": lambda: make_entry(deployment, f"Question {next(names)} ?"),
        "faqs.QuestionGroup": make_group,
        "tools_registry.ToolOverride": make_tool,
        "tools_registry.ToolSource": lambda: make_source(slug=next(names)),
        "chat.Conversation": make_report,
        "chat.Turn": make_report,
        "chat.Feedback": make_report,
    }


def test_lists_take_the_same_queries_whatever_their_length(client: Client) -> None:
    for label, make_row in makers().items():
        address = admin_url(label, "changelist")
        make_row()
        client.get(address)  # content types and the like are cached by the first request
        one = queries_of(client, address)
        for _row in range(9):
            make_row()
        assert queries_of(client, address) == one, label


def test_rows_that_are_derived_are_not_made_by_hand(client: Client) -> None:
    world = make_site()
    turn = make_exchange(make_conversation(world.deployment), "Quand ?", "À 9 h.")
    rows: dict[Any, Any] = {**world.rows, Turn: turn, Conversation: turn.conversation}
    for label, closed in DERIVED.items():
        row = rows[apps.get_model(label)]
        pages = {
            "a": admin_url(label, "add"),
            "d": admin_url(label, "delete", row.pk),
            "c": admin_url(label, "change", row.pk),
        }
        for letter in closed:
            assert client.post(pages[letter], {"post": "yes"}).status_code == 403, pages[letter]


def test_every_list_is_one_of_ours() -> None:
    assert [each for each in LISTS if not isinstance(each, StaffAdmin)] == []


@pytest.mark.parametrize("each", SEARCHED, ids=str)
@pytest.mark.parametrize("term", ["mot " * 1_200, "m" * 60_000, "a\0b"], ids=["words", "one", "nul"])
def test_a_search_of_any_length_is_answered(client: Client, each: "ModelAdmin[Any]", term: str) -> None:
    response = client.get(admin_url(each.model, "changelist"), {"q": term})
    assert response.status_code in (200, 302)
    choices = {"app_label": "knowledge", "model_name": "document", "field_name": "agent", "term": term}
    assert client.get("/admin/autocomplete/", choices).status_code == 200


def test_the_first_words_count(client: Client) -> None:
    make_agent(name="Le service des passeports")
    address = admin_url("agents.agent", "changelist")
    found = client.get(address, {"q": "service passeports"})
    assert found.context["cl"].result_count == 1
    assert client.get(address, {"q": "service " * 100}).context["cl"].result_count == 1
    assert client.get(address, {"q": "piscine " * 100}).context["cl"].result_count == 0


@pytest.mark.parametrize("each", [each for each in LISTS if telling(each)], ids=str)
def test_no_look_up_tells_a_secret(client: Client, each: "ModelAdmin[Any]") -> None:
    for name in telling(each):
        for lookup in ("", "__startswith", "__gt", "__regex", "__in", "__exact"):
            address = admin_url(each.model, "changelist", **{f"{name}{lookup}": "a"})
            assert client.get(address).status_code == 400, address


@pytest.mark.parametrize("each", LISTS, ids=str)
def test_no_value_inside_a_column_is_looked_up(client: Client, each: "ModelAdmin[Any]") -> None:
    for column in (field.name for field in each.model._meta.fields if isinstance(field, JSONField)):
        answer = client.get(admin_url(each.model, "changelist", **{f"{column}__Authorization__gt": "a"}))
        assert answer.status_code == 400 or each.model is RuntimeSettings, column


@pytest.mark.parametrize("each", LISTS, ids=str)
def test_no_pattern_is_looked_up_nor_what_cannot_be_read(client: Client, each: "ModelAdmin[Any]") -> None:
    for column in ("pk", *(field.name for field in each.model._meta.fields)):
        for comparison, value in (("regex", "("), ("range", "1"), ("contains", "x"), ("iregex", "((a")):
            query = {f"{column}__{comparison}": value}
            answer = client.get(admin_url(each.model, "changelist", **query))
            assert answer.status_code == 400 or each.model is RuntimeSettings, query


def test_nor_through_a_relation(client: Client) -> None:
    ApiKey(name="caller").draw_secret()
    ApiKey.issue_service("server")
    make_user()
    for address in (
        admin_url("agents.deployment", "changelist", api_keys__key_hash__startswith="a"),
        admin_url("chat.conversation", "changelist", user__password__startswith="a"),
        admin_url("chat.conversation", "changelist", api_key__key_hash__startswith="a"),
        admin_url("chat.turn", "changelist", conversation__user__password__startswith="a"),
        admin_url("auth.group", "changelist", user__password__startswith="a"),
    ):
        assert client.get(address).status_code == 400, address


@pytest.mark.parametrize(
    "address", ["/admin/chat/apikey/?key_hash__startswith=a", "/admin/autocomplete/"], ids=["look-up", "choices"]
)
def test_a_refusal_is_one_line_of_the_log(client: Client, address: str) -> None:
    written = io.StringIO()
    (handler,) = [each for each in logging.getLogger().handlers if each.get_name() == "stderr"]
    assert isinstance(handler, logging.StreamHandler)
    before = handler.setStream(written)
    try:
        assert client.get(address).status_code in (302, 400, 403)
        assert Client(raise_request_exception=False).get("/admin/autocomplete/").status_code == 302
    finally:
        handler.setStream(before)
    (line,) = written.getvalue().splitlines()
    assert "Traceback" not in line


#: No row has such a number, and no calendar such a year; the column of either is not one that every list has.
BEYOND = "99999999999999999999"
_DATES = ("created_at", "date_joined", "updated_at", "action_time")


@pytest.mark.parametrize("each", LISTS, ids=str)
def test_a_number_beyond_every_column_is_refused(client: Client, each: "ModelAdmin[Any]") -> None:
    names = {"id__in", "id__exact", "id__gt", "pk__in", "agent", "owner"}
    for field in (f for f in each.model._meta.get_fields() if isinstance(f, Field)):
        if field.is_relation:
            names |= {field.name, f"{field.name}__id__exact", f"{field.name}__id__in"}
    queries = [{name: BEYOND} for name in names]
    queries += [{"agent__id__exact": number} for number in ("+" + "9" * 40, "9_" + BEYOND, f" {BEYOND}", f"-{BEYOND}")]
    queries += [{f"{name}__year": year} for name in _DATES for year in ("9999", "10000", "0")]
    for query in queries:
        response = client.get(admin_url(each.model, "changelist"), query)
        assert response.status_code in (200, 302, 400), query
    chosen = {"action": "delete_selected", "_selected_action": BEYOND}
    response = client.post(admin_url(each.model, "changelist"), chosen)
    assert response.status_code in (200, 302, 403)


def test_many_rows_are_deleted_at_once_and_too_many_are_refused_in_words(client: Client) -> None:
    Category.objects.bulk_create(Category(name=f"{number}") for number in range(1_010))
    keys = list(Category.objects.values_list("pk", flat=True))
    address = admin_url(Category, "changelist")
    chosen = {"action": "delete_selected", "post": "yes", "_selected_action": keys}
    assert client.post(address, chosen).status_code == 302
    assert not Category.objects.exists()
    with override_settings(DATA_UPLOAD_MAX_NUMBER_FIELDS=1_000):
        refused = client.post(address, chosen, headers={"Accept": "text/html"})
    assert refused.status_code == 413
    assert "au plus 1" in refused.content.decode()


@pytest.mark.parametrize("each", LISTS, ids=str)
def test_nor_is_there_a_page_of_such_a_row(client: Client, each: "ModelAdmin[Any]") -> None:
    for page in ("change", "history", "delete"):
        response = client.get(admin_url(each.model, page, BEYOND))
        assert response.status_code in (302, 403, 404), page
