"""
Routes: functions that return the type of a message.

A route is a function of the decoded body. It returns the type, and the argument of the handler.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

#: Returns the type of a body (None if it has none) and the argument of the handler.
Route: TypeAlias = Callable[[Any], tuple[str | None, Any]]


def event_payload(body: Any) -> tuple[str | None, Any]:
    """
    Return type and payload of a body like ``created:{"id": 1}``: the text before the first colon.

    The handler receives the text after the colon. A body without a colon has no type.
    """
    if isinstance(body, bytes):
        body = body.decode()
    if not isinstance(body, str):
        return None, body
    event, colon, payload = body.partition(":")
    return (event, payload) if colon else (None, body)


def json_field(name: str) -> Route:
    """
    Return a route for bodies that are objects: a field contains the type.

    The handler receives the whole object. Bodies that are str or bytes after decoding are parsed as
    JSON.

    Args:
        name: the field's name.

    Raises:
        ValueError: raised by the route if a text is not JSON.
    """

    def route(body: Any) -> tuple[str | None, Any]:
        if isinstance(body, str | bytes):
            body = json.loads(body)
        found = body.get(name) if isinstance(body, Mapping) else None
        return (found if isinstance(found, str) else None), body

    return route
