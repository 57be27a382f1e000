"""
Operations on deletions that can be undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, Steps, on_keys, on_queue
from rsmq.operations.scripts import loader_of
from rsmq.trash.deletion import Deletion, DeletionKind, Restored, decode_deletion, encode_facts
from rsmq.wire.ids import check_id
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.names import decode_name, encode_name

load = loader_of("trash")

#: Messages that a step moves, and bytes of their bodies: so many take less than 5 ms.
STEP = 250
_STEP_BYTES = 1024 * 1024
#: Fields and ids of a queue that are put beside kept ones in one step.
_SMALL = 1000

#: The answer of a step that has added nothing, because the deletion takes no more messages.
CLOSED = -2

#: A message as someone has read it: id, receive count and score, each as it is stored. The count is
#: "0" if it was never received; an empty count or score may be any.
MessageRow = tuple[str, str, str]


def purge_to_trash(namespace: Namespace, id: str, qname: str, by: str) -> Operation[Deletion]:
    """Remove all messages of a queue, and keep them."""
    keys = namespace.queue(qname)
    pairs, names = _pairs(namespace, keys, id, keys.extensions_of_messages)
    return Operation(
        load("purge_to_trash"),
        (namespace.trash, keys.hash, keys.zset, *pairs),
        (id.encode(), encode_facts(qname, by), names),
        lambda reply: _made(id, DeletionKind.PURGE, qname, by, reply),
        # A second run finds the deletion of this id.
        RetryClass.ALWAYS,
        (keys.name,),
    )


def delete_queue_to_trash(
    namespace: Namespace, id: str, qname: str, by: str
) -> Operation[Deletion | None]:
    """Delete a queue, and keep it; the result is None if there is no such queue."""
    keys = namespace.queue(qname)
    pairs, names = _pairs(namespace, keys, id, keys.extensions)

    def parse(reply: Any) -> Deletion | None:
        return None if reply[1] < 0 else _made(id, DeletionKind.DELETE_QUEUE, qname, by, reply)

    return on_queue(
        keys,
        load("delete_queue_to_trash"),
        (namespace.trash, namespace.queues, keys.hash, keys.zset, *pairs),
        (id.encode(), encode_facts(qname, by), names, encode_name(qname)),
        parse,
    )


def delete_step(
    namespace: Namespace,
    id: str,
    qname: str,
    by: str,
    rows: Sequence[MessageRow],
    *,
    strict: bool = False,
    open_ms: int | None = None,
) -> Operation[tuple[int, int, bytes]]:
    """
    Delete messages, and keep them; one step.

    Args:
        rows: the messages.
        strict: whether nothing is changed unless all of them are as they were.
        open_ms: ms after its begin at which nothing more is added to a deletion; None is until it
            can't be undone any more.

    Returns:
        The ms of the deletion; the number of rows that were looked at, -1 if nothing was changed
        because of strict, CLOSED because of open_ms; and for each a digit, 1 if it was deleted.
    """
    keys = namespace.queue(qname)
    pairs, names = _pairs(namespace, keys, id, keys.extensions_by_id)
    return Operation(
        load("delete_messages_to_trash"),
        (namespace.trash, *pairs),
        (
            id.encode(),
            encode_facts(qname, by),
            names,
            digits(_STEP_BYTES),
            b"1" if strict else b"",
            b"" if open_ms is None else digits(open_ms),
            *(encode_name(value) for row in rows for value in row),
        ),
        lambda reply: (int(reply[0]), int(reply[1]), reply[2]),
        # A second run finds in the trash what the first one has moved there.
        RetryClass.ALWAYS,
        (keys.name,),
    )


def delete_messages_to_trash(
    namespace: Namespace, id: str, qname: str, by: str, ids: Iterable[str]
) -> Steps[Deletion | None]:
    """Delete messages by their ids, and keep them; the result is None if none was there."""
    rows = [(check_id(each), "", "") for each in dict.fromkeys(ids)]
    deleted: list[str] = []
    at = ms = 0
    while at < len(rows):
        part = rows[at : at + STEP]
        ms, looked, answers = yield delete_step(namespace, id, qname, by, part)
        deleted += [
            row[0] for row, answer in zip(part, answers.decode(), strict=False) if answer == "1"
        ]
        at += looked
    if not deleted:
        return None
    made = _made(id, DeletionKind.DELETE_MESSAGES, qname, by, (ms, len(deleted)))
    return replace(made, message_ids=tuple(deleted))


def read_trash(namespace: Namespace) -> Operation[tuple[str, list[Deletion]]]:
    """Read why nothing can be kept now, '' if it can; and the deletions, the latest first."""

    def parse(reply: list[bytes]) -> tuple[str, list[Deletion]]:
        found = [
            decode_deletion(decode_name(id), text)
            for id, text in zip(reply[2::2], reply[3::2], strict=True)
        ]
        found.sort(key=lambda each: (-each.deleted_ms, each.id))
        return reply[1].decode(), found

    return on_keys(load("read_trash"), (namespace.trash,), (), parse)


def empty_trash(namespace: Namespace) -> Operation[int]:
    """Remove what can't be undone any more; the result is the number of deletions left."""
    return on_keys(load("empty_trash"), (namespace.trash,), (), int)


