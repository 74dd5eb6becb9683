"""A document of Swagger 2.0 in the words of OpenAPI 3, as far as tools need it. Pure; references stay as they are."""

from collections.abc import Iterable, Mapping
from typing import Any

_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
#: What OpenAPI 3 says of a parameter beside its schema.
_BESIDE = ("name", "in", "required", "description")
_STYLES = {"ssv": "spaceDelimited", "tsv": "tabDelimited", "pipes": "pipeDelimited"}


def as_openapi(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same operations; the server is relative to the document's address in what the document does not say."""
    paths = document.get("paths")
    host, base = document.get("host"), "/" + str(document.get("basePath") or "").lstrip("/")
    schemes = document.get("schemes")
    named = isinstance(schemes, list) and bool(schemes)
    scheme = ("http:" if schemes == ["http"] else "https:") if named else ""
    url = f"{scheme}//{host}{base}" if host else base
    return {
        **document,
        "openapi": "3.0.0",
        "servers": [{"url": url}],
        "paths": {
            path: _path(document, item)
            for path, item in (paths.items() if isinstance(paths, dict) else ())
            if isinstance(item, dict)
        },
    }


def _path(document: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    shared = list(_resolved(document, item.get("parameters")))
    made: dict[str, Any] = {}
    for key, operation in item.items():
        if key == "parameters" or not isinstance(operation, dict):
            continue
        own = list(_resolved(document, operation.get("parameters")))
        named = {_key(each) for each in own}
        given = [each for each in shared if _key(each) not in named] + own
        consumes = operation.get("consumes") or document.get("consumes")
        kinds = [str(kind) for kind in consumes] if isinstance(consumes, list) else [_JSON]
        made[key] = {**operation, "parameters": [_parameter(each) for each in given]}
        if body := _body(given, kinds):
            made[key]["requestBody"] = body
    return made


def _key(parameter: Mapping[str, Any]) -> tuple[str, str]:
    return str(parameter.get("name")), str(parameter.get("in"))


def _resolved(document: Mapping[str, Any], parameters: Any) -> Iterable[dict[str, Any]]:
    named = document.get("parameters")
    for each in parameters if isinstance(parameters, list) else ():
        reference = each.get("$ref") if isinstance(each, dict) else None
        if isinstance(reference, str) and isinstance(named, dict):
            each = named.get(reference.rpartition("/")[2])
        if isinstance(each, dict):
            yield each


def _parameter(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{key: given[key] for key in _BESIDE if key in given},
        "schema": {key: value for key, value in given.items() if key not in _BESIDE},
        **_joining(given),
    }


def _joining(given: Mapping[str, Any]) -> dict[str, Any]:
    """How the values of a list are sent: joined by commas where version 2 says nothing else."""
    said = given.get("collectionFormat")
    return {"explode": said == "multi", "style": _STYLES.get(str(said), "form")}


def _body(given: Iterable[Mapping[str, Any]], consumes: list[str]) -> dict[str, Any] | None:
    fields = [each for each in given if each.get("in") == "formData"]
    if fields:
        schema = {
            "type": "object",
            "properties": {
                str(each.get("name")): {
                    **{k: v for k, v in each.items() if k not in ("name", "in", "required")},
                    **({"type": "string", "format": "binary"} if each.get("type") == "file" else {}),
                }
                for each in fields
            },
            "required": [str(each.get("name")) for each in fields if each.get("required") is True],
        }
        has_file = any(each.get("type") == "file" for each in fields)
        kind = _MULTIPART if has_file or consumes == [_MULTIPART] else _FORM
        lists = [each for each in fields if each.get("type") == "array"]
        encoding = {str(each.get("name")): _joining(each) for each in lists}
        media = {"schema": schema, "encoding": encoding}
        return {"required": bool(schema["required"]), "content": {kind: media}}
    whole = next((each for each in given if each.get("in") == "body"), None)
    if whole is None:
        return None
    # A form has no body in version 2: whoever names one beside a body means something else.
    kinds = [kind for kind in consumes if kind not in (_FORM, _MULTIPART)] or [_JSON]
    return {
        "required": whole.get("required") is True,
        "description": whole.get("description", ""),
        "content": {kind: {"schema": whole.get("schema")} for kind in kinds},
    }
