"""What a tool is: `ToolSpec`, the `@tool` decorator that makes one of a typed function, and the in-code registry.

The schema and its descriptions come from the signature and the docstring, as in `tools_registry/tools.py`; a parameter
of type `ToolContext` is filled in by the execution. The module `tools.py` of any installed app is imported at start.
"""

import inspect
import json
import re
import typing
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from agents.llm.base import RequestedCall, seen_text
from tools_registry.errors import InvalidToolArgumentsError, ToolDefinitionError

#: A JSON schema of type `object`.
JsonSchema = Mapping[str, Any]
Arguments = Mapping[str, Any]
ToolOrigin = Literal["python", "mcp", "openapi"]

#: What model APIs accept as the name of a function.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom and in which turn a tool runs; nothing in it comes from the model."""

    deployment_id: int | None = None
    agent_id: int | None = None
    conversation_id: uuid.UUID | None = None
    turn_id: uuid.UUID | None = None
    user_id: int | None = None
    language: str = "fr"
    operation_id: str = ""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What a tool returns to go on across the other bridge: no database connection waits for the network."""

    run: Callable[[], object]
    uses_database: bool = False


#: Runs a tool with validated arguments; blocks. What it returns must be JSON, a pydantic-serialisable value, or
#: its `NextStep`.
Invoker = Callable[[Arguments, ToolContext], object]


@dataclass(frozen=True, slots=True, eq=False)
class ToolSpec:
    """A tool as it applies: its name, effective texts, rights, and how to run it. Compared by identity."""

    name: str
    description: str
    parameters: JsonSchema
    invoke: Invoker = field(repr=False)
    tags: frozenset[str] = frozenset()
    keywords: tuple[str, ...] = ()
    is_always_on: bool = False
    uses_database: bool = False
    is_personal: bool = False
    needs_approval: bool = False
    timeout_seconds: float | None = None
    source: ToolOrigin = "python"
    examples: tuple[str, ...] = ()
    is_optional: bool = False

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schemas of its parameters, by name."""
        found = self.parameters.get("properties")
        return found if isinstance(found, dict) else {}

    def as_function(self) -> dict[str, Any]:
        """The tool as model APIs want it (`{"type": "function", "function": {…}}`)."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": seen_text(self.description),
                "parameters": dict(self.parameters),
            },
        }


class Registry:
    """The tools that code declares, by name."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolSpec] = {}
        #: Changes with every declaration.
        self.version = 0

    def register(self, spec: ToolSpec) -> None:
        if spec.name in self._tools:
            raise ToolDefinitionError(f"There are two tools named {spec.name!r}.")
        self._tools = {**self._tools, spec.name: spec}
        self.version += 1

    def remove(self, name: str) -> None:
        self._tools = {key: spec for key, spec in self._tools.items() if key != name}
        self.version += 1

    def get(self, name: str) -> ToolSpec | None:
        return self._tools.get(name)

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self._tools.values())


registry = Registry()


def tool(
    *,
    tags: Sequence[str] = (),
    keywords: Sequence[str] = (),
    always_on: bool = False,
    personal: bool = False,
    optional: bool = False,
    **options: Any,
) -> Callable[[F], F]:
    """Register a typed function as a tool, unchanged. `tags` are rights: a user needs all of them. `options` are those
    of `ToolSpec`."""

    def declare(function: F) -> F:
        registry.register(
            spec_from_function(
                function,
                tags=frozenset(_texts("tags", tags, function)),
                keywords=tuple(_texts("keywords", keywords, function)),
                is_always_on=always_on,
                is_personal=personal,
                is_optional=optional,
                **options,
            )
        )
        return function

    return declare


def spec_from_function(function: Callable[..., Any], **options: Any) -> ToolSpec:
    """The specification of a typed function; raises `ToolDefinitionError` saying what is missing."""
    name = getattr(function, "__name__", "")
    if not NAME.fullmatch(name):
        raise ToolDefinitionError(f"{name!r} cannot name a tool: letters, digits, _ and - only, 64 at most.")
    if inspect.iscoroutinefunction(function):
        raise ToolDefinitionError(f"The tool {name} is a coroutine; tools are plain functions.")
    documented = docstring_parser.parse(inspect.getdoc(function) or "")
    description = "\n\n".join(
        part for part in (documented.short_description, documented.long_description) if part
    ).strip()
    if not description:
        raise ToolDefinitionError(f"The tool {name} has no docstring: a model could not choose it.")
    described = {param.arg_name: param.description or "" for param in documented.params}
    model, context_name = _arguments_model(function, name, described)
    schema = model.model_json_schema(schema_generator=_Untitled)
    del schema["title"]
    bare = [key for key, inner in schema["properties"].items() if not inner.get("description")]
    if bare:
        raise ToolDefinitionError(f"The docstring of the tool {name} does not describe {', '.join(bare)}.")
    return ToolSpec(
        name=name, description=description, parameters=schema, invoke=_Call(function, model, context_name), **options
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """Arguments to a function's typed values, and the call."""

    function: Callable[..., Any]
    model: type[BaseModel]
    context_name: str

    def __call__(self, arguments: Arguments, context: ToolContext) -> object:
        try:
            parsed = self.model.model_validate(dict(arguments))
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors())
            raise InvalidToolArgumentsError(problems) from error
        values = {field.alias or name: getattr(parsed, name) for name, field in type(parsed).model_fields.items()}
        if self.context_name:
            values[self.context_name] = context
        return self.function(**values)


