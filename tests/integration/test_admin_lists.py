"""What every list of the admin holds against: searches of any length, and look-ups in columns that hold secrets."""

import io
import logging
import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.db.models import Field
from django.test import Client, override_settings

from agents.admin_base import StaffAdmin, admin_url
from agents.models import RuntimeSettings
from chat.models import ApiKey, ServiceToken
from knowledge.models import Category
from tests.admin_pages import superuser_client
from tests.factories import make_agent, make_user

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


@pytest.fixture
def client() -> Client:
    return superuser_client()


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
def test_no_pattern_is_looked_up_nor_what_cannot_be_read(client: Client, each: "ModelAdmin[Any]") -> None:
    for column in ("pk", *(field.name for field in each.model._meta.fields)):
        for comparison, value in (("regex", "("), ("range", "1"), ("contains", "x"), ("iregex", "((a")):
            query = {f"{column}__{comparison}": value}
            answer = client.get(admin_url(each.model, "changelist", **query))
            assert answer.status_code == 400 or each.model is RuntimeSettings, query


@pytest.mark.parametrize("number", ["+" + "9" * 40, "9_" + "9" * 40, " " + "9" * 40, "-" + "9" * 40])
def test_number_beyond_every_column_is_no_fault(client: Client, number: str) -> None:
    for label in ("faqs.learnedresponse", "faqs.questiongroup"):
        answer = client.get(admin_url(label, "changelist", agent__id__exact=number))
        assert answer.status_code in (302, 400)


def test_nor_through_a_relation(client: Client) -> None:
    ApiKey(name="caller").draw_secret()
    ServiceToken.issue("server")
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
    queries += [{f"{name}__year": year} for name in _DATES for year in ("9999", "10000", "0")]
    for query in queries:
        response = client.get(admin_url(each.model, "changelist"), query)
        assert response.status_code in (200, 302, 400), query
    chosen = {"action": "delete_selected", "_selected_action": BEYOND}
    response = client.post(admin_url(each.model, "changelist"), chosen)
    assert response.status_code in (200, 302, 403)


def test_many_rows_are_deleted_at_once_and_too_many_are_refused_in_words(client: Client) -> None:
    Category.objects.bulk_create(Category(name=f"{number}") for number in range(1_200))
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
