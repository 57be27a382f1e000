"""
The namespaces of the server.
"""

from __future__ import annotations

from rsmq.web.fields import Field, Shape
from rsmq.web.table import ApiAnswer, ApiCall, Route


async def _list(call: ApiCall) -> ApiAnswer:
    found = call.namespaces().items()
    return ApiAnswer({"namespaces": [{"name": name, "path": path} for name, path in found]})


ROUTES = (
    Route(
        "GET", "/ns", None, "List the namespaces of the caller.", _list,
        result=(
            Field(
                "namespaces", Shape.OBJECTS, "Those in which it has rights.",
                items=(
                    Field("name", Shape.TEXT, "The name."),
                    Field("path", Shape.TEXT, "The path of its API on this server."),
                ),
            ),
        ),
    ),
)  # fmt: skip
