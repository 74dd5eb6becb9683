"""Execution: every call ends as a result, in order; the wall stands a second time (seed 003, step 1)."""

import json
import threading
import time
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, User
from django.test import TestCase

from tests.constants import override
from tests.factories import declared_tools, make_tool, make_user
from tests.waiting import PATIENCE_SECONDS
from tools_registry.execution import ToolCall, ToolContext, ToolResult, execute_calls
from tools_registry.models import ToolOverride
from tools_registry.tool import NextStep, ToolSpec

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


class ExecutionCase(TestCase):
    async def run_calls(
        self, *calls: ToolCall, tools: list[ToolSpec], user_id: int | None = None, **more: Any
    ) -> list[ToolResult]:
        with declared_tools(*tools):
            return await execute_calls(calls, tools=tools, context=ToolContext(user_id=user_id), **more)

    async def make_admin(self) -> User:
        admin = await sync_to_async(make_user)()
        await admin.groups.aadd(await Group.objects.acreate(name="admin"))
        return admin

    async def run_one(self, spec: ToolSpec, arguments: str = "{}", **more: Any) -> ToolResult:
        call = ToolCall("c1", spec.name, arguments)
        return (await self.run_calls(call, tools=[spec], **more))[0]


class OutcomeTests(ExecutionCase):
    async def test_step_1_tool_asked_by_name_without_the_right_is_refused(self) -> None:
        ran = []
        spec = make_tool("secret", tags=frozenset({"admin"}), invoke=lambda a, _c: ran.append(a))
        admin, other = await self.make_admin(), await sync_to_async(make_user)()
        refused = [
            await self.run_one(spec),
            await self.run_one(spec, user_id=other.pk),
            await self.run_one(spec, user_id=other.pk + 1_000),
        ]
        allowed = await self.run_one(spec, user_id=admin.pk)
        assert {(result.success, result.error) for result in refused} == {(False, "tool_forbidden")}
        assert allowed.success
        assert len(ran) == 1

    @override(TOOL_MAX_ARGUMENT_CHARACTERS=10_000)
    async def test_arguments_are_validated_before_execution(self) -> None:
        ran: list[object] = []
        spec = make_tool("strict", parameters=SCHEMA, invoke=lambda a, _c: ran.append(a))
        for arguments in (
            "{",
            "[]",
            '"n"',
            '{"n": "2"}',
            "{}",
            '{"n": 1, "m": 2}',
            "",
            "[" * 9999,
            '{"n": 1}' + " " * 10_000,
        ):
            result = await self.run_one(spec, arguments)
            assert (result.success, result.error) == (False, "invalid_tool_arguments"), arguments
            assert json.loads(result.content)["error"]["detail"]
        assert ran == []

    async def test_empty_arguments_suit_a_tool_without_parameters(self) -> None:
        assert (await self.run_one(make_tool("now"), "")).success

    async def test_tool_that_takes_too_long_is_a_result(self) -> None:
        released = threading.Event()
        spec = make_tool("slow", invoke=lambda _a, _c: released.wait(), timeout_seconds=0.05)
        try:
            result = await self.run_one(spec)  # before the tool ends
        finally:
            released.set()
        assert result.error == "tool_timeout"

    async def test_steps_share_the_time_of_their_tool(self) -> None:
        def again() -> NextStep:
            time.sleep(0.02)
            return NextStep(again)

        spec = make_tool("endless", invoke=lambda _a, _c: again(), timeout_seconds=0.1)

        assert (await self.run_one(spec)).error == "tool_timeout"

    async def test_result_without_json_form_is_a_failure(self) -> None:
        result = await self.run_one(make_tool("odd", invoke=lambda _a, _c: object()))
        assert result.error == "tool_failed"

    @override(TOOL_MAX_RESULT_CHARACTERS=50)
    async def test_long_result_is_cut_and_stays_json(self) -> None:
        result = await self.run_one(make_tool("long", invoke=lambda _a, _c: ["é" * 500]))
        content = json.loads(result.content)
        assert result.success
        assert content["truncated"] is True
        assert len(content["content"]) == 50


class ParallelTests(ExecutionCase):
    async def test_results_stand_in_the_order_of_the_calls(self) -> None:
        def wait(arguments: Any, _context: Any) -> object:
            time.sleep(arguments["ms"] / 1000)
            return arguments["ms"]

        spec = make_tool("wait", parameters={"type": "object"}, invoke=wait)
        calls = [ToolCall(str(ms), "wait", f'{{"ms": {ms}}}') for ms in (60, 1, 30)]

        results = await self.run_calls(*calls, tools=[spec])

        assert [result.content for result in results] == ["60", "1", "30"]

    @override(TOOL_PARALLEL_CALLS=2)
    async def test_calls_run_in_parallel_up_to_the_limit(self) -> None:
        running, most, lock, two = 0, 0, threading.Lock(), threading.Barrier(2)

        def work(_arguments: Any, _context: Any) -> object:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            two.wait(PATIENCE_SECONDS)
            with lock:
                running -= 1
            return None

        calls = [ToolCall(str(n), "work", "{}") for n in range(6)]
        await self.run_calls(*calls, tools=[make_tool("work", invoke=work)])

        assert most == 2


class UsageTests(ExecutionCase):
    async def test_calls_and_failures_are_counted(self) -> None:
        spec = make_tool("strict", parameters=SCHEMA)
        await self.run_calls(ToolCall("1", "strict", '{"n": 1}'), ToolCall("2", "strict", "{}"), tools=[spec])
        usage = await ToolOverride.objects.aget(tool_name="strict")
        assert (usage.called, usage.failed) == (2, 1)
        assert usage.last_called_at is not None

    async def test_names_that_a_model_made_up_are_not_counted(self) -> None:
        await self.run_calls(ToolCall("1", "invented", "{}"), tools=[make_tool("real")])
        assert not await ToolOverride.objects.aexists()
