"""
Calls that are sent as a batch: which ones, by which script, and the reply for each. Pure.

The script of the batch is that of the calls of many. Its reply becomes a reply for each call, as if
the call had been sent alone, so nothing above the connection knows of it. An error of the batch
says that no message was changed; each call is then sent alone, and gets its own reply or error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

from rsmq.operations import batches, messages
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, Steps
from rsmq.operations.scripts import load
from rsmq.operations.sending import LARGE_BODY_BYTES, send_each, send_each_in_two_steps
from rsmq.wire.body_format import is_stored
from rsmq.wire.ids import make_id_suffixes

#: The maximum number of calls in a batch.
MAX_CALLS = 250

#: The maximum number of bytes of the bodies in a batch; a single body may have more.
MAX_BYTES = 1_048_576

#: Fewer calls with large bodies than this are sent alone, and so is a body of at least
#: HUGE_BODY_BYTES, which gains nothing.
MIN_LARGE_CALLS = 4
HUGE_BODY_BYTES = 131_072

#: The maximum number of bytes of the bodies of all first steps that are sent together. A first step
#: gives the bodies their time and place in the queue, so the second one should follow soon.
MAX_BEGUN_BYTES = 16_777_216

#: Instead of the reply of a call that the batch has not run, for lack of room.
NOT_RUN: Final = object()


@dataclass(frozen=True, slots=True)
class CallKind:
    """
    How calls of a script become a batch.

    Attributes:
        script: its name, which is that of its builder.
        group: returns what all calls of a batch have in common; None for a call that is always sent
            alone.
        merge: returns the steps of a batch, whose result is the reply for each call.
    """

    script: str
    group: Callable[[Operation[Any]], Hashable]
    merge: Callable[[Sequence[Operation[Any]]], Steps[list[Any]]]


class _Keys(NamedTuple):
    name: str
    hash: bytes
    zset: bytes


def _send_group(operation: Operation[Any]) -> Hashable:
    raw, _, delay, _, channel = operation.args
    # Each message that is sent to the front is before the last one, those of a batch are in order.
    # A batch gives its ids to the messages in order, and a stored body is named by its own.
    if channel or delay == b"front" or len(raw) >= HUGE_BODY_BYTES or is_stored(raw):
        return None
    return operation.keys, delay, len(raw) >= LARGE_BODY_BYTES


def _merge_sends(operations: Sequence[Operation[Any]]) -> Steps[list[Any]]:
    replies: list[Any] = yield from send_each(*_messages(operations))
    return replies


def merge_large_sends(
    operations: Sequence[Operation[Any]], cancelled: Callable[[], Collection[int]]
) -> Steps[list[Any]]:
    """Return the two steps that send large bodies, as ``CallKind.merge`` does for one step."""
    replies: list[Any] = yield from send_each_in_two_steps(*_messages(operations), cancelled)
    return replies


def _messages(
    operations: Sequence[Operation[Any]],
) -> tuple[_Keys, list[tuple[bytes, bytes]], bytes, list[bytes]]:
    """Return the arguments of ``send_each``."""
    first = operations[0]
    hash, zset = first.keys
    suffixes = {each.args[3] for each in operations}
    if len(suffixes) < len(operations):  # an operation that several calls run at the same time
        suffixes = set(make_id_suffixes(len(operations)))
    messages = [(each.args[1], each.args[0]) for each in operations]
    return _Keys(first.queues[0], hash, zset), messages, first.args[2], sorted(suffixes)


def _receive_group(operation: Operation[Any]) -> Hashable:
    # With a vt of 0 the same message is received again at once.
    return None if operation.args[0] == b"0" else (operation.keys, operation.args)


def _merge_receives(operations: Sequence[Operation[Any]]) -> Steps[list[Any]]:
    vt, namespace = operations[0].args
    now, more, _, bodies, repeated = yield _batch(
        batches.receive_messages,
        operations[0],
        (digits(len(operations)), digits(MAX_BYTES), vt, namespace, b"1"),
    )
    return _split_messages(len(operations), now, more, bodies, repeated)


def _merge_pops(operations: Sequence[Operation[Any]]) -> Steps[list[Any]]:
    (namespace,) = operations[0].args
    now, more, bodies, repeated = yield _batch(
        batches.pop_messages,
        operations[0],
        (digits(len(operations)), digits(MAX_BYTES), namespace, b"1"),
    )
    return _split_messages(len(operations), now, more, bodies, repeated)


def _split_messages(
    number: int, now: bytes, more: int | list[int], bodies: list[Any], repeated: list[Any]
) -> list[Any]:
    """Return what ``receive_message.lua`` would return for each call."""
    replies: list[Any] = [
        [id, body, 1, now] for id, body in zip(bodies[::2], bodies[1::2], strict=True)
    ]
    for position, count, first in zip(repeated[::3], repeated[1::3], repeated[2::3], strict=True):
        replies[position - 1][2:] = count, first
    # A list has the place of the queue, and the ms for which its limits allow no more.
    rest = more[1] if isinstance(more, list) else NOT_RUN if more else None
    return replies + [rest] * (number - len(replies))


def _merge_deletes(operations: Sequence[Operation[Any]]) -> Steps[list[Any]]:
    keys, receipts = _receipts(operations)
    reply = yield _batch(batches.delete_messages, operations[0], receipts, keys)
    return _split_digits(reply)


def _merge_changes(operations: Sequence[Operation[Any]]) -> Steps[list[Any]]:
    keys, receipts = _receipts(operations)
    args = (operations[0].args[2], *receipts)
    reply = yield _batch(batches.change_messages_visibility, operations[0], args, keys)
    return _split_digits(reply)


def _split_digits(reply: bytes) -> list[int]:
    return [digit - 48 for digit in reply]


def _receipts(
    operations: Sequence[Operation[Any]],
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return keys and arguments of consecutive calls in the format of ``receipts.lua``."""
    args: list[bytes] = []
    groups = 0
    for count, group in groupby(operations, lambda each: each.args[1]):
        ids = [each.args[0] for each in group]
        args += digits(len(ids)), count, *ids
        groups += 1
    return operations[0].keys * groups, tuple(args)


