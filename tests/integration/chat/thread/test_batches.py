"""`append_batch` and its endpoint: the scenarios of seed 002, sections II, IV, VII and VIII, by name."""

import json
import uuid
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client, TestCase, TransactionTestCase

from agents.models import Deployment
from chat.errors import InvalidToolMessageError, ThreadConflictError
from chat.models import ApiKey, Conversation, Message, Role, secret_hash
from chat.thread.rounds import BatchResult, append_batch, load_thread
from tests.admin_pages import superuser_client
from tests.constants import override
from tests.factories import fresh, make_batch, make_conversation, make_deployment, make_exchange, make_service_token
from tests.waiting import in_threads


def append(messages: list[Message], version: int | None = None) -> BatchResult:
    return append_batch(messages, max_tool_calls=10, expected_version=version)


def wire(*calls: str, relance_index: int = 0) -> list[dict[str, Any]]:
    """A block as a server sends it, with a tool message for each call."""
    asked = [
        {"id": call, "type": "function", "function": {"name": f"tool_{call}", "arguments": "{}"}} for call in calls
    ]
    answers = [
        {
            "role": "tool",
            "tool_call_id": call,
            "name": f"tool_{call}",
            "content": json.dumps({"call": call}),
            "timestamp": "2026-03-01T10:00:00Z",
            "relance_index": relance_index,
            "success": True,
            "error": None,
            "duration_ms": 12,
        }
        for call in calls
    ]
    return [{"role": "assistant", "content": None, "tool_calls": asked}, *answers]


class BatchTests(TestCase):
    def setUp(self) -> None:
        self.conversation = make_conversation()

    def contents(self) -> list[tuple[str, str]]:
        messages = Message.objects.for_conversation(self.conversation.pk)
        return [(message.role, message.tool_call_id) for message in messages]

    def test_ordre_respecte_tools_in_another_order_than_the_calls_are_refused(self) -> None:
        request, first, second = make_batch(self.conversation, "a", "b")
        with pytest.raises(InvalidToolMessageError):
            append([request, second, first])

    def test_atomicite_an_invalid_message_leaves_nothing_of_the_batch(self) -> None:
        request, first, _second = make_batch(self.conversation, "a", "b")
        for messages in ([request, first], [request], [], [first], [request, first, first]):
            with pytest.raises(InvalidToolMessageError):
                append(messages)
        assert self.contents() == []
        assert fresh(self.conversation).version == 0

    def test_tool_messages_alone_answer_the_calls_that_the_thread_left_open(self) -> None:
        request, first, second = make_batch(self.conversation, "a", "b")
        self.store_request(request)
        with pytest.raises(InvalidToolMessageError):
            append([first])
        append([first, second])
        assert [call for _role, call in self.contents()] == ["", "a", "b"]
        with pytest.raises(InvalidToolMessageError):
            append(make_batch(self.conversation, "a", "b")[1:])

    def store_request(self, request: Message) -> None:
        """What no verb writes: a request whose tools are missing."""
        Message.objects.create(
            conversation=self.conversation,
            role=Role.ASSISTANT,
            content="",
            tool_calls=request.tool_calls,
            operation_id=uuid.uuid4(),
        )

    def test_a_thread_that_a_crash_left_open_is_closed_on_load_and_stays_closed(self) -> None:
        request, first, _second = make_batch(self.conversation, "a", "b")
        self.store_request(request)
        for _ in range(2):
            thread = load_thread(conversation_id=self.conversation.pk, limit=50)
            assert [m.success for m in thread.messages] == [None, False, False]
            assert self.contents() == [("assistant", ""), ("tool", "a"), ("tool", "b")]
        assert thread.version == 1

    def test_deduplication_is_a_constraint_on_operation_and_call(self) -> None:
        result = append(make_batch(self.conversation, "a"))
        stored = result.messages[1]
        stored.pk = None
        with pytest.raises(IntegrityError), transaction.atomic():
            stored.save(force_insert=True)
        with pytest.raises(IntegrityError), transaction.atomic():
            Message.objects.create(conversation=self.conversation, role=Role.TOOL, content="{}")

    def test_a_turn_still_has_one_question_and_one_answer(self) -> None:
        turn = make_exchange(self.conversation, "q", "a")
        for batch in (make_batch(self.conversation, "x"), make_batch(self.conversation, "x")):
            for message in batch:
                message.turn = turn
            append(batch)
        with pytest.raises(IntegrityError), transaction.atomic():
            Message.objects.create(conversation=self.conversation, turn=turn, role=Role.ASSISTANT, content="b")


