"""
Messages as JSON lines or CSV, in pieces, without receiving them.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.search.json_path import JsonPath
from rsmq.search.operations import STEP, SearchCandidate, SearchPosition
from rsmq.web.client import Client
from rsmq.web.json_text import values_at
from rsmq.web.problems import describe
from rsmq.web.routes.forms import show_stored
from rsmq.web.search import MessagePage, MessageQuery, read_page

#: Returns a message as a line.
Writer: TypeAlias = Callable[[Mapping[str, Any], bytes | None], bytes]
_FACTS = ("id", "state", "receive_count", "sent_ms", "visible_at_ms")
_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
#: With these a program for tables takes a text for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


async def export(
    queues: Client, query: MessageQuery, number: int, write: Writer, head: bytes
) -> AsyncGenerator[bytes]:
    """
    Read the first messages; return what yields them as lines, in steps that are paced.

    If Redis fails in between, the last line has the field ``error``.

    Args:
        number: at most so many.
        head: the line before the first one.

    Raises:
        QueueNotFound: the queue does not exist.
    """
    query = replace(query, limit=min(number, STEP), is_export=True)
    first = await read_page(queues, query, SearchPosition())
    return _lines(queues, query, number, first, write, head)


async def _lines(  # noqa: PLR0917 - the state of an export
    queues: Client, query: MessageQuery, left: int, page: MessagePage, write: Writer, head: bytes
) -> AsyncGenerator[bytes]:
    yield head
    while True:
        left -= len(page.found)
        # In a thread: each column and each path that is redacted is a walk through each body.
        yield await asyncio.to_thread(_lines_of, query, page.found, write)
        if page.next is None or left <= 0:
            return
        try:
            page = await read_page(queues, replace(query, limit=min(left, STEP)), page.next)
        except (RSMQError, RedisError, OSError) as error:
            yield write({"error": describe(error, may_repeat=True).code}, None)
            return


def _lines_of(query: MessageQuery, found: Sequence[SearchCandidate], write: Writer) -> bytes:
    lines = []
    for each in found:
        shown = show_stored(each.message, query.redaction, size=each.size)
        lines.append(write(shown, query.redaction.body(each.message.raw)))
    return b"".join(lines)


def write_json_line(message: Mapping[str, Any], _: bytes | None) -> bytes:
    """Return a message as a line of JSON."""
    return json.dumps(message).encode() + b"\n"


def csv_writer(columns: Sequence[tuple[str, JsonPath]]) -> tuple[Writer, bytes]:
    """Return what writes lines of CSV, and their head; without columns they have the body."""
    names = [title for title, _ in columns] or ["body", "body_base64"]

    def write(message: Mapping[str, Any], raw: bytes | None) -> bytes:
        facts = [message.get(name) for name in _FACTS]
        values: list[Any]
        if columns:
            values = [values_at(raw or b"", path) for _, path in columns]
        else:
            values = [message.get("body"), message.get("body_base64")]
        return _csv_line([*facts, *values, message.get("error")])

    return write, _csv_line([*_FACTS, *names, "error"])


def _csv_line(values: Sequence[Any]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(map(_safe, values))
    return buffer.getvalue().encode(errors="backslashreplace")


def _safe(value: Any) -> str:
    """Return a value that no program for tables takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
