"""
Previews: they find messages, and store them as a selection for ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from rsmq.errors import InvalidFormat
from rsmq.model import State
from rsmq.operations.arguments import check_batch
from rsmq.search.message_filter import SearchFilter, parse_filter
from rsmq.search.operations import SearchPosition
from rsmq.search.redaction import Redaction
from rsmq.web.client import Client
from rsmq.web.fields import Refused
from rsmq.web.search import MessageQuery, read_page
from rsmq.web.selection.operations import STEP, Row, read_rows, read_selection, store_selection
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
    skip_in_flight: bool = False,
) -> Selection:
    """
    Find the messages that fit, and store them as a selection for ten minutes.

    Args:
        filter: as in lists of messages; None is all.
        state: None is any.
        redaction: of the caller; the filter looks at bodies as the caller sees them.
        by: who asks: the selections of others are not replaced.
        skip_in_flight: whether messages in flight are left out.

    Raises:
        InvalidFormat: the filter is not valid.
        QueueNotFound: the queue does not exist.
    """
    wanted = SearchFilter() if filter is None else parse_filter(filter)
    query = MessageQuery(queue, state, wanted, _PAGE, redaction)
    rows: list[Row] = []
    behind: SearchPosition | None = SearchPosition()
    loop = asyncio.get_running_loop()
    end = loop.time() + _MAX_SECONDS
    while behind is not None and len(rows) <= MAX_MESSAGES and loop.time() < end:
        page = await read_page(queues, query, behind)
        rows += [
            (each.message.id, str(each.message.receive_count), each.position.score)
            for each in page.found
            if not (skip_in_flight and each.message.state == "in_flight")
        ]
        behind = page.next
    is_complete = behind is None and len(rows) <= MAX_MESSAGES
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
    chosen = check_ids(ids)
    keys = queues.namespace.queue(queue)
    rows: list[Row] = []
    for at in range(0, len(chosen), STEP):
        of_step = await queues.run(read_rows(keys, chosen[at : at + STEP]))
        rows += of_step
    if not chosen:
        await queues.get_queue_attributes(queue)  # raises if it does not exist
    return await _store(queues, make_selection(queue, rows, by_ids=True), by)


def check_ids(ids: Iterable[str]) -> list[str]:
    """
    Return the ids, each once.

    Raises:
        InvalidValue: there are more than 10,000.
        InvalidFormat: an id has a lone surrogate.
    """
    chosen = list(dict.fromkeys(check_batch("ids", ids)))
    for each in chosen:
        if not is_encodable(each):
            raise InvalidFormat("ids", value=each, hint=NOT_ENCODABLE)
    return chosen


async def preview_again(
    queues: Client, selection: Selection, redaction: Redaction, by: str
) -> Selection:
    """Store a selection as it is now: with the same filter, or those of its ids that are left."""
    if not selection.by_ids:
        return await preview(
            queues, selection.queue, filter=selection.filter, state=selection.state,
            redaction=redaction, by=by,
        )  # fmt: skip
    return await preview_ids(queues, selection.queue, [id for id, _, _ in selection.rows], by=by)


async def load_selection(queues: Client, token: str) -> Selection:
    """
    Return a selection.

    Raises:
        Refused: there is none with this token, or its ten minutes are over.
    """
    found = await queues.run(read_selection(queues.namespace, token))
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
    operation = store_selection(queues.namespace, encode_selection(selection), by)
    token, ms = await queues.run(operation)
    return replace(selection, token=token, before_ms=ms)