def _arguments_model(
    function: Callable[..., Any], name: str, described: Mapping[str, str]
) -> tuple[type[BaseModel], str]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context_name = ""
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(f"The tool {name} takes {parameter}: a model can only fill named parameters.")
        if parameter.name not in hints:
            raise ToolDefinitionError(f"The tool {name} does not type its parameter {parameter.name}.")
        if hints[parameter.name] is ToolContext:
            context_name = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        text = " ".join(described.get(parameter.name, "").split())
        # Pydantic keeps some names (`schema`, `_x`) for itself, so fields are numbered and named by their alias.
        fields[f"field_{position}"] = (
            hints[parameter.name],
            Field(default, alias=parameter.name, description=text or None),
        )
    unknown = sorted(described.keys() - inspect.signature(function).parameters.keys())
    if unknown:
        raise ToolDefinitionError(
            f"The docstring of the tool {name} describes {', '.join(unknown)}, which it does not take."
        )
    try:
        model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except PydanticUserError as error:
        raise ToolDefinitionError(f"A parameter of the tool {name} has no JSON form: {error.message}") from error
    return model, context_name


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles that pydantic adds to fields: they cost tokens and say nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _texts(option: str, values: Sequence[str], function: Callable[..., Any]) -> Sequence[str]:
    name = getattr(function, "__name__", "?")
    if isinstance(values, str) or not all(isinstance(v, str) and v.strip() for v in values):
        raise ToolDefinitionError(f"The tool {name}: {option} is a list of words.")
    return values


#: A call that a model wrote into its text instead of asking for it.
_CALL = re.compile(
    r"</?(?:tool_call|function)\b|\A\s*(?:```(?:json)?\s*)?[\[{].*\"(?:name|function|tool_calls|arguments|parameters)\"\s*:",
    re.DOTALL,
)
_TAGGED_CALL = re.compile(r"<function=([\w-]+)>\s*(\{.*?\})\s*(?:</function>|\Z)", re.DOTALL)


def is_call(text: str) -> bool:
    return _CALL.search(text) is not None


def calls_in(text: str, names: Collection[str]) -> list[RequestedCall]:
    """The calls of these tools that a model wrote as text."""
    found = [(name, arguments) for name, arguments in _TAGGED_CALL.findall(text)]
    for each in _objects(text):
        for call in each.get("tool_calls") or [each]:
            inner = call.get("function", call) if isinstance(call, dict) else {}
            inner = {**call, "name": inner} if isinstance(inner, str) else inner
            arguments = inner.get("arguments", inner.get("parameters", {}))
            given = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            found.append((str(inner.get("name")), given))
    return [RequestedCall("", name, given) for name, given in found if name in names]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    position = text.find("{")
    while position >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            if isinstance(value, dict):
                yield value
        position = text.find("{", end)


_UNNAMEABLE = re.compile(r"[^a-zA-Z0-9_-]")
#: What model APIs accept as the id of a call.
MAX_CALL_ID = 40


def normalised_calls(calls: Sequence[RequestedCall], *, limit: int) -> list[RequestedCall]:
    """The first `limit` calls, each with an id of its own and a name that every model API takes back."""
    kept: list[RequestedCall] = []
    seen: set[str] = set()
    for number, call in enumerate(calls[:limit]):
        identifier = call.id
        if not identifier.isprintable() or not 0 < len(identifier) <= MAX_CALL_ID or identifier in seen:
            identifier = f"call_{number}_{uuid.uuid4().hex[:12]}"
        seen.add(identifier)
        name = _UNNAMEABLE.sub("_", call.name)[:64] or "unnamed"
        kept.append(RequestedCall(identifier, name, call.arguments))
    return kept
