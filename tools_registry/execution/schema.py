"""Do arguments fit the JSON schema of a tool's parameters?

Schemas of remote tools are foreign text: references are resolved inside the schema only, never fetched, and their
patterns are not run (one that backtracks would hold the process up); the tool's own server checks them.
"""

from functools import lru_cache

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from tools_registry.exceptions import ToolDefinitionError
from tools_registry.tool import Arguments, ToolSpec

#: Without patterns: see above.
_Validator = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": lambda *_given: None, "patternProperties": lambda *_given: None}
)


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
def _validator(spec: ToolSpec) -> Validator:
    # An empty registry refuses to retrieve what a schema refers to outside itself.
    kind = Draft202012Validator if spec.source == "python" else _Validator
    return kind(dict(spec.parameters), registry=Registry())
