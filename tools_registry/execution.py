"""Running the tools that a model asked for: every call ends as a `ToolResult`, in the order of the calls.

Nothing a tool does raises: a failure is a result that the model reads. The wall of tags is checked again here. A thread
cannot be stopped: a tool that outlives its timeout goes on unheard.
"""

import asyncio
import json
import logging
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError
from django.db.models import F, QuerySet
from django.utils import timezone
from pydantic_core import PydanticSerializationError, to_jsonable_python

from agents.database import in_database, in_thread, short_write
from agents.llm.base import RequestedCall
from agents.texts import read_json
from tools_registry.catalog import permitted_now
from tools_registry.errors import (
    InvalidToolArgumentsError,
    ToolApprovalError,
    ToolDefinitionError,
    ToolError,
    ToolFailedError,
    ToolForbiddenError,
    ToolReportedError,
    ToolServerError,
    ToolTimeoutError,
    UnknownToolError,
)
from tools_registry.models import ToolOverride
from tools_registry.tool import Arguments, NextStep, ToolSpec
from tools_registry.tool import ToolContext as ToolContext

#: How long a tool may take, unless it says so itself.
TOOL_TIMEOUT_SECONDS = 20.0

#: Tools of one round that run at the same time.
TOOL_PARALLEL_CALLS = 4

#: Longer arguments are refused; a longer result is cut before the model sees it.
TOOL_MAX_ARGUMENT_CHARACTERS = 20_000
TOOL_MAX_RESULT_CHARACTERS = 20_000

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

logger = logging.getLogger(__name__)


#: What a model asked for is what is executed.
ToolCall = RequestedCall


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What goes back to the model: `content` is JSON text; `error` is the code of what went wrong."""

    call_id: str
    name: str
    content: str
    success: bool
    error: str | None
    duration_ms: int
    is_personal: bool
    #: What went wrong, for staff; never in a log.
    reason: str = ""


_MOST_REASON = 1_000


def record_selected(names: Iterable[str]) -> None:
    """Count the tools that were offered for a question; called once a turn, after its answer."""
    with short_write():
        _rows_of(names).update(selected=F("selected") + 1)


def record_calls(results: Sequence[ToolResult]) -> None:
    """Count calls, and keep the newest error of each tool for staff."""
    now = timezone.now()
    with short_write():
        for result in results:
            failure: dict[str, Any] = {}
            if not result.success:
                reason = result.reason[:_MOST_REASON]
                failure = {"failed": F("failed") + 1, "last_error": reason, "last_error_at": now}
            _rows_of([result.name]).update(called=F("called") + 1, last_called_at=now, **failure)


def _rows_of(names: Iterable[str]) -> QuerySet[ToolOverride]:
    """The rows of these tools, created where one is missing."""
    wanted = sorted(set(names))
    ToolOverride.objects.bulk_create([ToolOverride(tool_name=name) for name in wanted], ignore_conflicts=True)
    return ToolOverride.objects.filter(tool_name__in=wanted)


async def execute_calls(
    calls: Sequence[ToolCall], *, tools: Sequence[ToolSpec], context: ToolContext, approved: Collection[str] = ()
) -> list[ToolResult]:
    """Run the calls in parallel, up to a limit, in their order. `approved`: the ids of calls that a person approved."""
    offered = {spec.name: spec for spec in tools}
    names = {call.name for call in calls if call.name in offered}
    permitted = await in_database(permitted_now, names, user_id=context.user_id, agent_id=context.agent_id)
    limit = asyncio.Semaphore(TOOL_PARALLEL_CALLS)

    async def run(call: ToolCall) -> ToolResult:
        async with limit:
            return await _execute(
                call,
                offered.get(call.name),
                is_permitted=call.name in permitted,
                is_approved=call.id in approved,
                context=context,
            )

    results = await asyncio.gather(*(run(call) for call in calls))
    ran = [result for result in results if result.name in offered]
    try:
        await in_database(record_calls, ran)
    except DatabaseError as error:
        # A statistic; the tools ran, and their results must reach the thread.
        logger.warning("The use of %d tools was not counted: %s", len(ran), error)
    return results


async def _execute(
    call: ToolCall, spec: ToolSpec | None, *, is_permitted: bool, is_approved: bool, context: ToolContext
) -> ToolResult:
    started = time.perf_counter()
    try:
        if spec is None:
            raise UnknownToolError(f"The tool {call.name[:64]!r} was not offered.")
        if not is_permitted:
            raise ToolForbiddenError(f"The tool {spec.name} is not permitted.")
        if spec.needs_approval and not is_approved:
            raise ToolApprovalError(f"The tool {spec.name} needs approval.")
        value = await _run(spec, parse_arguments(spec, call.arguments), context)
        content = _as_text(value)
        error, reason = None, ""
    except ToolError as refusal:
        content = _error_json(refusal)
        error, reason = refusal.code, str(refusal)
        logger.info("Tool %s: %s.", spec.name if spec else "(unknown)", refusal.code)
    return ToolResult(
        call_id=call.id,
        name=call.name,
        content=content,
        success=error is None,
        error=error,
        duration_ms=round((time.perf_counter() - started) * 1000),
        is_personal=spec is not None and spec.is_personal,
        reason=reason,
    )


def parse_arguments(spec: ToolSpec, text: str) -> Arguments:
    """The arguments as an object that fits the tool's schema; raises `InvalidToolArgumentsError` saying why not."""
    if len(text) > TOOL_MAX_ARGUMENT_CHARACTERS:
        raise InvalidToolArgumentsError(f"The arguments are longer than {TOOL_MAX_ARGUMENT_CHARACTERS}.")
    try:
        # An empty text or null is what some models send for a tool without parameters.
        arguments = {} if text.strip() in ("", "null") else read_json(text)
    except (ValueError, RecursionError) as error:
        raise InvalidToolArgumentsError("The arguments are not JSON.") from error
    if not isinstance(arguments, dict):
        raise InvalidToolArgumentsError("The arguments are not a JSON object.")
    if problem := schema_problem(spec, arguments):
        raise InvalidToolArgumentsError(problem)
    return arguments