class EndpointTests(TestCase):
    def setUp(self) -> None:
        self.conversation = make_conversation()
        self.token, self.secret = make_service_token()

    def post(self, messages: Any, *, token: str | None = None, data: Any = None, **headers: str) -> Any:
        operation = headers.pop("operation", str(uuid.uuid4()))
        body = {"messages": messages, "operation_id": operation, "relance_index": 0}
        said = {
            **dict.fromkeys(("Idempotency_Key", "X_Operation_ID"), operation),
            "X_Relance_Index": "0",
            "If_Match": "*",
        } | headers
        named = {name.replace("_", "-"): value for name, value in said.items()}
        named.setdefault("Authorization", f"Bearer {self.secret if token is None else token}")
        return Client().post(self.address(), data if data is not None else body, "application/json", headers=named)

    def address(self) -> str:
        return f"/api/ui/chat-sessions/{self.conversation.pk}/messages/batch"

    def test_en_tetes_corps_reponse_are_those_of_the_seed_with_its_etag(self) -> None:
        operation = str(uuid.uuid4())
        response = self.post(wire("a", "b"), operation=operation)
        body = response.json()
        assert (response.status_code, response["ETag"]) == (200, '"1"')
        assert (body["success"], body["applied"]) == (True, True)
        assert body["data"]["session"]["id"] == str(self.conversation.pk)
        assert (body["data"]["operation_id"], body["data"]["relance_index"]) == (operation, 0)
        first, second, _third = body["data"]["messages"]
        assert [call["id"] for call in first["tool_calls"]] == ["a", "b"]
        assert {name: second[name] for name in wire("a")[1]} == wire("a")[1] | {"timestamp": "2026-03-01T10:00:00Z"}
        assert second["session_id"] == str(self.conversation.pk)

    def test_idempotence_applied_false_sur_replays_with_the_same_messages(self) -> None:
        operation = str(uuid.uuid4())
        first = self.post(wire("a"), operation=operation, If_Match='"0"').json()
        again = self.post(wire("a"), operation=operation, If_Match='"0"').json()
        assert (first["applied"], again["applied"]) == (True, False)
        assert first["data"]["messages"] == again["data"]["messages"]
        assert fresh(self.conversation).version == 1
        assert Message.objects.count() == 2

    def test_concurrence_409_resolus_stale_if_match_has_the_current_etag_then_success(self) -> None:
        self.post(wire("a"), If_Match='"0"')
        for stale in ('"0"', '"99"', "rubbish", 'W/"0"'):
            refused = self.post(wire("b"), If_Match=stale)
            assert (refused.status_code, refused["ETag"]) == (409, '"1"')
            assert refused.json()["etag"] == '"1"'
        accepted = self.post(wire("b"), If_Match=refused["ETag"])
        assert (accepted.status_code, accepted["ETag"]) == (200, '"2"')
        calls = Message.objects.for_conversation(self.conversation.pk)
        assert [m.tool_call_id for m in calls] == ["", "a", "", "b"]

    def test_validation_rejet_422_of_arguments_that_are_not_json_and_nothing_is_stored(self) -> None:
        for arguments in ("{", "", "[1]", "NaN", "3"):
            messages = wire("a")
            messages[0]["tool_calls"][0]["function"]["arguments"] = arguments
            response = self.post(messages)
            assert (response.status_code, response.json()["code"]) == (422, "invalid_tool_message")
        assert Message.objects.count() == 0

    def test_structure_stricte_anything_else_than_the_fields_of_the_seed_is_422(self) -> None:
        good = wire("a")
        of_tool: list[dict[str, Any]] = [
            *(
                {"role": "user"},
                {"role": "system"},
                {"tool_call_id": ""},
                {"tool_call_id": "other"},
                {"tool_call_id": 3},
            ),
            *({"name": ""}, {"name": "another_tool"}, {"content": "plain text"}, {"content": ""}, {"content": None}),
            *({"content": {"a": 1}}, {"content": "NaN"}, {"content": '"\\u0000"' + "\x00"}, {"timestamp": "yesterday"}),
            *({"relance_index": -1}, {"relance_index": 1}, {"relance_index": "0"}, {"success": "yes"}, {"error": 5}),
            *({"duration_ms": -1}, {"extra": 1}, {"tool_calls": []}, {"content": json.dumps("x" * 60_000)}),
        ]
        of_assistant: list[dict[str, Any]] = [{"tool_calls": []}, {"tool_call_id": "a"}, {"extra": 1}]
        for position, changes in ((0, of_assistant), (1, of_tool)):
            for change in changes:
                messages = [dict(message) for message in good]
                messages[position] |= change
                assert self.post(messages).status_code == 422, change
        for name in ("tool_call_id", "name", "content", "timestamp", "relance_index"):
            messages = [dict(message) for message in good]
            del messages[1][name]
            response = self.post(messages)
            assert response.status_code == 422, name
            assert name in json.dumps(response.json()["errors"])
        shapes: list[Any] = [[], good[:1], good[1:], "x", [3], [*good, good[1]], None]
        for shape in shapes:
            assert self.post(shape).status_code == 422, shape
        assert Message.objects.count() == 0
        assert self.post(good).status_code == 200

    def test_limits_ten_calls_a_round_and_ten_rounds(self) -> None:
        assert self.post(wire(*map(str, range(11)))).status_code == 422
        assert self.post(wire(*map(str, range(10)))).status_code == 200
        operation = str(uuid.uuid4())
        messages = wire("a", relance_index=10)
        late = {"messages": messages, "operation_id": operation, "relance_index": 10}
        refused = self.post(None, data=late, X_Relance_Index="10", operation=operation)
        assert "relance_index" in refused.json()["errors"]

    def test_each_header_of_the_seed_is_required_and_named(self) -> None:
        for name in ("Idempotency_Key", "X_Operation_ID", "X_Relance_Index", "If_Match"):
            refused = self.post(wire("a"), **{name: ""})
            assert refused.status_code == 422
            assert [*refused.json()["errors"]] == [name.replace("_", "-")]
        assert Message.objects.count() == 0

    def test_headers_that_contradict_the_body_are_422(self) -> None:
        assert self.post(wire("a"), X_Operation_ID=str(uuid.uuid4())).status_code == 422
        assert self.post(wire("a"), X_Relance_Index="4").status_code == 422
        assert Message.objects.count() == 0

    def test_an_idempotency_key_is_for_one_operation(self) -> None:
        assert self.post(wire("a"), Idempotency_Key="k").status_code == 200
        assert self.post(wire("b"), Idempotency_Key="k").status_code == 422

    def test_appels_batch_tokens_serveur_open_the_endpoint_pas_de_token_client(self) -> None:
        for token in ("", "wrong", self.token.key_hash):
            refused = self.post(wire("a"), token=token)
            assert refused.status_code == 401, token
            assert refused["WWW-Authenticate"].startswith("Bearer")
        person = superuser_client()
        body = {"messages": wire("a"), "operation_id": str(uuid.uuid4()), "relance_index": 0}
        assert person.post(self.address(), body, "application/json").status_code == 401
        ApiKey.objects.update(is_revoked=True)
        assert self.post(wire("a")).status_code == 401
        assert Message.objects.count() == 0

    def test_ownership_a_token_for_other_deployments_is_403(self) -> None:
        ApiKey.objects.update(all_deployments=False)
        other = make_deployment()
        self.token.deployments.add(other)
        assert self.post(wire("a")).status_code == 403
        other.delete()
        assert self.post(wire("a")).status_code == 403, "no list left is no right, not every right"
        self.token.deployments.add(self.conversation.deployment)
        assert self.post(wire("a")).status_code == 200

    def test_a_deployment_that_is_switched_off_is_neither_written_nor_read(self) -> None:
        Deployment.objects.update(is_active=False)
        written = self.post(wire("a"))
        authorised = {"Authorization": f"Bearer {self.secret}"}
        read = Client().get(self.address().removesuffix("/batch"), headers=authorised)
        for refused in (written, read):
            assert (refused.status_code, refused.json()["code"]) == (403, "deployment_closed")
        assert not Message.objects.filter(role=Role.TOOL).exists()

    def test_unknown_session_is_404_and_a_body_that_is_no_object_422(self) -> None:
        assert self.post(None, data="{").status_code == 422
        assert self.post(None, data="[]").status_code == 422
        self.conversation = Conversation(pk=uuid.uuid4())
        assert self.post(wire("a")).status_code == 404

    def test_a_body_beyond_the_limit_is_413(self) -> None:
        with override(MAX_BATCH_BYTES=100):
            assert self.post(wire("a")).status_code == 413

    def test_a_server_reads_the_session_with_its_etag(self) -> None:
        self.post(wire("a"))
        response = Client().get(
            self.address().removesuffix("/batch"), headers={"Authorization": f"Bearer {self.secret}"}
        )
        assert (response.status_code, response["ETag"]) == (200, '"1"')
        assert [m["role"] for m in response.json()["messages"]] == ["assistant", "tool"]
        assert Client().get(self.address().removesuffix("/batch")).status_code == 401

    def test_people_see_exchanges_and_not_what_tools_said(self) -> None:
        visitor = Client()
        created = visitor.post(
            "/api/conversations/", {"deployment": self.conversation.deployment.slug}, "application/json"
        )
        self.conversation = Conversation.objects.get(pk=created.json()["id"])
        make_exchange(self.conversation, "q", "a")
        assert self.post(wire("a")).status_code == 200
        shown = visitor.get(f"/api/conversations/{self.conversation.pk}/messages/").json()
        assert [m["content"] for m in shown["messages"]] == ["q", "a"]


