"""
The OpenAPI 3.1 document, made from the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rsmq.web.fields import Field
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
    },
    "required": ["type", "title", "status", "code", "detail"],
}


def _operation(route: Route) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [
        {
            "name": each.name,
            "in": "query",
            "required": each.required,
            "description": each.text,
            "schema": dict(each.kind.value.schema),
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
        "description": f"Needs the scope `{route.scope.value}`.",
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
            responses[str(status)]["content"] = _content(route.result)
    problem = {"application/problem+json": {"schema": {"$ref": _PROBLEM}}}
    responses["default"] = {"description": "a problem", "content": problem}
    return responses


def _content(fields: tuple[Field, ...] | RawBody) -> dict[str, Any]:
    if isinstance(fields, RawBody):
        return {fields.media_type: {}}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            each.name: {**each.kind.value.schema, "description": each.text} for each in fields
        },
    }
    required = [each.name for each in fields if each.required]
    if required:
        schema["required"] = required
    return {"application/json": {"schema": schema}}