def undo(namespace: Namespace, deletion: Deletion) -> Steps[Restored]:
    """
    Restore what a deletion has removed, in as many steps as it needs.

    Raises:
        NotPossible: it can't be undone.
    """
    keys = namespace.queue(deletion.queue)
    if deletion.kind == DeletionKind.DELETE_QUEUE:
        messages = yield _undo_delete_queue(namespace, keys, deletion.id)
        return Restored(deletion.queue, messages, 0)
    if deletion.kind == DeletionKind.PURGE:
        restored, in_queue = yield _undo_purge(namespace, keys, deletion.id)
        if restored >= 0:
            return Restored(deletion.queue, restored, in_queue)
    messages = in_queue = is_done = 0
    while not is_done:
        is_done, restored, skipped = yield _undo_step(namespace, keys, deletion.id)
        messages += restored
        in_queue += skipped
    return Restored(deletion.queue, messages, in_queue)


def _undo_delete_queue(namespace: Namespace, keys: QueueKeys, id: str) -> Operation[int]:
    pairs, names = _pairs(namespace, keys, id, keys.extensions)
    return on_queue(
        keys,
        load("undo_delete_queue"),
        (namespace.trash, namespace.queues, keys.hash, keys.zset, *pairs),
        (id.encode(), names, encode_name(keys.name)),
        int,
    )


def _undo_purge(namespace: Namespace, keys: QueueKeys, id: str) -> Operation[tuple[int, int]]:
    pairs, names = _pairs(namespace, keys, id, keys.extensions_of_messages)
    return on_queue(
        keys,
        load("undo_purge"),
        (namespace.trash, *pairs),
        (id.encode(), names, digits(_SMALL)),
        lambda reply: (int(reply[0]), int(reply[1])),
    )


def _undo_step(namespace: Namespace, keys: QueueKeys, id: str) -> Operation[tuple[int, int, int]]:
    of_ids = keys.extensions_by_id
    others = [each for each in keys.extensions_of_messages if each not in of_ids]
    pairs, names = _pairs(namespace, keys, id, (*of_ids, *others))
    return on_queue(
        keys,
        load("undo_step"),
        (namespace.trash, *pairs),
        (id.encode(), names, digits(len(of_ids)), digits(STEP), digits(_STEP_BYTES)),
        lambda reply: (int(reply[0]), int(reply[1]), int(reply[2])),
    )


def _pairs(
    namespace: Namespace, keys: QueueKeys, id: str, extensions: Iterable[bytes]
) -> tuple[list[bytes], bytes]:
    """Return each key of a queue and the one that keeps it, and the names of these keys."""
    live = (keys.hash, keys.zset, *extensions)
    names = [keys.short_name(key) for key in live]
    pairs = [
        key
        for each, name in zip(live, names, strict=True)
        for key in (each, namespace.in_trash(id, name))
    ]
    return pairs, ",".join(names).encode()


def _made(id: str, kind: DeletionKind, qname: str, by: str, reply: Sequence[int]) -> Deletion:
    return Deletion(id, kind, qname, by, int(reply[1]), int(reply[0]))
