"""Limits on reading: lists, messages and exports are counted for each caller, and for each address."""

from collections.abc import Iterator

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from chat.access import rate_limits
from chat.models import Conversation
from tests.admin_pages import client_of
from tests.factories import make_conversation, make_exchange, make_user

pytestmark = pytest.mark.django_db
LIST = "/api/conversations/"


@pytest.fixture(autouse=True)
def _limits(settings: Settings) -> Iterator[None]:
    settings.RATE_LIMITS = True
    settings.READS_PER_MINUTE, settings.EXPORTS_PER_MINUTE, settings.READERS_PER_ADDRESS = 5, 2, 3
    rate_limits.forget()
    yield
    rate_limits.forget()


@pytest.fixture
def conversation() -> Conversation:
    conversation = make_conversation(user=make_user(), title="t")
    make_exchange(conversation, "Quels horaires ?", "De neuf à dix heures.")
    return conversation


def reader_of(conversation: Conversation) -> Client:
    assert conversation.user is not None
    client = client_of(conversation.user)
    return client


def test_reading_is_counted_for_each_caller(conversation: Conversation) -> None:
    client = reader_of(conversation)
    own = f"{LIST}{conversation.pk}/"
    addresses = [LIST, own, f"{own}messages/", LIST, LIST, LIST]
    answers = [client.get(address) for address in addresses]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 200, 429]
    assert answers[-1].json()["code"] == "rate_limited"
    assert int(answers[-1]["Retry-After"]) > 0
    assert Client().get(LIST).status_code == 200
    # What somebody deletes is not held back by what they have read.
    assert client.delete(own).status_code == 204


def test_exports_have_a_limit_of_their_own(conversation: Conversation) -> None:
    client = reader_of(conversation)
    answers = [client.get(f"{LIST}{conversation.pk}/export?format=md") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert client.get(LIST).status_code == 200


def test_a_new_visitor_each_time_is_counted_by_address() -> None:
    answers = [Client().get(LIST).status_code for _ in range(16)]
    assert answers == [200] * 15 + [429]
