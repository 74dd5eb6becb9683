"""Statements that are written once do what the ORM does with each of their values."""

import uuid
from datetime import timedelta

import pytest
from django.db import IntegrityError, models, transaction
from django.db.models import F
from django.test import TestCase
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as PropertyTestCase

from agents.statements import (
    PreparedInsert,
    PreparedSelect,
    PreparedSelectIn,
    PreparedUpdate,
    parameter,
)
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from tests.factories import make_conversation

_TITLES = PreparedSelectIn(
    parameter(Conversation, "id"),
    lambda keys: (
        Conversation.objects.filter(pk__in=keys).order_by().values_list("pk", "title", "created_at")
    ),
)
_BY_TITLE = PreparedSelect(
    lambda: (
        Conversation.objects.filter(title=parameter(Conversation, "title"))
        .order_by()
        .values_list("pk")
    )
)
_RETITLE = PreparedUpdate(
    lambda: Conversation.objects.filter(pk=parameter(Conversation, "id")),
    {"title": parameter(Conversation, "title"), "version": F("version") + 1},
)
_INSERT_MESSAGE: PreparedInsert[Message] = PreparedInsert(Message)
_INSERT_TURN: PreparedInsert[Turn] = PreparedInsert(Turn)

_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=200)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)


class StatementTests(TestCase):
    def test_rows_are_converted_as_the_orm_converts_them(self) -> None:
        kept = [make_conversation(title=f"n° {rank}") for rank in range(5)]
        for count in range(6):
            keys = [conversation.pk for conversation in kept[:count]]
            expected = Conversation.objects.filter(pk__in=keys)
            assert sorted(_TITLES.rows(keys)) == sorted(
                expected.values_list("pk", "title", "created_at")
            )

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

    def test_constraints_hold(self) -> None:
        conversation = make_conversation()

        def turn() -> Turn:
            return Turn(
                conversation=conversation, client_message_id="1", lease_expires_at=timezone.now()
            )

        _INSERT_TURN.run(turn())
        with pytest.raises(IntegrityError), transaction.atomic():
            _INSERT_TURN.run(turn())


class InsertedRowTests(PropertyTestCase):
    @given(content=_texts, sources=st.lists(_json, max_size=3), aged=st.integers(0, 10_000))
    def test_inserted_row_is_the_instance(
        self, content: str, sources: list[object], aged: int
    ) -> None:
        conversation = make_conversation()
        turn = _INSERT_TURN.run(
            Turn(
                conversation=conversation,
                client_message_id=content[:100],
                lease_expires_at=timezone.now() - timedelta(seconds=aged),
                trace=sources,
            )
        )
        message = _INSERT_MESSAGE.run(
            Message(
                conversation=conversation,
                turn=turn,
                role=Role.ASSISTANT,
                content=content,
                sources=sources,
            )
        )
        for stored, instance in (
            (Turn.objects.get(pk=turn.pk), turn),
            (Message.objects.for_conversation(conversation.pk).get(pk=message.pk), message),
        ):
            fields: list[models.Field[object, object]] = list(instance._meta.concrete_fields)
            for field in fields:
                assert getattr(stored, field.attname) == getattr(instance, field.attname), field
        assert Turn.objects.get(pk=turn.pk).status == TurnStatus.RUNNING