class TokenCommandTests(TestCase):
    def test_a_token_is_printed_once_and_only_its_hash_is_kept(self) -> None:
        deployment = make_deployment()
        out, notes = StringIO(), StringIO()
        call_command("issue_service_token", "site", deployment=[deployment.slug], stdout=out, stderr=notes)
        text = out.getvalue().strip()
        token = ApiKey.objects.get()
        assert token.key_hash == secret_hash(text)
        assert text not in (token.key_hash, token.name)
        assert list(token.deployments.all()) == [deployment]
        with pytest.raises(CommandError, match="exists already"):
            call_command("issue_service_token", "site")
        with pytest.raises(CommandError, match="no deployment"):
            call_command("issue_service_token", "other", deployment=["nowhere"])


class FiftyWriters(TransactionTestCase):
    """Writers of their own threads and connections, on one conversation."""

    def test_pas_de_reordre_ni_de_doublons_with_fifty_writers(self) -> None:
        conversation = make_conversation()

        def write(number: int) -> None:
            batch = make_batch(conversation, f"{number}-a", f"{number}-b")
            version = 0 if number % 2 else None
            while True:
                try:
                    first = append(batch, version)
                    break
                except ThreadConflictError as conflict:
                    version = conflict.version
            again = append(batch)
            assert (first.applied, again.applied) == (True, False)

        in_threads(*(partial(write, number) for number in range(50)))
        stored = list(Message.objects.for_conversation(conversation.pk))
        assert len(stored) == 150
        written = set()
        for request, first, second in zip(*[iter(stored)] * 3, strict=True):
            calls = [call["id"] for call in request.tool_calls]
            assert calls == [first.tool_call_id, second.tool_call_id]
            assert len({request.operation_id, first.operation_id, second.operation_id}) == 1
            written.add(calls[0])
        assert len(written) == 50
        assert fresh(conversation).version == 50
