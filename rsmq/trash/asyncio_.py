"""
``queues.trash`` of the asyncio clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from rsmq.errors import QueueNotFound
from rsmq.operations.arguments import check_batch
from rsmq.trash.deletion import (
    Deletion,
    DeletionKind,
    Restored,
    join_deletions,
    make_deletion_id,
)
from rsmq.trash.operations import (
    delete_messages_to_trash,
    delete_queue_to_trash,
    empty_trash,
    purge_to_trash,
    read_trash,
    undo,
)
from rsmq.wire.refusals import TRASH_OFF_REASONS, make_no_undo

#: The class has a method of the name list.
_Deletions: TypeAlias = list[Deletion]


class AsyncTrash:
    """
    Deletions that can be undone for ten minutes.

    What is deleted here is as gone for every client as after an ordinary deletion: Node and PHP see
    no difference. It takes memory until the ten minutes are over.
    """

    def __init__(self, engine: Any) -> None:
        """
        Make it; nothing is read.

        Args:
            engine: the cells of the client.
        """
        self._engine = engine

    async def purge_queue(self, qname: str, *, by: str = "") -> Deletion:
        """
        Remove all messages of a queue, as ``purge_queue`` of the client does.

        One atomic step in constant time.

        Args:
            qname: the queue's name.
            by: who does it, for the list; at most 160 characters.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
            QueueNotFound: the queue does not exist.
            NotPossible: it could not be undone: memory is short, there are too many deletions, or
                the user of Redis may not rename keys. Nothing was removed.
            PartlyDone: some cells can't be reached.
        """
        id = make_deletion_id()
        made = await self._engine.by_cell(
            lambda client: client.run(purge_to_trash(client.namespace, id, qname, by))
        )
        return join_deletions(made.values())

    async def delete_queue(self, qname: str, *, by: str = "") -> Deletion:
        """
        Delete a queue with all its messages, as ``delete_queue`` of the client does.

        One atomic step in constant time.

        Args:
            qname: the queue's name.
            by: as for ``purge_queue``.

        Raises:
            As ``purge_queue``.
        """
        id = make_deletion_id()
        made = await self._engine.by_cell(
            lambda client: client.run(delete_queue_to_trash(client.namespace, id, qname, by))
        )
        parts = [each for each in made.values() if each is not None]
        if not parts:
            raise QueueNotFound(qname, self._engine.clients[0].namespace.name)
        return join_deletions(parts)

    async def delete_messages(self, qname: str, ids: Iterable[str], *, by: str = "") -> Deletion:
        """
        Delete messages by their ids, whoever has received them, as ``delete_messages`` does.

        It runs in atomic steps of up to 250 messages. If it ends between two of them, those that
        are deleted can be undone.

        Args:
            qname: the queue's name.
            ids: at most 10,000 ids.
            by: as for ``purge_queue``.

        Returns:
            The deletion; its id is empty if none of the messages was there.

        Raises:
            As ``purge_queue``; and InvalidValue: there are too many ids.
        """
        id = make_deletion_id()
        by_cell: dict[int, list[str]] = {}
        for each in dict.fromkeys(check_batch("ids", ids)):
            cell, stored = self._engine.split_id(each)
            for one in range(self._engine.number) if cell is None else (cell,):
                by_cell.setdefault(one, []).append(stored)
        parts = []
        for cell, stored_ids in by_cell.items():
            client = await self._engine.client(cell)
            steps = delete_messages_to_trash(client.namespace, id, qname, by, stored_ids)
            part = await client.run_steps(steps)
            if part is not None:
                shown = [self._engine.show_id(cell, each) for each in part.message_ids]
                parts.append(replace(part, message_ids=tuple(shown)))
        return (
            join_deletions(parts)
            if parts
            else Deletion("", DeletionKind.DELETE_MESSAGES, qname, by, 0, 0)
        )

    async def list(self) -> list[Deletion]:
        """
        Return the deletions that can be undone, and those of ten minutes that were; latest first.

        Raises:
            PartlyDone: some cells can't be reached.
        """
        by_id: dict[str, _Deletions] = {}
        for _, found in (await self._read()).values():
            for each in found:
                by_id.setdefault(each.id, []).append(each)
        return sorted(map(join_deletions, by_id.values()), key=lambda each: -each.deleted_ms)

    async def why_off(self) -> str | None:
        """
        Return why a deletion could not be undone now, as a part of a sentence; None if it could.

        Without the right to INFO, it does not know whether memory is short.

        Raises:
            PartlyDone: some cells can't be reached.
        """
        for reason, _ in (await self._read()).values():
            if reason:
                return TRASH_OFF_REASONS[reason][0]
        return None

    async def undo(self, id: str) -> Restored:
        """
        Restore what a deletion has removed.

        Messages come back with their ids, bodies, times, receive counts and what else is stored of
        them; messages that have come meanwhile stay. A queue keeps its attributes and totals of
        now. A message that a consumer had received and finished is there again, so it is delivered
        once more. If less than about 500 messages came since a purge, or a queue is restored, it
        is one atomic step in constant time; else it is steps of up to 250 messages, and a call that
        ends between two of them can be repeated.

        Args:
            id: the id of a deletion.

        Raises:
            NotPossible: there is no such deletion, its time is over, it was undone, the queue was
                deleted or created again, or Redis has evicted it. Nothing was changed.
            PartlyDone: some cells can't be reached.
        """
        cells = {
            cell: each
            for cell, (_, found) in (await self._read()).items()
            for each in found
            if each.id == id
        }
        if not cells:
            raise make_no_undo("unknown", (str(id)[:80],))
        parts = []
        for cell, deletion in cells.items():
            if deletion.state != "undone" or len(cells) == 1:
                client = await self._engine.client(cell)
                parts.append(await client.run_steps(undo(client.namespace, deletion)))
        return Restored(
            deletion.queue,
            sum(each.messages for each in parts),
            sum(each.in_queue for each in parts),
        )

    async def empty(self) -> int:
        """
        Remove what can't be undone any more without blocking the server, and return what is left.

        Without this call it expires a minute later. Redis then frees a large queue at once, which
        blocks it, unless ``lazyfree-lazy-expire`` is on. ``rsmq web`` makes the call.

        Returns:
            The number of deletions that are left.

        Raises:
            PartlyDone: some cells can't be reached.
        """
        left = await self._engine.by_cell(lambda client: client.run(empty_trash(client.namespace)))
        return int(sum(left.values()))

    async def _read(self) -> dict[int, tuple[str, _Deletions]]:
        found: dict[int, tuple[str, _Deletions]] = await self._engine.by_cell(
            lambda client: client.run(read_trash(client.namespace))
        )
        return found
