"""
The errors with which scripts refuse a call, and the exception for each.
"""

from __future__ import annotations

from collections.abc import Callable

from rsmq.errors import (
    CheckpointSetBack,
    InvalidFormat,
    InvalidValue,
    LeaseTakenOver,
    MessageTooLong,
    NotPossible,
    QueueNotFound,
    RSMQError,
    RunReplaced,
    WorkerReplaced,
    show,
    show_all,
)
from rsmq.errors.hints import Hint, Method
from rsmq.wire.keys import is_hash_of, namespace_of_hash
from rsmq.wire.limits import MAX_FLOW_NODES, MAX_SECONDS

QUEUE_NOT_FOUND = "QUEUENOTFOUND"
MESSAGE_TOO_LONG = "MESSAGETOOLONG"
INVALID_VALUE = "INVALIDVALUE"
DEAD_LETTER_CYCLE = "DEADLETTERCYCLE"
NO_DEAD_LETTER_POLICY = "NODEADLETTERPOLICY"
WORKER_REPLACED = "WORKERREPLACED"
BATCH_ACKNOWLEDGED = "BATCHACKNOWLEDGED"
RUN_REPLACED = "RUNREPLACED"
LEASE_TAKEN_OVER = "LEASETAKENOVER"
TRASH_OFF = "TRASHOFF"
CANNOT_UNDO = "CANNOTUNDO"


def parse_refusal(reply: str, queues: tuple[str, ...]) -> RSMQError | None:
    """
    Return the exception for a script's error reply.

    Args:
        reply: the text of the error reply, which begins with its code.
        queues: the names of the queues of the call.

    Returns:
        The exception to raise, or None if the reply does not come from a script of this library.
    """
    code, _, detail = reply.partition(" ")
    make_error = _REFUSALS.get(code)
    return None if make_error is None else make_error(detail, queues)


def _queue_not_found(hash: str, queues: tuple[str, ...]) -> RSMQError:
    qname = next((q for q in queues if is_hash_of(hash, q)), queues[0])
    return QueueNotFound(qname, namespace_of_hash(hash, qname))


def _batch_acknowledged(detail: str, _: tuple[str, ...]) -> RSMQError:
    stream, number, last = detail.rsplit(" ", 2)
    return make_batch_acknowledged(stream, int(number), int(last))


def make_batch_acknowledged(stream: str, number: int, last: int) -> CheckpointSetBack:
    """
    Return the error of a query that asks for a batch that was acknowledged.

    Args:
        stream: the name of the stream.
        number: the number of the batch.
        last: the number of the last batch that was acknowledged.
    """
    way_out = f": with consumerGroup={stream} it begins behind batch {last}"
    return CheckpointSetBack(f"stream {stream}", number, last, "acknowledged", way_out)


def _message_too_long(detail: str, queues: tuple[str, ...]) -> RSMQError:
    size, limit = detail.split(" ")
    return MessageTooLong(
        value=int(size),
        summary=f"Message too long: {size}, but the maxsize of queue {show_all(queues)} is {limit}",
        hint=Hint(
            "Send less, or raise the limit with ",
            Method("set_queue_attributes", "maxsize"),
            " (-1 is unlimited). It counts UTF-16 code units of text, and bytes of bytes.",
        ),
    )


def _dead_letter_cycle(target: str, queues: tuple[str, ...]) -> RSMQError:
    return InvalidFormat(
        "dead_letter_queue",
        value=target,
        hint=f"Queue {show(target)} has {show(queues[0])} as its dead-letter queue, so messages "
        "would circulate and never be delivered. Remove that policy, or use another queue.",
    )


def _no_dead_letter_policy(_: str, queues: tuple[str, ...]) -> RSMQError:
    return InvalidFormat(
        "expired",
        value="dead-letter",
        hint=Hint(
            f"Queue {show(queues[0])} has no dead-letter queue. Set one with ",
            Method("set_dead_letter_policy"),
            ".",
        ),
    )


