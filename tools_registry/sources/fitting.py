"""Schemas of foreign tools made fit for models: what would make a model API refuse the whole request is rewritten.

References are replaced, unknown words dropped, what is missing added: looser, never tighter: the tool's server checks
the arguments. What cannot be made fit raises `ToolDefinitionError`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tools_registry.errors import ToolDefinitionError

#: What one tool may take of a prompt, and what is walked through to find that out.
MOST_CHARACTERS = 40_000
_MOST_NODES = 20_000
_DEEPEST = 60
_MOST_DESCRIPTION = 1_000
#: What servers write in the place of JSON's own names of types; `None`: any.
_TYPES: Mapping[str, str | None] = {
    **{name: name for name in ("string", "number", "integer", "boolean", "object", "array")},
    "null": "null",
    "str": "string",
    "text": "string",
    "date": "string",
    "datetime": "string",
    "file": "string",
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "list": "array",
    "any": None,
}
_COUNTS = "minLength maxLength minItems maxItems minProperties maxProperties".split()
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_CHOICES = ("anyOf", "oneOf", "allOf")


def fitted(schema: Any, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The schema of an object as model APIs take it, references resolved. Raises `ToolDefinitionError`."""
    from jsonschema import Draft202012Validator  # 50 ms of each start, for sites that have such tools
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict):
        raise ToolDefinitionError("The parameters are not described by a schema.")
    made = _Fitting(schema if document is None else document).fit(schema, "", ()) or {}
    top = _object_of(made)
    for word in (*_CHOICES, "enum", "items"):
        top.pop(word, None)
    top = {"type": "object", "properties": {}, **top}
    try:
        text = json.dumps(top, allow_nan=False)
        Draft202012Validator.check_schema(top)
    except (SchemaError, ValueError, TypeError, RecursionError) as error:
        raise ToolDefinitionError(f"The schema is not valid: {_short(error)}") from error
    if len(text) > MOST_CHARACTERS:
        raise ToolDefinitionError(f"The schema has {len(text)} characters; a model is given {MOST_CHARACTERS} at most.")
    return top


def _object_of(made: Mapping[str, Any]) -> dict[str, Any]:
    """A whole made of parts or of alternatives as one object: model APIs refuse these words at the top."""
    if made.get("type", "object") not in ("object", ["object", "null"], ["null", "object"]):
        raise ToolDefinitionError(f"The parameters are {made['type']}, not an object.")
    top: dict[str, Any] = {**made, "type": "object"}
    properties, required = dict(made.get("properties", {})), list(made.get("required", []))
    for word in _CHOICES:
        parts = [_object_of(part) for part in made.get(word, []) if part.get("type") != "null"]
        said: dict[str, list[Any]] = {}
        for part in parts:
            for name, inner in part["properties"].items():
                if name not in properties and inner not in said.setdefault(name, []):
                    said[name].append(inner)
        for name, kinds in said.items():
            # Of alternatives any is taken; of parts that all hold, the first is loose enough.
            is_one = len(kinds) == 1 or word == "allOf"
            properties[name] = kinds[0] if is_one else {"anyOf": kinds}
        asked = [set(part.get("required", [])) for part in parts]
        if asked:
            every = set.union(*asked) if word == "allOf" else set.intersection(*asked)
            required.extend(sorted(every - set(required)))
    top["properties"] = properties
    top.pop("required", None)
    if required:
        top["required"] = required
    return top


