"""
Examples of the calls of the API, made from the table: in a shell, in Python and in Node.
"""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from rsmq.aio import AsyncRSMQ
from rsmq.control.asyncio_ import AsyncWorkers
from rsmq.schedules.asyncio_ import AsyncSchedules
from rsmq.trash.asyncio_ import AsyncTrash
from rsmq.web.fields import Field, Shape
from rsmq.web.table import RawBody, Route

#: The ids of examples.
MESSAGE, UNDO, OPERATION, FLOW = "hoo8qb27uw7bxVziK3mPq0sTdYeRwLan", "5a" * 8, "7c" * 16, "9e" * 11
_BODY = {"order": 7}
#: The values of fields by their names; those of others follow from their kinds.
_VALUES: Mapping[str, Any] = {
    "queue": "orders", "queues": ["orders"], "q": "orders", "destination": "archive",
    "dead_letter_queue": "orders-dead", "id": MESSAGE, "receipt": f"{MESSAGE}.1",
    "receipts": [f"{MESSAGE}.1"], "json": _BODY, "operation": OPERATION, "flow": FLOW,
    "target": "on-call", "kind": "paused", "subject": "orders", "why": "A deploy", "seconds": 600,
    "worker": "worker-1", "schedule": "nightly", "subscriber": "crm", "filter": "rc>=1",
    "url": "https://crm.example/orders", "text": "version 1.2", "error": "The card was declined",
    "every": 3600, "vt": 30, "max_running": 5, "concurrency": 4, "max_receives": 5,
}  # fmt: skip
#: The optional fields that examples have.
_SHOWN = {"json", "receipt", "receipts", "destination", "every", "vt", "subject"}
#: Parameters of the client, and the fields that they are instead.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "qname": ("queue", "queues"), "qnames": ("queues",), "message": ("queue",),
    "messages": ("queue",), "dead_letter_queue": ("queue",), "name": ("worker", "schedule"),
    "body": ("json",), "bodies": ("messages",), "ids": ("receipts",),
}  # fmt: skip
#: The objects of the client that calls name, as in ``schedules.add``.
_OBJECTS: Mapping[str, type] = {
    "schedules": AsyncSchedules, "workers": AsyncWorkers, "trash": AsyncTrash,
}  # fmt: skip
#: Methods that only make an object, which asks for nothing.
_MAKERS = {"job", "flow"}


@dataclass(frozen=True, slots=True)
class ApiExample:
    """A call in three languages; in Python by the client, if a method of it does the same."""

    curl: str
    python: str
    node: str


def make_examples(table: Iterable[Route], api: str, namespace: str) -> list[ApiExample]:
    """
    Return an example of each entry.

    Args:
        api: the address of the API.
        namespace: its name, for the client.
    """
    examples, seen = [], set(_MAKERS)
    for route in table:
        names: dict[str, Any] = {
            name: UNDO if route.path.startswith("/undo/") else _VALUES.get(name, name)
            for name in re.findall(r"{(\w+)}", route.path)
        }
        query = _values_of(route, route.query)
        content = None if isinstance(route.body, RawBody) else _values_of(route, route.body)
        path = re.sub(r"{(\w+)}", lambda found: quote(names[found[1]], safe=""), route.path)  # noqa: B023
        call = _HttpCall(route, f"{api}{path}{'?' if query else ''}{urlencode(query)}", content)
        # The first entry that calls a method does the same; the others do more, or less.
        method = next((each for each in route.calls[:1] if each not in seen), None)
        seen.update(route.calls)
        by_client = method and _in_client(method, {**names, **query, **(content or {})}, namespace)
        examples.append(ApiExample(call.in_curl(), by_client or call.in_python(), call.in_node()))
    return examples


def _values_of(route: Route, fields: tuple[Field, ...]) -> dict[str, Any]:
    shown = _SHOWN | {"filter"} if route.is_preview else _SHOWN
    found = [each for each in fields if each.required or each.name in shown]
    if not found and route.method == "PUT":  # it would set nothing
        found = list(fields[:1])
    return {each.name: _value_of(route, each) for each in found}