#: Why a deletion can't be kept: what is so, and the remedy.
TRASH_OFF_REASONS = {
    "memory": (
        "more than 80 % of the server's maxmemory is in use",
        "Free memory, or delete for good.",
    ),
    "full": (
        "1,000 deletions are kept",
        "Each is kept for ten minutes. Wait, or delete for good.",
    ),
    "rename": (
        "the user of Redis may not rename keys",
        "It needs RENAMENX. Or delete for good.",
    ),
}
_NO_UNDO_REASONS = {
    "unknown": ("there is no such deletion", "It can be undone for ten minutes."),
    "over": ("its ten minutes are over", "Restore an export, or send the messages again."),
    "undone": ("it was undone already", "queues.trash.list() has what can be undone."),
    "deleted": ("the queue was deleted since", "Undo the deletion of the queue first."),
    "recreated": (
        "the queue was deleted and created again since",
        "What was kept is of the earlier queue, and is removed after its ten minutes.",
    ),
    "exists": (
        "a queue of this name exists again",
        "Delete that queue, or move its messages elsewhere and delete it, and undo then.",
    ),
    "evicted": (
        "the server has evicted what was kept",
        "Redis evicts keys with a time to live when its memory is full.",
    ),
}


def _trash_off(detail: str, queues: tuple[str, ...]) -> RSMQError:
    why, remedy = TRASH_OFF_REASONS[detail]
    return NotPossible(
        f"The deletion can't be undone later, because {why}; nothing was deleted",
        value=queues[0],
        hint=remedy,
    )


def make_no_undo(detail: str, queues: tuple[str, ...]) -> RSMQError:
    """Return the error of a deletion that can't be undone, for a reason of a script."""
    why, remedy = _NO_UNDO_REASONS[detail]
    return NotPossible(
        f"The deletion can't be undone: {why}", value=queues[0] if queues else None, hint=remedy
    )


def _invalid_value(detail: str, queues: tuple[str, ...]) -> RSMQError:
    item, _, stored = detail.partition(" ")
    if item == "deliver_at":
        return InvalidValue(
            "seconds until deliver_at",
            0,
            MAX_SECONDS,
            value=int(stored) / 1000,
            hint="Pass an earlier time. The clock of the server counts.",
        )
    if item == "nodes":
        return InvalidValue("number of nodes", 1, MAX_FLOW_NODES, value=int(stored))
    if item == "rate":
        return InvalidValue(
            "seconds until the rate permits the message",
            0,
            MAX_SECONDS,
            value=int(stored) / 1000,
            hint="Earlier messages of the key have the times until then. Pass a higher rate.",
        )
    if item == "expires":
        expires_ms, _, wait_ms = stored.partition(" ")
        return InvalidValue(
            "expires",
            (int(wait_ms) + 1) / 1000,
            MAX_SECONDS,
            value=int(expires_ms) / 1000,
            hint="A message must become visible before it expires.",
        )
    return InvalidValue(
        item,
        0,
        MAX_SECONDS,
        value=stored,
        hint=Hint(
            f"Another client stored this {item} in queue {show_all(queues)}. ",
            Method("set_queue_attributes", item),
            " repairs it.",
        ),
    )


_REFUSALS: dict[str, Callable[[str, tuple[str, ...]], RSMQError]] = {
    QUEUE_NOT_FOUND: _queue_not_found,
    MESSAGE_TOO_LONG: _message_too_long,
    INVALID_VALUE: _invalid_value,
    DEAD_LETTER_CYCLE: _dead_letter_cycle,
    NO_DEAD_LETTER_POLICY: _no_dead_letter_policy,
    WORKER_REPLACED: lambda key, _: WorkerReplaced(key),
    BATCH_ACKNOWLEDGED: _batch_acknowledged,
    RUN_REPLACED: lambda key, _: RunReplaced(key),
    TRASH_OFF: _trash_off,
    CANNOT_UNDO: make_no_undo,
    LEASE_TAKEN_OVER: lambda stream, _: LeaseTakenOver(stream),
}