def target_of(root: Mapping[str, Any], reference: str) -> Any:
    """What a reference inside `root` leads to; it is never fetched from elsewhere."""
    if not reference.startswith("#"):
        raise ToolDefinitionError(f"The reference {reference[:100]!r} leaves the document.")
    if not reference.startswith("#/") and reference != "#":
        raise ToolDefinitionError(f"The reference {reference[:100]!r} leads nowhere that is read.")
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

    def fit(self, node: Any, where: str, within: Sequence[str]) -> dict[str, Any] | None:
        """`None` for a schema that nothing fits. `where` is told in errors, `within` are the references followed."""
        self._nodes += 1
        if self._nodes > _MOST_NODES or where.count("/") > _DEEPEST:
            raise ToolDefinitionError("The schema is too large, or nested too deeply.")
        if node is False:
            return None
        if node is True or node is None:
            return {}
        if not isinstance(node, dict):
            raise ToolDefinitionError(f"{where.strip('/') or 'The whole'} is not a schema.")
        reference = node.get("$ref", node.get("$dynamicRef"))
        if isinstance(reference, str):
            return self._followed(node, reference, where, within)
        made: dict[str, Any] = {}
        _keep_type(node, made)
        _keep_texts(node, made)
        _keep_bounds(node, made)
        for word in _CHOICES:
            parts = node.get(word)
            if isinstance(parts, list):
                found = [self.fit(part, f"{where}/{word}", within) for part in parts]
                if kept := [part for part in found if part is not None]:
                    made[word] = kept
        self._keep_object(node, made, where, within)
        self._keep_array(node, made, where, within)
        return made

    def _followed(
        self, node: Mapping[str, Any], reference: str, where: str, within: Sequence[str]
    ) -> dict[str, Any] | None:
        target = target_of(self._root, reference)
        if reference in within:
            # Within itself anything is taken: a model API knows no schema without an end.
            made: dict[str, Any] = {}
            if isinstance(target, dict):
                _keep_type(target, made)
                _keep_texts({**target, "enum": None, "const": None}, made)
            return {**made, "items": {}} if _is(made, "array") else made
        beside = {key: value for key, value in node.items() if key not in ("$ref", "$dynamicRef")}
        found = {**target, **beside} if isinstance(target, dict) else target
        return self.fit(found, where, (*within, reference))

    def _keep_object(self, node: Mapping[str, Any], made: dict[str, Any], where: str, within: Sequence[str]) -> None:
        described, required = node.get("properties"), node.get("required")
        names = [str(name) for name in required] if isinstance(required, list) else []
        if isinstance(described, dict):
            kept = {}
            for name, inner in described.items():
                found = self.fit(inner, f"{where}/{name}", within)
                if found is not None:
                    kept[str(name)] = found
                # As drafts before 4 and some hands write it.
                if isinstance(inner, dict) and inner.get("required") is True:
                    names.append(str(name))
            made["properties"] = kept
        if names := list(dict.fromkeys(names)):
            made["properties"] = {
                **made.get("properties", {}),
                **{name: {} for name in names if name not in made.get("properties", {})},
            }
            made["required"] = names
        # Names that a pattern allows are no longer told apart from others: none is forbidden then.
        more = None if node.get("patternProperties") else node.get("additionalProperties")
        if isinstance(more, bool):
            made["additionalProperties"] = more
        elif isinstance(more, dict):
            found = self.fit(more, f"{where}/*", within)
            made["additionalProperties"] = False if found is None else found
        if "properties" in made and not made.keys() & {"type", *_CHOICES}:
            made["type"] = "object"

    def _keep_array(self, node: Mapping[str, Any], made: dict[str, Any], where: str, within: Sequence[str]) -> None:
        items, first = node.get("items"), node.get("prefixItems")
        places = items if isinstance(items, list) else first if isinstance(first, list) else None
        if places is not None:
            found = [self.fit(place, f"{where}/[]", within) for place in places]
            if not isinstance(items, list) and items not in (None, False):
                found.append(self.fit(items, f"{where}/[]", within))
            kinds = [kind for kind in found if kind is not None]
            made["items"] = {"anyOf": kinds} if kinds else {}
        elif items is not None and items is not False:
            made["items"] = self.fit(items, f"{where}/[]", within) or {}
        elif _is(made, "array"):
            made["items"] = {}


def _is(made: Mapping[str, Any], kind: str) -> bool:
    named = made.get("type")
    return named == kind or (isinstance(named, list) and kind in named)


def _keep_type(node: Mapping[str, Any], made: dict[str, Any]) -> None:
    named = node.get("type")
    names = named if isinstance(named, list) else [named]
    known = [_TYPES.get(name.lower(), "") for name in names if isinstance(name, str)]
    kept = list(dict.fromkeys(kind for kind in known if kind))
    if not kept or None in known:
        return
    if node.get("nullable") is True and "null" not in kept:
        kept.append("null")
    made["type"] = kept[0] if len(kept) == 1 else kept


def _keep_texts(node: Mapping[str, Any], made: dict[str, Any]) -> None:
    text = node.get("description") or node.get("title")
    if isinstance(text, str) and text.strip():
        made["description"] = text.strip()[:_MOST_DESCRIPTION].strip()
    for word in ("format", "pattern"):
        value = node.get(word)
        if isinstance(value, str) and (word == "format" or _compiles(value)):
            made[word] = value
    values = [node["const"]] if node.get("const") is not None else node.get("enum")
    if isinstance(values, list) and values:
        # Equal as JSON: 1 and true are equal to Python.
        made["enum"] = list({json.dumps(value, default=str): value for value in values}.values())
    if node.get("default") is not None:
        made["default"] = node["default"]


def _keep_bounds(node: Mapping[str, Any], made: dict[str, Any]) -> None:
    for word in _COUNTS:
        value = node.get(word)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            made[word] = value
    for word in _NUMBERS:
        value = node.get(word)
        if isinstance(value, int | float) and not isinstance(value, bool):
            made[word] = value
    for word in ("Minimum", "Maximum"):
        # As draft 4 and OpenAPI 3.0 say it: a bound, and whether it counts.
        if node.get(f"exclusive{word}") is True and word.lower() in made:
            made[f"exclusive{word}"] = made.pop(word.lower())
    if made.get("multipleOf", 1) <= 0:
        del made["multipleOf"]
    if isinstance(node.get("uniqueItems"), bool):
        made["uniqueItems"] = node["uniqueItems"]


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _short(error: Exception) -> str:
    return str(getattr(error, "message", error))[:300]
