"""
A selection of messages that was shown to someone, and the actions on exactly these.

A preview stores each message as it was: its id, receive count and score. An action changes these
and no others, each only if it is still as it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from rsmq.errors import InvalidFormat
from rsmq.model import State
from rsmq.operations.arguments import check_batch
from rsmq.search.message_filter import SearchFilter, parse_filter
from rsmq.search.operations import SearchPosition
from rsmq.search.redaction import Redaction
from rsmq.trash.deletion import Deletion, DeletionKind, make_deletion_id
from rsmq.trash.operations import delete_step
from rsmq.web.fields import Refused
from rsmq.web.search import MessageQuery, read_page
from rsmq.web.selection.operations import (
    LIFE_MS,
    STEP,
    Row,
    count_changed,
    delete_rows,
    move_rows,
    read_rows,
    read_selection,
    release_rows,
    store_selection,
)
from rsmq.web.table import Client

#: Messages of a selection.
MAX_MESSAGES = 10_000
#: Seconds of a preview, whose search uses a tenth of Redis's time.
_MAX_SECONDS = 10.0
_PAGE = 1000


class SelectionAction(Enum):
    """What is done with the messages."""

    DELETE = "delete"
    MOVE = "move"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Selection:
    """
    Messages that were shown to someone.

    Attributes:
        queue: the name of the queue.
        state: the state that they had; None is any.
        filter: what they fit, as a text; None is any.
        count: their number; if it is not complete, that of those that were found.
        is_complete: whether all of them are in it. Else there are more than 10,000, or the search
            took more than ten seconds: no action takes it, and a stored operation with the same
            filter and ``before_ms`` does what it would.
        digest: of the messages and how they were; two selections with the same one are the same.
        token: for ``execute``. Nobody can make one up.
        before_ms: Unix ms of the server when it was stored. What is sent later is not in it.
        until_ms: until when it can be used.
        by_ids: whether the messages were chosen by their ids.
        rows: the messages by cell, as they were.
    """

    queue: str
    state: State | None
    filter: str | None
    count: int
    is_complete: bool
    digest: str
    token: str
    before_ms: int
    by_ids: bool
    rows: dict[int, list[Row]]

    @property
    def until_ms(self) -> int:
        """Until when it can be used."""
        return self.before_ms + LIFE_MS


@dataclass(frozen=True, slots=True)
class SelectionResult:
    """
    What an action has done.

    Attributes:
        done: the number of messages that were changed.
        left: those that were received or changed while it ran, after they were checked; they are
            as they were. 0 for up to 150 messages of one cell, unless they are deleted with undo
            and their bodies have more than 1 MiB: then it takes several steps.
        undo: of a deletion that can be undone.
    """

    done: int
    left: int
    undo: Deletion | None = None


class SelectionChanged(Refused):
    """
    Messages of a selection are gone or not as they were. Nothing was changed.

    Attributes:
        selection: the new one, with the same filter or those of the ids that are left.
    """

    def __init__(self, changed: int, selection: Selection) -> None:
        super().__init__(
            "selectionChanged",
            f"{changed:,} of the messages are gone or were received since; nothing was changed",
            status=409,
            hint="Look at the new selection, and confirm it.",
            extra={
                "count": selection.count,
                "selection": selection.token if selection.is_complete else None,
            },
        )
        self.selection = selection


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
        queues, _new(queue, rows, filter=filter, state=state, is_complete=is_complete), by
    )


async def preview_ids(queues: Client, queue: str, ids: Iterable[str], *, by: str = "") -> Selection:
    """
    Store the messages of ids that are in the queue as a selection for ten minutes.

    Raises:
        InvalidValue: there are more than 10,000.
        QueueNotFound: the queue does not exist.
    """
    by_cell: dict[int, list[str]] = {}
    for each in dict.fromkeys(check_batch("ids", ids)):
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
    return await _store(queues, _new(queue, rows, by_ids=True), by)


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
    return replace(_decode(content), token=token, before_ms=ms)


async def execute(
    queues: Client,
    selection: Selection,
    action: SelectionAction,
    *,
    destination: str | None = None,
    redaction: Redaction,
    undo: bool = False,
    by: str = "",
) -> SelectionResult:
    """
    Do something with exactly the messages of a selection.

    All of them are checked first. Up to 150 in one cell are checked and changed in one atomic
    script; more, or a deletion with undo of more than 1 MiB of bodies, in steps, which leave what
    has changed since the check.

    Args:
        destination: of a move.
        redaction: of the caller, for the new selection if this one has changed.
        undo: whether deleted messages are kept for ten minutes.
        by: who does it, for the undo.

    Raises:
        SelectionChanged: messages are gone or not as they were. Nothing was changed.
        Refused: the selection is not complete.
        InvalidFormat: the destination is the queue.
        QueueNotFound: the queue or the destination does not exist.
        NotPossible: it could not be undone. Nothing was changed.
    """
    if not selection.is_complete:
        raise Refused(
            "selectionTooLarge",
            f"It has more than {MAX_MESSAGES:,} messages, or its search takes too long",
            status=409,
            hint="Pass filter and before_ms instead: then a stored operation does it.",
        )
    if action is SelectionAction.MOVE and destination in {None, selection.queue}:
        raise InvalidFormat("destination", value=destination, hint="Pass another queue.")
    steps = list(_steps(selection))
    if len(steps) > 1:
        changed = 0
        for cell, rows in steps:
            client: Any = await queues.engine.client(cell)
            keys = client.namespace.queue(selection.queue)
            changed += await client.run(count_changed(keys, rows))
        if changed:
            raise SelectionChanged(changed, await _again(queues, selection, redaction, by))
    run = _Run(queues, selection, action, destination, by, undo=undo, strict=len(steps) == 1)
    for cell, rows in steps:
        if not await run.step(cell, rows):
            raise SelectionChanged(
                await run.count_changed(cell, rows), await _again(queues, selection, redaction, by)
            )
    return run.result()


class _Run:
    """The steps of an action."""

    def __init__(
        self,
        queues: Client,
        selection: Selection,
        action: SelectionAction,
        destination: str | None,
        by: str,
        *,
        undo: bool,
        strict: bool,
    ) -> None:
        self._queues = queues
        self._selection = selection
        self._action = action
        self._destination = destination
        self._by = by
        self._strict = strict
        self._deletion_id = make_deletion_id() if undo else ""
        self._deleted_ms = 0
        self._done = 0

    async def step(self, cell: int, rows: list[Row]) -> bool:
        """Run a step, and return whether it was done: not if all must be as they were."""
        client: Any = await self._queues.engine.client(cell)
        keys = client.namespace.queue(self._selection.queue)
        if self._action is SelectionAction.DELETE and self._deletion_id:
            return await self._delete_with_undo(client, rows)
        if self._action is SelectionAction.DELETE:
            operation = delete_rows(keys, rows, strict=self._strict)
        elif self._action is SelectionAction.RELEASE:
            operation = release_rows(keys, rows, strict=self._strict)
        else:
            to = client.namespace.queue(self._destination)
            operation = move_rows(keys, to, rows, strict=self._strict)
        done: int = await client.run(operation)
        self._done += max(done, 0)
        return done >= 0

    async def _delete_with_undo(self, client: Any, rows: list[Row]) -> bool:
        at = 0
        while at < len(rows):
            # Large bodies end a step early: what is left was checked together with the rest.
            ms, looked, answers = await client.run(
                delete_step(
                    client.namespace, self._deletion_id, self._selection.queue, self._by,
                    rows[at:], strict=self._strict and not at,
                )
            )  # fmt: skip
            if looked < 0:
                return False
            self._deleted_ms = self._deleted_ms or ms
            self._done += answers.count(b"1")
            at += looked
        return True

    async def count_changed(self, cell: int, rows: list[Row]) -> int:
        """Return how many messages of a step are not as they were: one was not, at least."""
        client: Any = await self._queues.engine.client(cell)
        keys = client.namespace.queue(self._selection.queue)
        changed: int = await client.run(count_changed(keys, rows))
        return max(changed, 1)

    def result(self) -> SelectionResult:
        """Return what was done."""
        undo = None
        if self._deletion_id and self._done:
            undo = Deletion(
                self._deletion_id, DeletionKind.DELETE_MESSAGES, self._selection.queue, self._by,
                self._done, self._deleted_ms,
            )  # fmt: skip
        return SelectionResult(self._done, self._selection.count - self._done, undo)


def _steps(selection: Selection) -> Iterator[tuple[int, list[Row]]]:
    for cell, rows in selection.rows.items():
        for at in range(0, len(rows), STEP):
            yield cell, rows[at : at + STEP]


async def _again(queues: Client, selection: Selection, redaction: Redaction, by: str) -> Selection:
    """Return the selection as it is now."""
    if not selection.by_ids:
        return await preview(
            queues, selection.queue, filter=selection.filter, state=selection.state,
            redaction=redaction, by=by,
        )  # fmt: skip
    ids = [
        queues.engine.show_id(cell, row[0]) for cell, rows in selection.rows.items() for row in rows
    ]
    return await preview_ids(queues, selection.queue, ids, by=by)


def _new(
    queue: str,
    rows: dict[int, list[Row]],
    *,
    filter: str | None = None,
    state: State | None = None,
    is_complete: bool = True,
    by_ids: bool = False,
) -> Selection:
    facts = sorted((cell, *row) for cell, of_cell in rows.items() for row in of_cell)
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
    kept = rows if is_complete else {}
    return Selection(queue, state, filter, len(facts), is_complete, digest, "", 0, by_ids, kept)


async def _store(queues: Client, selection: Selection, by: str) -> Selection:
    client: Any = await queues.engine.client(0)
    operation = store_selection(client.namespace, _encode(selection), by)
    token, ms = await client.run(operation)
    return replace(selection, token=token, before_ms=ms)


def _encode(selection: Selection) -> bytes:
    names = ("queue", "state", "filter", "count", "is_complete", "digest", "by_ids")
    content = {name: getattr(selection, name) for name in names}
    content["rows"] = list(selection.rows.items())
    return zlib.compress(json.dumps(content).encode(), 1)


def _decode(content: bytes) -> Selection:
    read = json.loads(zlib.decompress(content))
    rows = {cell: [tuple(row) for row in of_cell] for cell, of_cell in read.pop("rows")}
    return Selection(**read, token="", before_ms=0, rows=rows)
