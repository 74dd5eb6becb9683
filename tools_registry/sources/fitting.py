"""Schemas of foreign tools as models take them: references replaced, words dropped that model APIs do not know.

What is left is looser, never tighter: the tool's server checks the arguments. What is not valid, or is no single
object, is refused with its reason (`ToolDefinitionError`).
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tools_registry.errors import ToolDefinitionError

#: What one tool may take of a prompt, and what is walked through to find that out.
MOST_CHARACTERS = 40_000
_MOST_NODES = 20_000
_DEEPEST = 60
_MOST_DESCRIPTION = 1_000
#: Taken as they are. Patterns are not: some model servers refuse a request for one that they cannot read.
_PLAIN = (
    *("type", "format", "enum", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
)
_CHOICES = ("anyOf", "oneOf", "allOf")


def fitted(schema: Any, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The schema of an object as model APIs take it, references resolved. Raises `ToolDefinitionError`."""
    from jsonschema import Draft202012Validator  # 50 ms of each start, for sites that have such tools
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict):
        raise ToolDefinitionError("The parameters are not described by a schema.")
    made = _Fitting(schema if document is None else document).fit(schema, 0, ())
    if not _is(made, "object") and "type" in made:
        raise ToolDefinitionError(f"The parameters are {made['type']}, not an object.")
    if not made.get("properties") and made.keys() & {*_CHOICES}:
        raise ToolDefinitionError("The parameters are alternatives or parts, not one object.")
    # At the top these words are refused; the properties say enough.
    top = {word: value for word, value in made.items() if word not in (*_CHOICES, "enum", "items")}
    top = {"properties": {}, **top, "type": "object"}
    try:
        text = json.dumps(top, allow_nan=False)
        Draft202012Validator.check_schema(top)
    except (SchemaError, ValueError, TypeError, RecursionError) as error:
        reason = str(getattr(error, "message", error))[:300]
        raise ToolDefinitionError(f"The schema is not valid: {reason}") from error
    if len(text) > MOST_CHARACTERS:
        raise ToolDefinitionError(f"The schema has {len(text)} characters; a model is given {MOST_CHARACTERS} at most.")
    return top


def target_of(root: Mapping[str, Any], reference: str) -> Any:
    """What a reference inside `root` leads to; it is never fetched from elsewhere."""
    if reference != "#" and not reference.startswith("#/"):
        raise ToolDefinitionError(f"The reference {reference[:100]!r} leaves the document.")
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or key not in found:
            raise ToolDefinitionError(f"The reference {reference[:100]!r} leads nowhere.")
        found = found[key]
    return found


@lru_cache(maxsize=4096)
def fitted_text(text: str) -> dict[str, Any]:
    """`fitted` of a schema that is stored as JSON; each text is read once."""
    return fitted(json.loads(text))


class _Fitting:
    """One schema's way through: what its references lead to, and how much of it was seen."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def fit(self, node: Any, depth: int, within: Sequence[str]) -> dict[str, Any]:
        """`within` are the references followed: inside itself a schema takes anything, since it would have no end."""
        self._nodes += 1
        if self._nodes > _MOST_NODES or depth > _DEEPEST:
            raise ToolDefinitionError("The schema is too large, or nested too deeply.")
        if node is None or isinstance(node, bool):
            return {}
        if not isinstance(node, dict):
            raise ToolDefinitionError(f"{str(node)[:100]!r} is not a schema.")
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in within:
                return {}
            target = target_of(self._root, reference)
            beside = {key: value for key, value in node.items() if key != "$ref"}
            target = {**target, **beside} if isinstance(target, dict) else target
            return self.fit(target, depth + 1, (*within, reference))
        made = _plain(node)
        for word in _CHOICES:
            if isinstance(parts := node.get(word), list) and parts:
                made[word] = [self.fit(part, depth + 1, within) for part in parts]
        if isinstance(described := node.get("properties"), dict):
            made["properties"] = {str(name): self.fit(inner, depth + 1, within) for name, inner in described.items()}
        if isinstance(required := node.get("required"), list) and required:
            made["required"] = list(dict.fromkeys(map(str, required)))
        more = node.get("additionalProperties")
        # Names that a pattern allows are no longer told apart from others: none is forbidden then.
        if isinstance(more, bool | dict) and not node.get("patternProperties"):
            made["additionalProperties"] = more if isinstance(more, bool) else self.fit(more, depth + 1, within)
        items = node.get("items")
        if _is(made, "array") or isinstance(items, dict):
            made["items"] = self.fit(items, depth + 1, within) if isinstance(items, dict) else {}
        return made


def _plain(node: Mapping[str, Any]) -> dict[str, Any]:
    """The words that hold no other schema, and what OpenAPI 3.0 says in words of its own."""
    made = {word: node[word] for word in _PLAIN if node.get(word) is not None}
    text = node.get("description") or node.get("title")
    if isinstance(text, str) and text.strip():
        made["description"] = text.strip()[:_MOST_DESCRIPTION].strip()
    if node.get("const") is not None:
        made["enum"] = [node["const"]]
    if node.get("nullable") is True and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    for word in ("exclusiveMinimum", "exclusiveMaximum"):
        if isinstance(made.get(word), bool):
            del made[word]
    return made


def _is(made: Mapping[str, Any], kind: str) -> bool:
    named = made.get("type")
    return named == kind or (isinstance(named, list) and kind in named)
