"""
Previews: they find messages, and store them as a selection for ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rsmq.errors import InvalidFormat
from rsmq.model import State
from rsmq.operations.arguments import check_batch
from rsmq.search.message_filter import SearchFilter, parse_filter
from rsmq.search.operations import SearchPosition
from rsmq.search.redaction import Redaction
from rsmq.web.client import Client
from rsmq.web.fields import Refused
from rsmq.web.search import MessageQuery, read_page
from rsmq.web.selection.operations import (
    STEP,
    Row,
    read_rows,
    read_selection,
    store_selection,
)
from rsmq.web.selection.selection import (
    Selection,
    decode_selection,
    encode_selection,
    make_selection,
)
from rsmq.wire.names import NOT_ENCODABLE, is_encodable

#: Messages of a selection.
MAX_MESSAGES = 10_000
#: Seconds of a preview, whose search uses a tenth of Redis's time.
_MAX_SECONDS = 10.0
_PAGE = 1000


async def preview(
    queues: Client,
    queue: str,
    *,
    filter: str | None = None,
    state: State | None = None,
    redaction: Redaction,
    by: str = "",
) -> Selection:
    """
    Find the messages that fit, and store them as a selection for ten minutes.

    Args:
        filter: as in lists of messages; None is all.
        state: None is any.
        redaction: of the caller; the filter looks at bodies as the caller sees them.
        by: who asks: the selections of others are not replaced.

    Raises:
        InvalidFormat: the filter is not valid.
        QueueNotFound: the queue does not exist.
    """
    wanted = SearchFilter() if filter is None else parse_filter(filter)
    query = MessageQuery(queue, state, wanted, _PAGE, redaction)
    rows: dict[int, list[Row]] = {}
    count, place = 0, (0, SearchPosition())
    next_place: tuple[int, SearchPosition] | None = place
    loop = asyncio.get_running_loop()
    end = loop.time() + _MAX_SECONDS
    while next_place is not None and count <= MAX_MESSAGES and loop.time() < end:
        page = await read_page(queues, query, *next_place)
        for each in page.found:
            message = each.message
            cell, id = queues.engine.split_id(message.id)
            row = (id, str(message.receive_count), each.position.score)
            rows.setdefault(cell or 0, []).append(row)
        count += len(page.found)
        next_place = page.next
    is_complete = next_place is None and count <= MAX_MESSAGES
    return await _store(
        queues, make_selection(queue, rows, filter=filter, state=state, is_complete=is_complete), by
    )


async def preview_ids(queues: Client, queue: str, ids: Iterable[str], *, by: str = "") -> Selection:
    """
    Store the messages of ids that are in the queue as a selection for ten minutes.

    Raises:
        InvalidValue: there are more than 10,000.
        InvalidFormat: an id has a lone surrogate.
        QueueNotFound: the queue does not exist.
    """
    by_cell: dict[int, list[str]] = {}
    for each in dict.fromkeys(check_batch("ids", ids)):
        if not is_encodable(each):
            raise InvalidFormat("ids", value=each, hint=NOT_ENCODABLE)
        cell, id = queues.engine.split_id(each)
        for one in range(queues.engine.number) if cell is None else (cell,):
            by_cell.setdefault(one, []).append(id)
    rows: dict[int, list[Row]] = {}
    for cell, stored in by_cell.items():
        client: Any = await queues.engine.client(cell)
        keys = client.namespace.queue(queue)
        for at in range(0, len(stored), STEP):
            rows.setdefault(cell, []).extend(
                await client.run(read_rows(keys, stored[at : at + STEP]))
            )
    if not by_cell:
        await queues.get_queue_attributes(queue)  # raises if it does not exist
    return await _store(queues, make_selection(queue, rows, by_ids=True), by)


async def preview_again(
    queues: Client, selection: Selection, redaction: Redaction, by: str
) -> Selection:
    """Store a selection as it is now: with the same filter, or those of its ids that are left."""
    if not selection.by_ids:
        return await preview(
            queues, selection.queue, filter=selection.filter, state=selection.state,
            redaction=redaction, by=by,
        )  # fmt: skip
    ids = [
        queues.engine.show_id(cell, row[0]) for cell, rows in selection.rows.items() for row in rows
    ]
    return await preview_ids(queues, selection.queue, ids, by=by)


async def load_selection(queues: Client, token: str) -> Selection:
    """
    Return a selection.

    Raises:
        Refused: there is none with this token, or its ten minutes are over.
    """
    client: Any = await queues.engine.client(0)
    found = await client.run(read_selection(client.namespace, token))
    if found is None:
        raise Refused(
            "selectionNotFound",
            "There is no such selection, or its ten minutes are over",
            status=409,
            hint="Preview the messages again.",
        )
    ms, content = found
    return replace(decode_selection(content), token=token, before_ms=ms)


async def _store(queues: Client, selection: Selection, by: str) -> Selection:
    client: Any = await queues.engine.client(0)
    operation = store_selection(client.namespace, encode_selection(selection), by)
    token, ms = await client.run(operation)
    return replace(selection, token=token, before_ms=ms)