def _batch(
    builder: Callable[..., Any],
    first: Operation[Any],
    args: tuple[bytes, ...],
    keys: tuple[bytes, ...] | None = None,
) -> Operation[Any]:
    """Return a batch of calls, of which ``first`` is one, with the script of a builder."""
    return Operation(
        load(builder.__name__),
        keys or first.keys,
        args,
        lambda reply: reply,
        RetryClass.NEVER,
        first.queues,
    )


_SEND = messages.send_message.__name__

#: By the names of the scripts of single calls.
KINDS = {
    kind.script: kind
    for kind in (
        CallKind(_SEND, _send_group, _merge_sends),
        CallKind(messages.receive_message.__name__, _receive_group, _merge_receives),
        CallKind(messages.delete_message.__name__, lambda each: each.keys, _merge_deletes),
        CallKind(
            messages.change_message_visibility.__name__,
            lambda each: (each.keys, each.args[2]),
            _merge_changes,
        ),
        CallKind(messages.pop_message.__name__, lambda each: (each.keys, each.args), _merge_pops),
    )
}


def group_of(operation: Operation[Any]) -> tuple[CallKind, Hashable] | None:
    """Return the same for calls that may be in one batch; None for one that is sent alone."""
    kind = KINDS.get(operation.script.name)
    if kind is None or operation.commands is not None:
        return None
    group = kind.group(operation)
    return None if group is None else (kind, group)


def is_send(operation: Operation[Any]) -> bool:
    """Return whether a call sends one message without options."""
    return operation.script.name == _SEND


def has_large_body(operation: Operation[Any]) -> bool:
    """Return whether a batch of such calls should have two steps."""
    return body_bytes(operation) >= LARGE_BODY_BYTES


def body_bytes(operation: Operation[Any]) -> int:
    """Return the bytes of the body that a call sends; 0 for one that sends none."""
    return len(operation.args[0]) if is_send(operation) else 0


def sum_of_bodies(operations: Sequence[Operation[Any]]) -> int:
    """Return the bytes of the bodies that calls of one kind send."""
    return sum([len(each.args[0]) for each in operations]) if is_send(operations[0]) else 0
