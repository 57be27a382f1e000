"""
Operations of workers: receive, settle, dead-letter, and the worker's sign of life.

Whatever a worker takes is noted beside the queues, in the same step, under the worker's name: so a
successor of that name knows what a dead one held.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from rsmq.errors import InvalidFormat
from rsmq.lua.load import load
from rsmq.operations.arguments import digits, sent_ms
from rsmq.operations.operation import Operation, Retry, Steps
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.names import decode_name, decode_names, encode_name, encode_names
from rsmq.wire.stored import parse_integer

T = TypeVar("T")

#: How many reasons are kept beside a dead-letter queue, and for how long at least, seconds.
MAX_REASONS = 10_000
REASONS_LIVE = 30 * 86_400
#: How long a worker is remembered after its death, with what it held, seconds.
DEAD_LIVE = 86_400
#: How long it is known that a message was handled alone and never ended, seconds.
ALONE_LIVES = 7 * 86_400

_ROOM = digits(4 * 1024 * 1024)

#: What the script says of a queue: nothing more is due, there may be more, paused, missing, and not
#: looked at for want of slots.
State: TypeAlias = Literal[".", "+", "p", "m", "-"]


#: A receipt: id and receive count.
Receipt: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Taken:
    """
    What a worker received of a queue.

    Attributes:
        state: what is known of the queue.
        ids: the messages' ids.
        raws: their bodies.
        now: the server's time in ms.
        again: of those that were received before, by their places: receive count, and ms of the
            first receive.
    """

    state: State
    ids: list[str]
    raws: list[bytes]
    now: int
    again: dict[int, tuple[int, int | None]]


@dataclass(frozen=True, slots=True)
class Want:
    """
    What a worker wants of a queue.

    Attributes:
        keys: the queue's.
        vt_ms: how long its messages are hidden, ms.
        size: messages of a job.
        ahead: messages that may wait for a slot.
        most: messages at most.
    """

    keys: QueueKeys
    vt_ms: int
    size: int
    ahead: int
    most: int


@dataclass(frozen=True, slots=True)
class Identity:
    """
    A worker, as Redis knows it.

    Attributes:
        namespace: where it works.
        name: its name.
        token: which of the workers that ever had the name.
    """

    namespace: Namespace
    name: str
    token: str

    @property
    def held(self) -> bytes:
        """The key of what it holds."""
        return self.namespace.held(self.name)


def take_messages(worker: Identity, wants: Sequence[Want], slots: int) -> Operation[list[Taken]]:
    """Receive messages that are due, of earlier queues first; what came of each."""
    args = [worker.token.encode(), digits(slots), _ROOM]
    for want in wants:
        args += (
            digits(want.vt_ms),
            digits(want.size),
            digits(want.ahead),
            digits(want.most),
            encode_name(want.keys.name),
        )
    return Operation(
        load("take_messages"),
        (worker.held, *(key for want in wants for key in (want.keys.hash, want.keys.zset))),
        tuple(args),
        _taken,
        # A second run could not tell what the first one took; held_messages does.
        Retry.NEVER,
        tuple(want.keys.name for want in wants),
    )


def _taken(reply: Any) -> list[Taken]:
    told = iter(reply)
    now, states = int(next(told)), next(told).decode()
    return [
        Taken(
            state,
            decode_names(bodies[::2]),
            bodies[1::2],
            now,
            {
                place - 1: (count, parse_integer(first))
                for place, count, first in zip(again[::3], again[1::3], again[2::3], strict=True)
            },
        )
        for state, bodies, again in zip(states, told, told, strict=True)
    ]


class Group(NamedTuple):
    """
    Messages of one queue and one receive count that are settled in the same way.

    Attributes:
        keys: the queue's.
        action: what is done with them.
        receive_count: their receive count.
        ids: their ids; to hide and to extend, pairs of id and ms.
        quarantined: whether they ran in quarantine and the outcome of that is known. Then the
            counter of those runs is removed of each message whose receipt still fits.
    """

    keys: QueueKeys
    action: Literal["delete", "hide", "release", "extend"]
    receive_count: int
    ids: Sequence[Any]
    quarantined: bool = False


def settle_messages(worker: Identity, groups: Sequence[Group]) -> Operation[bytes]:
    """
    Delete, hide, release and extend messages.

    Args:
        worker: who holds them.
        groups: the messages, and what is done with them.

    Returns:
        A digit for each: 1 it was done, 0 it is gone, 2 somebody has received it since.
    """
    keys: list[bytes] = [worker.held]
    args: list[bytes] = [worker.token.encode()]
    for queue, action, count, ids, quarantined in groups:
        keys += queue.hash, queue.zset
        args += action.encode(), b"1" if quarantined else b"", encode_name(queue.name)
        args += digits(len(ids)), digits(count)
        if action == "delete":
            args += encode_names(ids)
        elif action in ("hide", "extend"):
            args += [arg for id, ms in ids for arg in (encode_name(id), digits(ms))]
        else:
            args += [arg for id in ids for arg in (encode_name(id), sent_ms(id))]
    return Operation(
        load("settle_messages"),
        tuple(keys),
        tuple(args),
        lambda reply: reply,
        Retry.ALWAYS,
        tuple(group.keys.name for group in groups),
        # What the attempt did whose reply was lost stands: who was deleted is gone.
        parse_retried=lambda reply: reply.replace(b"0", b"1"),
    )


def bury_messages(
    worker: Identity,
    queue: QueueKeys,
    target: QueueKeys,
    messages: Iterable[tuple[str, int, dict[str, Any]]],
    *,
    quarantined: bool = False,
) -> Operation[bytes]:
    """
    Move messages to a dead-letter queue, with why they died.

    Args:
        worker: who holds them.
        queue: where they are.
        target: where they go.
        messages: of each id, receive count, and the reason as ``DeadLetterReason`` has it.
        quarantined: whether they ran in quarantine; see ``Group``.

    Returns:
        A digit for each, as of ``settle_messages``.

    Raises:
        InvalidFormat: both are the same queue.
    """
    if queue == target:
        raise InvalidFormat(
            "dead_letter_queue",
            value=target.name,
            hint="It must be another queue than that of the messages.",
        )
    args = [
        worker.token.encode(),
        encode_name(queue.name),
        digits(MAX_REASONS),
        digits(REASONS_LIVE * 1000),
        b"1" if quarantined else b"",
    ]
    for id, count, reason in messages:
        args += encode_name(id), digits(count), json.dumps(reason).encode()
    return Operation(
        load("bury_messages"),
        (worker.held, target.hash, target.zset, target.reasons, queue.hash, queue.zset),
        tuple(args),
        lambda reply: reply,
        # A message that was moved is not in its queue any more: a second run moves nothing twice.
        Retry.ALWAYS,
        (queue.name, target.name),
        parse_retried=lambda reply: reply.replace(b"0", b"1"),
    )


@dataclass(frozen=True, slots=True)
class Predecessor:
    """
    Who has a worker's name.

    Attributes:
        left_ms: for how long it counts as alive without another sign of life.
        token: which it is.
        says: what it says of itself, JSON.
    """

    left_ms: int
    token: str
    says: str


def enter_worker(
    worker: Identity, info: dict[str, Any], *, ttl: float, dead: str
) -> Operation[Predecessor | None]:
    """Take a worker's name; or who has it, unless its token is that of a dead one."""
    return Operation(
        load("enter_worker"),
        (worker.namespace.workers, worker.held),
        (
            worker.name.encode(),
            worker.token.encode(),
            dead.encode(),
            digits(round(ttl * 1000)),
            digits(DEAD_LIVE * 1000),
            json.dumps(info).encode(),
        ),
        lambda reply: reply and Predecessor(reply[0], reply[1].decode(), reply[2].decode()),
        Retry.ALWAYS,
    )