def _value_of(route: Route, each: Field) -> Any:
    if each.items:
        return [_values_of(route, each.items)]
    is_text = each.kind is Shape.TEXT
    return _VALUES.get(each.name, each.name if is_text else max(each.rule.get("minimum", 1), 1))


def _in_client(method: str, values: Mapping[str, Any], namespace: str) -> str | None:
    """Return the call of a method of the client; None if it does not take these values."""
    *owner, name = method.split(".")
    function = getattr(_OBJECTS[owner[0]] if owner else AsyncRSMQ, name)
    rest = {each: value for each, value in values.items() if each != "receipt"}
    words, is_by_name = [], False
    for each in list(inspect.signature(function).parameters.values())[1:]:
        fields = (each.name, *_FIELDS.get(each.name, ()))
        field = next((field for field in fields if field in rest), None)
        if field is None:
            is_by_name = True
            if each.default is each.empty:
                return None
            continue
        value = _argument_of(each.name, rest.pop(field))
        is_named = is_by_name or each.kind is each.KEYWORD_ONLY
        words.append(f"{each.name}={value!r}" if is_named else repr(value))
    if rest:
        return None
    own = "" if namespace == "rsmq" else f", ns={namespace!r}"
    return (
        "from rsmq import JSON, RSMQ\n\n"
        f'with RSMQ.from_url("redis://127.0.0.1:6379/0"{own}, codec=JSON) as queues:\n'
        f"    print(queues.{method}({', '.join(words)}))"
    )


def _argument_of(parameter: str, value: Any) -> Any:
    """Return a value of the API as the client takes it."""
    if parameter == "qname" and isinstance(value, list):
        return value[0]
    if parameter == "ids":
        return [each.partition(".")[0] for each in value]
    return [each["json"] for each in value] if parameter == "bodies" else value


@dataclass(frozen=True, slots=True)
class _HttpCall:
    """
    A call over HTTP.

    Attributes:
        content: the JSON body; None for a body of bytes.
    """

    route: Route
    url: str
    content: dict[str, Any] | None

    @property
    def _is_stream(self) -> bool:
        return self.route.result == RawBody("text/event-stream")

    @property
    def _headers(self) -> dict[str, str]:
        if self.content is None:
            return {"Authorization": "Bearer KEY", "Content-Type": "application/octet-stream"}
        of_body = {"Content-Type": "application/json"} if self.content else {}
        return {"Authorization": "Bearer KEY", **of_body}

    def in_curl(self) -> str:
        words = ["curl", "-u", ":KEY", "-X", self.route.method, self.url]
        words += ["-N"] if self._is_stream else []
        if self.content is None:
            words += ["-H", "Content-Type: application/octet-stream"]
            words += ["--data-binary", json.dumps(_BODY)]
        elif self.content:
            words += ["--json", json.dumps(self.content)]
        return shlex.join(words)

    def in_python(self) -> str:
        """Return the call with the standard library."""
        if self.content is None:
            body = f"b{json.dumps(_BODY)!r}"
        else:
            body = f"json.dumps({self.content!r}).encode()" if self.content else ""
        lines = [
            *(["import json"] if self.content else []),
            "from urllib.request import Request, urlopen",
            "",
            "request = Request(",
            f"    {json.dumps(self.url)},",
            f'    method="{self.route.method}",',
            f"    headers={self._headers!r},",
            *([f"    data={body},"] if body else []),
            ")",
            "with urlopen(request) as answer:",
            *(
                ["    for line in answer:", "        print(line)"]
                if self._is_stream
                else ["    print(answer.status, answer.read())"]
            ),
        ]
        return "\n".join(lines)

    def in_node(self) -> str:
        """Return the call as a module of JavaScript."""
        if self.content is None:
            body = repr(json.dumps(_BODY))
        else:
            body = f"JSON.stringify({json.dumps(self.content)})" if self.content else ""
        lines = [
            f"const answer = await fetch({json.dumps(self.url)}, {{",
            f'  method: "{self.route.method}",',
            f"  headers: {json.dumps(self._headers)},",
            *([f"  body: {body},"] if body else []),
            "});",
            "for await (const bytes of answer.body) console.log(new TextDecoder().decode(bytes));"
            if self._is_stream
            else "console.log(answer.status, await answer.text());",
        ]
        return "\n".join(lines)
