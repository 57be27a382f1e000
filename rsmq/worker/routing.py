"""
Routes: functions that return the type of a message.

A route is a function of the decoded body that returns the type, and what the handler gets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

#: From a body to its type (None if it has none) and what its handler gets.
Route: TypeAlias = Callable[[Any], tuple[str | None, Any]]


def event_payload(body: Any) -> tuple[str | None, Any]:
    """
    The route of bodies like ``created:{"id": 1}``: what stands before the first colon is the type.

    Handlers get what stands behind it. A body without a colon has no type.
    """
    if isinstance(body, bytes):
        body = body.decode()
    if not isinstance(body, str):
        return None, body
    event, colon, payload = body.partition(":")
    return (event, payload) if colon else (None, body)


def json_field(name: str) -> Route:
    """
    A route of bodies that are objects: a field has the type, and handlers get the whole object.

    Where the codec is not a codec for objects, it reads them as JSON.

    Args:
        name: the field's name.

    Raises:
        ValueError: by the route, of a text that is not JSON.
    """

    def route(body: Any) -> tuple[str | None, Any]:
        if isinstance(body, str | bytes):
            body = json.loads(body)
        found = body.get(name) if isinstance(body, Mapping) else None
        return (found if isinstance(found, str) else None), body

    return route
