"""Statements that are written once do what the ORM does with each of their values."""

import uuid

from django.db.models import F
from django.test import TestCase

from agents.database import PreparedObject, PreparedSelect, PreparedSelectIn, PreparedUpdate, parameter
from agents.models import Deployment
from chat.models import Conversation
from tests.factories import make_conversation

_TITLES = PreparedSelectIn(
    parameter(Conversation, "id"),
    lambda keys: Conversation.objects.filter(pk__in=keys).order_by().values_list("pk", "title", "created_at"),
)
_BY_TITLE = PreparedSelect(
    lambda: Conversation.objects.filter(title=parameter(Conversation, "title")).order_by().values_list("pk")
)
_RETITLE = PreparedUpdate(
    lambda: Conversation.objects.filter(pk=parameter(Conversation, "id")),
    {"title": parameter(Conversation, "title"), "version": F("version") + 1},
)

_WITH_DEPLOYMENT = PreparedObject(
    lambda: Conversation.objects.filter(pk=parameter(Conversation, "id")).order_by(),
    deployment=PreparedObject(lambda: Deployment.objects.filter(pk=parameter(Deployment, "id"))),
)


class StatementTests(TestCase):
    def test_rows_are_converted_as_the_orm_converts_them(self) -> None:
        kept = [make_conversation(title=f"n° {rank}") for rank in range(5)]
        for count in range(6):
            keys = [conversation.pk for conversation in kept[:count]]
            expected = Conversation.objects.filter(pk__in=keys)
            assert sorted(_TITLES.rows(keys)) == sorted(expected.values_list("pk", "title", "created_at"))

    def test_statement_is_built_once_and_run_with_each_value(self) -> None:
        first, second = make_conversation(title="un"), make_conversation(title="deux")
        with self.assertNumQueries(2):
            found = [_BY_TITLE.rows(title="un"), _BY_TITLE.rows(title="deux")]
        assert found == [[(first.pk,)], [(second.pk,)]]

    def test_update_counts_the_rows_that_matched(self) -> None:
        conversation = make_conversation(title="avant")
        assert _RETITLE.run(id=conversation.pk, title="après") == 1
        assert _RETITLE.run(id=uuid.uuid4(), title="après") == 0
        conversation.refresh_from_db()
        assert (conversation.title, conversation.version) == ("après", 1)

    def test_an_object_is_the_orms_with_what_it_refers_to(self) -> None:
        kept = make_conversation(title="un")
        expected = Conversation.objects.select_related("deployment").get(pk=kept.pk)
        with self.assertNumQueries(2):
            found = _WITH_DEPLOYMENT.get(id=kept.pk)
            assert found.deployment == expected.deployment
        for field in Conversation._meta.concrete_fields:
            assert getattr(found, field.attname) == getattr(expected, field.attname)
        assert found._state.adding is False
        assert _WITH_DEPLOYMENT.get(id=uuid.uuid4()) is None
