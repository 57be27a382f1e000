# Generated from rsmq/trash/asyncio_.py by scripts/generate-sync. Do not edit.
"""
``queues.trash`` of the synchronous clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from rsmq.errors import QueueNotFound
from rsmq.operations.arguments import check_batch
from rsmq.trash.deletion import Deletion, DeletionKind, Restored, make_deletion_id
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


class Trash:
    """
    Deletions that can be undone for ten minutes.

    For every client a message deleted here is gone, as after an ordinary deletion: Node and PHP see
    no difference. It takes memory until the ten minutes are over.
    """

    def __init__(self, client: Any) -> None:
        """Make it for a synchronous client; nothing is read."""
        self._client = client

    def purge_queue(self, qname: str, *, by: str = "") -> Deletion:
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
        """
        client = self._client
        made: Deletion = client.run(purge_to_trash(client.namespace, make_deletion_id(), qname, by))
        return made

    def delete_queue(self, qname: str, *, by: str = "") -> Deletion:
        """
        Delete a queue with all its messages, as ``delete_queue`` of the client does.

        One atomic step in constant time.

        Args:
            qname: the queue's name.
            by: as for ``purge_queue``.

        Raises:
            As ``purge_queue``.
        """
        namespace = self._client.namespace
        made: Deletion | None = self._client.run(
            delete_queue_to_trash(namespace, make_deletion_id(), qname, by)
        )
        if made is None:
            raise QueueNotFound(qname, namespace.name)
        return made

    def delete_messages(self, qname: str, ids: Iterable[str], *, by: str = "") -> Deletion:
        """
        Delete messages by their ids, received or not, as ``delete_messages`` does.

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
        checked = check_batch("ids", ids)
        client = self._client
        made: Deletion | None = client.run_steps(
            delete_messages_to_trash(client.namespace, make_deletion_id(), qname, by, checked)
        )
        return made or Deletion("", DeletionKind.DELETE_MESSAGES, qname, by, 0, 0)

    def list(self) -> list[Deletion]:
        """
        Return the deletions that can be undone, and those of ten minutes that were; latest first.
        """
        _, deletions = self._read()
        return deletions

    def why_off(self) -> str | None:
        """
        Return why a deletion could not be undone now, as a part of a sentence; None if it could.

        Without the right to INFO, it does not know whether memory is short.
        """
        reason, _ = self._read()
        return TRASH_OFF_REASONS[reason][0] if reason else None

    def undo(self, id: str) -> Restored:
        """
        Restore what a deletion has removed.

        Messages return with their ids, bodies, times, receive counts and what else is stored of
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
        """
        _, deletions = self._read()
        deletion = next((each for each in deletions if each.id == id), None)
        if deletion is None:
            raise make_no_undo("unknown", (str(id)[:80],))
        steps = undo(self._client.namespace, deletion)
        restored: Restored = self._client.run_steps(steps)
        return restored

    def empty(self) -> int:
        """
        Remove what can't be undone any more without blocking the server, and return what is left.

        Without this call it expires a minute later. Redis then frees a large queue at once, which
        blocks it, unless ``lazyfree-lazy-expire`` is on. ``rsmq web`` makes the call.

        Returns:
            The number of deletions that are left.
        """
        return int(self._client.run(empty_trash(self._client.namespace)))

    def _read(self) -> tuple[str, _Deletions]:
        found: tuple[str, _Deletions] = self._client.run(read_trash(self._client.namespace))
        return found