def schema_problem(spec: ToolSpec, arguments: Arguments) -> str:
    """What is wrong with the arguments, in words; references are resolved in the schema only."""
    from jsonschema.exceptions import SchemaError, best_match  # 50 ms of each start
    from referencing.exceptions import Unresolvable

    try:
        problem = best_match(_validator(spec).iter_errors(dict(arguments)))
    except (SchemaError, Unresolvable, RecursionError) as error:
        raise ToolDefinitionError(f"The schema of {spec.name} is unusable: {error}") from error
    if problem is None:
        return ""
    path = "/".join(str(part) for part in problem.absolute_path)
    return f"{path}: {problem.message}" if path else str(problem.message)


@lru_cache(maxsize=512)
def _validator(spec: ToolSpec) -> "Validator":
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # An empty registry refuses to retrieve what a schema refers to outside itself.
    return Draft202012Validator(dict(spec.parameters), registry=Registry())


def _as_text(value: object) -> str:
    """A tool's value as JSON text of bounded length (what is longer is cut, and says so)."""
    try:
        text = json.dumps(to_jsonable_python(value), ensure_ascii=False, allow_nan=False)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolFailedError(f"The tool's result has no JSON form: {error}") from error
    limit = TOOL_MAX_RESULT_CHARACTERS
    if len(text) > limit:
        text = json.dumps({"truncated": True, "content": text[:limit]}, ensure_ascii=False)
    return text


async def _run(spec: ToolSpec, arguments: Arguments, context: ToolContext) -> object:
    bridge = in_database if spec.uses_database else in_thread
    seconds = spec.timeout_seconds or TOOL_TIMEOUT_SECONDS
    try:
        async with asyncio.timeout(seconds):
            value = await bridge(spec.invoke, arguments, context)
            while isinstance(value, NextStep):
                bridge = in_database if value.uses_database else in_thread
                value = await bridge(value.run)
    except TimeoutError as error:
        raise ToolTimeoutError(f"The tool {spec.name} took longer than {seconds} s.") from error
    except ToolError:
        raise
    except Exception as error:  # the code of a tool is not ours
        # Its type only: what a tool says of its failure may name persons.
        logger.error("The tool %s failed (%s).", spec.name, type(error).__name__)
        raise ToolFailedError(f"{type(error).__name__} in {spec.name}.") from error
    return value


def _error_json(error: ToolError) -> str:
    """The error for the model, with the details of arguments and the tool's own words; other details go to the log."""
    body = {"code": error.code, "message": str(error.public_message)}
    if isinstance(error, (InvalidToolArgumentsError, ToolReportedError, ToolServerError)):
        body["detail"] = str(error)[:1_000]
    return json.dumps({"error": body}, ensure_ascii=False)
