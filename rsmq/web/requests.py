"""
Reads requests: the path, the headers, the body within its limit, and the values of the fields.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote

from rsmq.errors.printable import format_count
from rsmq.web import json_requests
from rsmq.web.delivery import ClientLeft
from rsmq.web.fields import Field, Refused, read_object, read_query
from rsmq.web.request_limits import MAX_HEAD_BYTES, MAX_HEADERS, is_head_too_long
from rsmq.web.table import RawBody, Route

#: The longest body: 16 MiB of messages in base64, and the JSON around them.
MAX_BODY_BYTES = 24 * 1024 * 1024
_MAX_QUERY_FIELDS = 100
#: Where the name of the namespace is in the scope of a request whose path has named it.
NAMESPACE = "rsmq.namespace"
_OPTION = "rsmq-"
#: A webhook may push to a queue of another server: its headers are not options of the send.
_OF_WEBHOOKS = {"rsmq-queue", "rsmq-receive-count"}


def path_of_namespace(name: str) -> str:
    """Return the part of a path that names a namespace; empty for the first one's own paths."""
    return name and f"/ns/{quote(name, safe='')}"


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the path below the mount, percent-encoded."""
    raw = scope.get("raw_path")
    path: str = raw.decode("latin-1") if raw else quote(scope["path"], safe="/:")
    return path.partition("?")[0].removeprefix(_quote_prefix(scope.get("root_path", "")))


@lru_cache(16)
def _quote_prefix(root_path: str) -> str:
    return quote(root_path, safe="/:").rstrip("/")


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """
    Return the headers by names in lower case.

    Raises:
        Refused: a header that decides something is there twice, or the head is too long.
    """
    if is_head_too_long(scope["headers"]):
        raise Refused(
            "headTooLong",
            f"There are more than {MAX_HEADERS} headers, or more than "
            f"{format_count(MAX_HEAD_BYTES, 'byte')} of them",
            status=431,
        )
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        if name in headers and name in _SINGLE_HEADERS:
            raise Refused("repeatedHeader", f"The header {name} is there twice", status=400)
        value = raw_value.decode("latin-1")
        # One that is there twice names no user, whether the client or a proxy has added it.
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


_SINGLE_HEADERS = {"authorization", "content-type", "host", "idempotency-key", "origin"}


async def read_bytes(receive: Any, headers: Mapping[str, str], limit: int) -> bytes:
    """
    Return the body.

    Raises:
        Refused: it is longer than the limit.
        ClientLeft: the client has left before its end.
    """
    length = headers.get("content-length", "")
    if length.isdecimal() and (len(length) > len(str(limit)) or int(length) > limit):
        raise _too_long(limit)
    parts, size, has_more = [], 0, True
    while has_more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientLeft
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_long(limit)
        has_more = event.get("more_body", False)
    return b"".join(parts)


def _too_long(limit: int) -> Refused:
    return Refused(
        "requestTooLong", f"The body is longer than {format_count(limit, 'byte')}", status=413
    )


async def read_values(
    route: Route, scope: Mapping[str, Any], headers: Mapping[str, str], body: bytes
) -> dict[str, Any]:
    """
    Return the values of the query and of the JSON body; a large one is read in a thread.

    Raises:
        Refused: the query or the body is not valid.
    """
    pairs = _parse_query(scope["query_string"]) + _options_of(route, headers)
    if isinstance(route.body, RawBody):
        return read_query(pairs, route.query)
    values = read_query(pairs, route.query, route.body)
    if len(body) <= json_requests.LARGE_BYTES:
        return values | _read_content(body, headers, route.body, route.query)
    return values | await asyncio.to_thread(_read_content, body, headers, route.body, route.query)


def _read_content(
    body: bytes,
    headers: Mapping[str, str],
    fields: tuple[Field, ...],
    in_query: tuple[Field, ...],
) -> dict[str, Any]:
    content = _parse(body, headers) if body.strip() else {}
    # PHP writes an empty object as an empty list.
    return read_object({} if content == [] else content, fields, in_query)


def _parse_query(query: bytes) -> list[tuple[str, str]]:
    if not query:
        return []
    try:
        return parse_qsl(
            query.decode("latin-1"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_QUERY_FIELDS,
        )
    except ValueError:
        raise Refused("invalidFormat", "The query is not valid", status=400) from None


def _options_of(route: Route, headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the fields that a call with raw bodies has in headers, as in ``Rsmq-Delay: 5``."""
    if route.method != "POST" or not isinstance(route.body, RawBody):
        return []
    return [
        (name.removeprefix(_OPTION).replace("-", "_"), value)
        for name, value in headers.items()
        if name.startswith(_OPTION) and name not in _OF_WEBHOOKS
    ]


def _parse(body: bytes, headers: Mapping[str, str]) -> Any:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise Refused(
            "unsupportedMediaType",
            "The body is not JSON",
            status=415,
            value=media_type,
            hint="Send Content-Type: application/json; with curl: --json.",
        )
    try:
        return json_requests.decode(body.decode())
    except (ValueError, RecursionError):
        # The text of the error would contain a part of the body.
        raise Refused("invalidJson", "The body is not valid JSON", status=400) from None
