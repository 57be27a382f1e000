"""
The OpenAPI 3.1 document, made from the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from rsmq.web.fields import Field, Shape
from rsmq.web.table import RawBody, Route

_PROBLEM = "#/components/schemas/Problem"


def make_document(table: Iterable[Route], version: str, prefix: str) -> dict[str, Any]:
    """
    Return the document.

    Args:
        version: the version of this library.
        prefix: the path of the API.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "rsmq", "version": version},
        "servers": [{"url": prefix}],
        "security": [{"token": []}, {"user": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "user": {"type": "http", "scheme": "basic"},
            },
            "schemas": {"Problem": _PROBLEM_SCHEMA},
        },
    }


def server_of_namespaces(prefix: str, names: Iterable[str]) -> dict[str, Any]:
    """
    Return the entry of the servers for the paths that name a namespace.

    Args:
        prefix: the path of the API.
        names: the namespaces in which the caller has rights, at least one.
    """
    encoded = [quote(name, safe="") for name in names]
    variable = {"enum": encoded, "default": encoded[0], "description": "A namespace, encoded."}
    return {"url": f"{prefix}/ns/{{ns}}", "variables": {"ns": variable}}


_PROBLEM_SCHEMA = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "The name of the fault, for programs."},
        "detail": {"type": "string"},
        "value": {"description": "The refused value."},
        "hint": {"type": "string", "description": "The rule or the remedy."},
        "index": {"type": "integer", "description": "The refused message of a batch, from 0."},
        "field": {"type": "string", "description": "The field that is wrong."},
        "range": {
            "type": "array",
            "items": {"type": "number"},
            "description": "The smallest and the largest number of the field.",
        },
        "needs": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "string"}},
            "description": "Of each of these lists of fields, the field needs one.",
        },
        "excludes": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The fields that the field can't be combined with.",
        },
    },
    "required": ["type", "title", "status", "code", "detail"],
}


def _operation(route: Route) -> dict[str, Any]:
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [
        {
            "name": each.name,
            "in": "query",
            "required": each.required,
            "description": each.text,
            **_query_schema(each),
        }
        for each in route.query
    ]
    if route.idempotent:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "A repetition with the same key sends nothing more.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 128},
            }
        )
    operation: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.summary,
        "description": "Needs no scope."
        if route.scope is None
        else f"Needs the scope `{route.scope.value}`.",
        "parameters": parameters,
        "responses": _responses(route),
    }
    if isinstance(route.body, RawBody) or route.body:
        is_required = isinstance(route.body, RawBody) or any(e.required for e in route.body)
        operation["requestBody"] = {"required": is_required, "content": _content(route.body)}
    return operation


def _name(route: Route) -> str:
    words = re.findall(r"[a-z]+", route.path.replace("{", "").replace("}", ""))
    return "-".join([route.method.lower(), *words])


def _responses(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, text in route.answers.items():
        responses[str(status)] = {"description": text}
        if status != 204:  # noqa: PLR2004 - no content
            responses[str(status)]["content"] = _result(route.result_fields)
    for status, text in PROBLEMS.items():
        responses[str(status)] = {"description": text, "content": _PROBLEM_CONTENT}
    return responses


#: The errors that any call may have; 500 is a fault of this library, and is not one of them.
PROBLEMS = {
    400: "the request can't be read",
    401: "the caller is not known",
    403: "the caller may not do this, or the server is read-only",
    404: "there is no such thing",
    405: "a name in the path is not percent-encoded, so it is another path",
    409: "a receipt has expired, or something has other settings",
    413: "a body is too long",
    415: "the body is not JSON",
    421: "the server does not have this name",
    422: "a value is not valid, or a field is unknown",
    429: "too many attempts, or it runs already",
    431: "the headers are too long",
    501: "an optional part is not installed",
    502: "Redis refuses the call",
    503: "Redis is away",
}
_PROBLEM_CONTENT = {"application/problem+json": {"schema": {"$ref": _PROBLEM}}}


def _content(fields: tuple[Field, ...] | RawBody) -> dict[str, Any]:
    """Return the body of a request: others than its fields are refused."""
    if isinstance(fields, RawBody):
        return {fields.media_type: _BYTES}
    return {"application/json": {"schema": _object(fields, is_closed=True)}}


_BYTES = {"schema": {"type": "string", "format": "binary"}}


def _result(fields: tuple[Field, ...] | RawBody) -> dict[str, Any]:
    if isinstance(fields, RawBody):
        is_text = fields.media_type.startswith("text/")
        return {fields.media_type: {"schema": {"type": "string"}} if is_text else _BYTES}
    return {"application/json": {"schema": _object(fields)}}


def _object(fields: tuple[Field, ...], *, is_closed: bool = False) -> dict[str, Any]:
    """
    Return the schema of an object.

    That a message has one body of three is in their texts: of ``oneOf``, generators make classes
    that lack the other fields.

    Args:
        is_closed: whether other fields are refused.
    """
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: _property(each, is_closed=is_closed) for each in fields},
    }
    if is_closed:
        schema["additionalProperties"] = False
    required = [each.name for each in fields if each.required]
    if required:
        schema["required"] = required
    return schema


def _property(each: Field, *, is_closed: bool) -> dict[str, Any]:
    """Return the schema of a field, which may be null if it may be left out."""
    schema = {**each.kind.value.schema, **each.rule}
    if each.items:
        items = _object(each.items, is_closed=is_closed)
        schema |= items if each.kind is Shape.OBJECT else {"items": items}
    if not each.required and "type" in schema:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return {**schema, "description": each.text}


def _query_schema(each: Field) -> dict[str, Any]:
    schema = {**each.kind.value.schema, **each.rule}
    if each.kind is Shape.TEXTS:
        return {"schema": schema, "style": "form", "explode": False}
    return {"schema": schema}