def beat_worker(worker: Identity, info: dict[str, Any], *, ttl: float) -> Operation[None]:
    """Say that a worker is alive."""
    return Operation(
        load("beat_worker"),
        (worker.namespace.workers, worker.held),
        (
            worker.name.encode(),
            worker.token.encode(),
            digits(round(ttl * 1000)),
            digits(DEAD_LIVE * 1000),
            json.dumps(info).encode(),
        ),
        lambda _: None,
        Retry.ALWAYS,
    )


def leave_worker(worker: Identity) -> Operation[int]:
    """Say that a worker has ended; how many messages it still holds."""
    return Operation(
        load("leave_worker"),
        (worker.namespace.workers, worker.held),
        (worker.name.encode(), worker.token.encode()),
        int,
        Retry.ALWAYS,
    )


def list_workers(namespace: Namespace) -> Operation[tuple[int, dict[str, bytes]]]:
    """The server's time in ms, and of each worker what is stored."""
    return Operation(
        load("list_workers"),
        (namespace.workers,),
        (),
        lambda reply: (
            int(reply[0]),
            {
                decode_name(name): stored
                for name, stored in zip(reply[1][::2], reply[1][1::2], strict=True)
            },
        ),
        Retry.ALWAYS,
    )


def held_messages(namespace: Namespace, name: str) -> Steps[dict[str, list[Receipt]]]:
    """What a worker holds, by queue."""
    return _held(namespace.held(name))


def _held(key: bytes) -> Steps[dict[str, list[Receipt]]]:
    found: dict[bytes, bytes] = {}
    cursor = b"0"
    while True:
        cursor, told = yield Operation(
            load("held_messages"), (key,), (cursor,), lambda reply: reply, Retry.ALWAYS
        )
        found |= dict(zip(told[::2], told[1::2], strict=True))
        if cursor == b"0":
            break
    by_queue: dict[str, list[Receipt]] = {}
    for id, value in found.items():
        count, _, queue = value.partition(b":")
        if id:
            receipt = decode_name(id), int(count)
            by_queue.setdefault(decode_name(queue), []).append(receipt)
    return by_queue


def begin_alone(keys: QueueKeys, id: str, count: int) -> Operation[int]:
    """Note that a message will be handled alone; how often it was so before and never ended."""
    return Operation(
        load("begin_alone"),
        (keys.quarantined,),
        (encode_name(id), digits(count), digits(ALONE_LIVES * 1000)),
        int,
        Retry.ALWAYS,
        (keys.name,),
    )
