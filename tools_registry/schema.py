"""JSON schemas of parameters: is one usable, and do arguments fit it?

Schemas of remote tools are foreign text: references are resolved inside the schema only, never fetched.
"""

from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from tools_registry.exceptions import ToolDefinitionError
from tools_registry.tool import Arguments, JsonSchema, ToolSpec


def checked_schema(schema: Any) -> JsonSchema:
    """The schema itself; raises `ToolDefinitionError` where it is not one of an object."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise ToolDefinitionError("The parameters are not described by the schema of an object.")
    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError) as error:
        raise ToolDefinitionError(f"The schema is not valid: {error}") from error
    return schema


def schema_problem(spec: ToolSpec, arguments: Arguments) -> str:
    """What is wrong with the arguments, in words for the model; empty where they fit."""
    try:
        problem = best_match(_validator(spec).iter_errors(dict(arguments)))
    except (SchemaError, Unresolvable, RecursionError) as error:
        raise ToolDefinitionError(f"The schema of {spec.name} is unusable: {error}") from error
    if problem is None:
        return ""
    path = "/".join(str(part) for part in problem.absolute_path)
    return f"{path}: {problem.message}" if path else str(problem.message)


@lru_cache(maxsize=512)
def _validator(spec: ToolSpec) -> Draft202012Validator:
    # An empty registry refuses to retrieve what a schema refers to outside itself.
    return Draft202012Validator(dict(spec.parameters), registry=Registry())
