"""
A deletion that can be undone.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from enum import StrEnum

from rsmq.errors import InvalidFormat
from rsmq.wire.names import is_encodable

#: For how long a deletion can be undone; the scripts have the same number.
UNDO_MS = 600_000
_MAX_BY = 160
#: In ``by``: a caller over HTTP, on a server that does not know its callers.
UNKNOWN_CALLER = "everyone"


class DeletionKind(StrEnum):
    """
    The deleted thing; each is equal to its text.

    Attributes:
        PURGE: all messages of a queue.
        DELETE_QUEUE: a queue.
        DELETE_MESSAGES: some messages.
    """

    PURGE = "purge"
    DELETE_QUEUE = "delete-queue"
    DELETE_MESSAGES = "delete-messages"


class DeletionState(StrEnum):
    """
    The state of a deletion; each is equal to its text. The states follow each other in this order.

    Attributes:
        KEPT: it can be undone.
        UNDOING: a part is restored. If the rest is not restored now, another call of undo does.
        UNDONE: all of it is restored.
    """

    KEPT = "kept"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Deletion:
    """
    A deletion that can be undone.

    Attributes:
        id: for ``undo``; empty if nothing was deleted.
        queue: the name of the queue.
        by: who has deleted it, as the caller said.
        messages: the number of messages that were deleted.
        deleted_ms: when, Unix ms of the server.
        until_ms: until when it can be undone, Unix ms of the server.
        message_ids: of a deletion of messages the ids that were deleted; empty in a list.
    """

    id: str
    kind: DeletionKind
    queue: str
    by: str
    messages: int
    deleted_ms: int
    state: DeletionState = DeletionState.KEPT
    message_ids: tuple[str, ...] = ()

    @property
    def until_ms(self) -> int:
        """Until when it can be undone, Unix ms of the server."""
        return self.deleted_ms + UNDO_MS

    def is_open(self, now_ms: float, kind: DeletionKind) -> bool:
        """Return whether it is of this kind and can be undone."""
        return self.kind is kind and self.state is DeletionState.KEPT and now_ms < self.until_ms

    def is_open_purge(self, queue: str, now_ms: float) -> bool:
        """Return whether it is a purge of a queue that has removed messages and can be undone."""
        is_purge = self.is_open(now_ms, DeletionKind.PURGE) and self.messages > 0
        return is_purge and self.queue == queue


@dataclass(frozen=True, slots=True)
class Restored:
    """
    The result of ``undo``.

    Attributes:
        queue: the name of the queue.
        messages: the number of messages that were restored.
        in_queue: those that were in the queue already, because they came back by another way; they
            stay as they are.
    """

    queue: str
    messages: int
    in_queue: int


def make_deletion_id() -> str:
    """Return the id of a new deletion."""
    return secrets.token_hex(8)


def encode_facts(queue: str, by: object) -> bytes:
    """
    Return what is stored of a deletion beside its numbers.

    Raises:
        InvalidFormat: by is not a str of at most 160 characters.
    """
    if not isinstance(by, str) or len(by) > _MAX_BY or not is_encodable(by):
        raise InvalidFormat(
            "by", value=by, hint=f"It is a str of at most {_MAX_BY} characters, such as a name."
        )
    return json.dumps({"queue": queue, "by": by}).encode()


def decode_deletion(id: str, text: bytes) -> Deletion:
    """Return a deletion as it is stored: ``fragments/trash.lua`` has the form."""
    state, kind, ms, messages, _, facts = text.split(b" ", 5)
    read = json.loads(facts)
    return Deletion(
        id,
        DeletionKind(kind.decode()),
        read["queue"],
        read["by"],
        int(messages),
        int(ms),
        DeletionState(state.decode()),
    )
