"""
Operations of workers: receive, settle, dead-letter, and the worker's sign of life.

Each script that receives messages also records them as in flight, under the worker's name, in the
same step. A successor with that name reads these records to find the messages of a dead worker.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat, zip_longest
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from rsmq.errors import InvalidFormat
from rsmq.operations.arguments import digits, encode_sent_ms
from rsmq.operations.operation import Operation, RetryClass, Steps, on_keys, on_queue
from rsmq.operations.scripts import loader_of
from rsmq.wire.ids import make_id_suffixes
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import large_body_size
from rsmq.wire.names import decode_name, decode_names, encode_name, encode_names
from rsmq.wire.orders import NO_ORDERS, Orders, read_orders
from rsmq.wire.stored import parse_integer
from rsmq.wire.throttle import Limit, parse_limit

load = loader_of("worker")

T = TypeVar("T")

#: Maximum number of reasons stored beside a dead-letter queue, and their minimum lifetime.
MAX_REASONS = 10_000
REASONS_TTL_SECONDS = 30 * 86_400
#: The stored length of the error of a message that waits for a retry.
MAX_ERROR_CHARACTERS = 500
#: Maximum length of the error in the record of a tracked message.
MAX_JOB_ERROR_CHARACTERS = 500
#: How long a dead worker and its messages in flight are remembered.
DEAD_WORKER_TTL_SECONDS = 86_400
#: How long it is stored that a message ran in quarantine without a known outcome.
QUARANTINE_TTL_SECONDS = 7 * 86_400

#: How long the record of a map is stored after its start, and after each of its messages.
MAP_LIFETIME_SECONDS = 7 * 86_400

#: Maximum total bytes of the bodies of one reply; the first body may be larger.
MAX_BODY_BYTES = 4 * 1024 * 1024

#: The state of a queue in a reply: nothing more is due, more may be due, paused, missing, and not
#: read because no slot or no room for bodies was left; more is due, and waits for a full batch.
QueueState: TypeAlias = Literal[".", "+", "p", "m", "-", "f"]

#: A receipt: id and receive count.
Receipt: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ReceiveResult:
    """
    The messages that a worker received from one queue.

    Attributes:
        state: the queue's state after the receive.
        now_ms: the server's time, Unix ms.
        redelivered: the messages that were received before, by their index in ``ids``: receive
            count, Unix ms of the first receive (None if another client stored none), and how many
            of the earlier receives began no handler call.
        fill_ms: for state ``f``, ms until the batch is received though it is not full; else 0.
        max_retries: the messages that were sent with their own number of retries, by their index.
        finished: of messages with several handlers, by their index, the names of those that have
            finished in earlier attempts.
        may_have_groups: whether the queue may have messages with groups.
        limit: the limit of the queue that allows no more now, if there is one.
    """

    state: QueueState
    ids: list[str]
    raws: list[bytes]
    now_ms: int
    redelivered: dict[int, tuple[int, int | None, int]]
    fill_ms: int = 0
    max_retries: Mapping[int, int] = field(default_factory=dict)
    finished: Mapping[int, list[str]] = field(default_factory=dict)
    may_have_groups: bool = False
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class ReceiveRequest:
    """
    A worker's request for messages of one queue.

    Attributes:
        vt_ms: the visibility timeout of the messages, ms.
        size: messages of one handler call.
        prefetch: messages that may wait for a slot.
        fill_ms: for how long a visible message may wait until its call has ``size`` messages, ms;
            None if calls do not wait.
        is_tracked: whether the messages have records.
    """

    keys: QueueKeys
    vt_ms: int
    size: int
    prefetch: int
    max_messages: int
    fill_ms: int | None = None
    is_tracked: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """
    The identity of a worker in Redis.

    Attributes:
        namespace: the namespace that it works in.
        token: a unique token: it distinguishes this worker from all others that had the name.
    """

    namespace: Namespace
    name: str
    token: str

    @property
    def in_flight_key(self) -> bytes:
        """The key of the worker's messages in flight."""
        return self.namespace.held(self.name)


def receive_for_worker(
    worker: Identity,
    requests: Sequence[ReceiveRequest],
    slots: int,
    max_bytes: int = MAX_BODY_BYTES,
) -> Operation[list[ReceiveResult]]:
    """
    Receive due messages, from earlier queues first. The result has one entry for each request.

    Args:
        slots: number of handler calls that can start at once.
        max_bytes: maximum total bytes of the bodies; the first body may be larger.
    """
    args = [worker.token.encode(), digits(slots), digits(max_bytes)]
    for request in requests:
        args += (
            digits(request.vt_ms),
            digits(request.size)
            if request.fill_ms is None
            else b"%d:%d" % (request.size, request.fill_ms),
            digits(request.prefetch),
            digits(request.max_messages),
            encode_name(request.keys.name),
        )
    tracked = [at for at, request in enumerate(requests, 1) if request.is_tracked]
    if tracked:
        args += worker.name.encode(), *map(digits, tracked)
    return Operation(
        load("receive_for_worker"),
        (
            worker.in_flight_key,
            *(key for request in requests for key in (request.keys.hash, request.keys.zset)),
        ),
        tuple(args),
        _parse_results,
        # A retry could not return the messages of the first run; list_in_flight can.
        RetryClass.NEVER,
        tuple(request.keys.name for request in requests),
    )


def _parse_results(reply: Any) -> list[ReceiveResult]:
    results = iter(reply)
    now = int(next(results))
    states, *extras = next(results).decode().split(" ")
    next_fill = (each for each in extras if each[0] not in "gl")
    grouped = {int(each[1:]) for each in extras if each[0] == "g"}
    limited = (each[1:].split(":") for each in extras if each[0] == "l")
    limits = {int(place): parse_limit(int(ms)) for place, ms in limited if ms != "0"}
    return [
        ReceiveResult(
            state,
            decode_names(bodies[::2]),
            bodies[1::2],
            now,
            {
                place - 1: (count, parse_integer(first), number)
                for place, count, first, number in zip(
                    redelivered[::3], redelivered[1::3], redelivered[2::3], unbegun, strict=True
                )
            },
            int(next(next_fill)) if state == "f" else 0,
            {place - 1: number for place, number in zip(own[::2], own[1::2], strict=True)},
            may_have_groups=at in grouped,
            limit=limits.get(at),
        )
        for at, (state, bodies, redelivered, unbegun, own) in enumerate(
            zip(states, results, results, results, results, strict=True), 1
        )
    ]


class TrackedOutcome(NamedTuple):
    """
    The outcome that the records of a group of tracked messages get.

    Attributes:
        event: what has happened; see ``lua/fragments/jobs.lua``. For an extension it is progress.
        ttl: seconds for which the record of an ended job lives.
        values: for each message its result as JSON, or its error; empty for hide and progress.
        progresses: for each message its progress as it is stored, empty if it is not new; () if all
            are empty.
    """

    event: Literal["succeed", "fail", "retry", "hide", "progress"]
    ttl: float
    values: Sequence[bytes]
    progresses: Sequence[bytes] = ()

    def args(self, place: int) -> tuple[bytes, ...]:
        """Return the arguments of ``settle_messages`` for the group at a place, from 1."""
        return digits(place), digits(len(self.values)), *self.values_of_group()

    def values_of_group(self) -> tuple[bytes, ...]:
        """Return the event, the ms for which an ended record lives, and the values."""
        ttl = digits(round(self.ttl * 1000))
        each = chain.from_iterable(zip_longest(self.values, self.progresses, fillvalue=b""))
        return self.event.encode(), ttl, *each


class Settlement(NamedTuple):
    """
    Messages of one queue and one receive count that are settled in the same way.

    Attributes:
        action: how they are settled. ``unbegun`` releases messages whose receive is not an attempt:
            their handler was not called, or the worker has interrupted it. ``defer`` hides them,
            and ``retry`` hides them because their handler has failed.
        ids: their ids; for hide and extend, pairs of id and ms; for retry, id, ms and the error, of
            which 500 characters are stored; for unbegun, pairs of id and the
            number of its receives that are no attempts, this one included; for defer, id, ms and
            this number.
        has_records: whether they ran in quarantine and their leases are not lost, or have receives
            that began no call. Then the quarantine record of each message whose receipt still
            fits is deleted; a release only subtracts the last run from it. If the message is
            deleted, the number of receives that began no call is deleted too.
        tracked: what the records of the messages get; None if they have none.
    """

    keys: QueueKeys
    action: Literal["delete", "hide", "retry", "defer", "release", "unbegun", "extend"]
    receive_count: int
    ids: Sequence[Any]
    has_records: bool = False
    tracked: TrackedOutcome | None = None


def settle_messages(worker: Identity, groups: Sequence[Settlement]) -> Operation[bytes]:
    """
    Delete, hide, release and extend messages.

    Args:
        worker: the worker that received them.
        groups: the messages, and how they are settled.

    Returns:
        A digit for each message: 1 it was settled, 0 it is not in the queue, 2 it was received
        again since, 3 it was extended and is to be cancelled.
    """
    keys: list[bytes] = [worker.in_flight_key]
    args: list[bytes] = [worker.token.encode()]
    tracked_args: list[bytes] = []
    for place, (queue, action, count, ids, has_records, tracked) in enumerate(groups, 1):
        keys += queue.hash, queue.zset
        args += action.encode(), b"1" if has_records else b"", encode_name(queue.name)
        args += digits(len(ids)), digits(count)
        if action == "delete":
            args += encode_names(ids)
        elif action in ("hide", "extend"):
            args += [arg for id, ms in ids for arg in (encode_name(id), digits(ms))]
        elif action == "retry":
            for id, ms, error in ids:
                text = error[:MAX_ERROR_CHARACTERS].encode(errors="backslashreplace")
                args += encode_name(id), digits(ms), text
        elif action == "defer":
            for id, ms, number in ids:
                args += encode_name(id), digits(ms), digits(number)
        elif action == "unbegun":
            for id, number in ids:
                args += encode_name(id), encode_sent_ms(id), digits(number)
        else:
            args += [arg for id in ids for arg in (encode_name(id), encode_sent_ms(id))]
        tracked_args += tracked.args(place) if tracked else ()
    return Operation(
        load("settle_messages"),
        tuple(keys),
        (*args, *tracked_args),
        lambda reply: reply,
        RetryClass.ALWAYS,
        tuple(group.keys.name for group in groups),
        # The attempt whose reply was lost may have deleted messages: then a 0 means success.
        parse_retried=lambda reply: reply.replace(b"0", b"1"),
    )


@dataclass(frozen=True, slots=True)
class FollowingMessage:
    """
    A message that is sent when the one before it has been handled.

    Attributes:
        queue: the name of its queue.
        body: its body. If the message before it is of a map, whose record has the body, that
            message's result if the next task takes it, else empty.
        size: the size of the body as maxsize counts it.
        map_id: the id of the map; empty if the message before it is not of a map.
        number: the number of the message before it in the map, or in the flow.
        flow_id: the id of the flow to which ``body`` adds nodes; empty if it adds none.
        other_queues: the names of the other queues that added nodes are sent to.
    """

    queue: str
    body: bytes
    size: int
    map_id: str = ""
    number: str = ""
    flow_id: str = ""
    other_queues: Sequence[str] = ()


def finish_messages(
    worker: Identity,
    queue: QueueKeys,
    receive_count: int,
    messages: Sequence[tuple[str, FollowingMessage]],
    *,
    has_records: bool = False,
    realtime: bool = False,
    tracked: TrackedOutcome | None = None,
) -> Operation[list[bytes]]:
    """
    Delete messages of one queue that were handled, and send for each the one that follows it.

    The message of a map is counted, and the last one of the map sends what follows. The message of
    a node may add nodes to its flow instead.

    Args:
        worker: the worker that received them.
        queue: their queue.
        receive_count: their receive count.
        messages: their ids, and what follows each.
        has_records: as in ``Settlement``.
        realtime: whether the sends publish Node's notification.
        tracked: what the records of the messages get; None if they have none.

    Returns:
        For each message 1 it was finished, 0 it is not in the queue, 2 it was received again since;
        or the refusal of what follows it, as a script words its errors. Then it is unchanged.
    """
    keys = [worker.in_flight_key, queue.hash, queue.zset]
    args = [worker.token.encode(), b"1" if has_records else b"", encode_name(queue.name)]
    args += digits(len(messages)), digits(receive_count), digits(MAP_LIFETIME_SECONDS * 1000)
    for (id, following), suffix in zip(messages, make_id_suffixes(len(messages)), strict=True):
        target, number = worker.namespace.queue(following.queue), following.number.encode()
        keys += target.hash, target.zset
        if following.flow_id:
            keys.append(worker.namespace.flow(following.flow_id))
            number = b"+" + number
        elif following.map_id:
            keys.append(worker.namespace.task_map(following.map_id))
        else:
            keys.append(queue.hash)
        args += encode_name(id), number, following.body
        args += digits(following.size), suffix, target.channel if realtime else b""
    if tracked is not None:
        args += tracked.values_of_group()
    return Operation(
        load("finish_messages"),
        tuple(keys),
        tuple(args),
        lambda reply: reply,
        RetryClass.ALWAYS,
        (queue.name,),
        # The attempt whose reply was lost may have deleted messages: then a 0 means success.
        parse_retried=lambda reply: [b"1" if each == b"0" else each for each in reply],
        large_body=large_body_size(max(len(following.body) for _, following in messages)),
    )


def encode_job_error(text: str) -> bytes:
    """Return an error as it is stored in the record of a tracked message."""
    return text[:MAX_JOB_ERROR_CHARACTERS].encode(errors="backslashreplace")


def count_unbegun(queue: QueueKeys, ids: Sequence[str]) -> Operation[list[int]]:
    """Return for each message how many of its receives began no handler call."""
    return on_queue(
        queue,
        load("count_unbegun"),
        (queue.hash, queue.zset),
        tuple(encode_names(ids)),
        lambda reply: reply,
    )


def record_finished(
    queue: QueueKeys, records: Iterable[tuple[str, int, Iterable[str]]]
) -> Operation[int]:
    """
    Record which handlers of messages have finished, or delete these records.

    Args:
        records: for each message its id, its receive count, and the names of its finished handlers;
            without names its record is deleted.

    Returns:
        How many records were stored: their messages still have these receive counts.
    """
    args: list[bytes] = []
    for id, count, names in records:
        args += encode_name(id), digits(count), ",".join(names).encode()
    return on_queue(
        queue, load("record_finished"), (queue.hash, queue.zset, queue.finished), tuple(args), int
    )


def list_finished(queue: QueueKeys, ids: Sequence[str]) -> Operation[list[list[str]]]:
    """Return for each message the names of the handlers that have finished in earlier attempts."""
    return Operation(
        load("list_finished"),
        (queue.hash, queue.finished),
        tuple(encode_names(ids)),
        # Nothing is recorded if the reply is empty.
        lambda reply: [_split_names(each) for each in reply] or [[] for _ in ids],
        RetryClass.ALWAYS,
        (queue.name,),
    )


class SweepStep(NamedTuple):
    """
    The result of a step of a sweep of groups.

    Attributes:
        pause: seconds until the next call.
        position: the argument of the next call.
        admitted: the number of messages that were admitted.
    """

    pause: float
    position: bytes
    admitted: int


def sweep_groups_in_turn(queue: QueueKeys, position: bytes) -> Operation[SweepStep | None]:
    """
    Make the next step of the sweep of a queue, if it is due. Return None if it has no groups.

    Args:
        position: that of the last result; empty for none.
    """
    return Operation(
        load("sweep_groups_in_turn"),
        (queue.hash, queue.zset, queue.admitted, queue.held_back, queue.group_of),
        (position,),
        lambda reply: reply and SweepStep(reply[0] / 1000, reply[1], reply[2]),
        # A second run finds another position, and makes no step.
        RetryClass.ALWAYS,
        (queue.name,),
    )


def take_permits(
    keys: Sequence[bytes], limit: int, period: float, wanted: Sequence[int]
) -> Operation[list[tuple[int, float]]]:
    """
    Take permits for calls from rate limits.

    Args:
        keys: the key of each limit.
        limit: the permits of a period.
        period: seconds.
        wanted: the number of permits for each key.

    Returns:
        For each key the number of permits, and the seconds until the first of the others has its
        turn. Each later one has its turn ``period / limit`` seconds later.
    """
    return Operation(
        load("take_permits"),
        tuple(keys),
        (digits(limit), digits(round(period * 1000)), *map(digits, wanted)),
        lambda reply: [
            (allowed, ms / 1000) for allowed, ms in zip(reply[::2], reply[1::2], strict=True)
        ],
        RetryClass.ONCE,
    )


def lock_keys(
    queue: QueueKeys, messages: Iterable[tuple[str, int, str]], *, name: str = ""
) -> Operation[list[bool]]:
    """
    Lock keys for messages in flight.

    Args:
        messages: for each message its id, its receive count and its key.
        name: the name of the locks; keys of different names have nothing in common.

    Returns:
        For each message whether it has the lock.
    """
    return on_queue(
        queue,
        load("lock_keys"),
        (queue.hash, queue.zset, queue.locks),
        _encode_keyed(messages, name),
        lambda reply: [digit == ord("1") for digit in reply],
    )


def unlock_keys(
    queue: QueueKeys, messages: Iterable[tuple[str, int, str]], *, name: str = ""
) -> Operation[int]:
    """Unlock keys, if the messages still have the locks. Return how many had."""
    return on_queue(queue, load("unlock_keys"), (queue.locks,), _encode_keyed(messages, name), int)


def _encode_keyed(messages: Iterable[tuple[str, int, str]], name: str) -> tuple[bytes, ...]:
    args: list[bytes] = []
    for id, count, key in messages:
        field = f"{name}={key}".encode(errors="surrogatepass")
        args += encode_name(id), digits(count), field
    return tuple(args)


def _split_names(stored: bytes | None) -> list[str]:
    return stored.decode(errors="replace").split(",") if stored else []


def dead_letter_messages(
    worker: Identity,
    queue: QueueKeys,
    target: QueueKeys,
    messages: Iterable[tuple[str, int, dict[str, Any]]],
    *,
    quarantined: bool = False,
    result_ttl: float | None = None,
    progresses: Iterable[bytes] = repeat(b""),
) -> Operation[bytes]:
    """
    Move messages to a dead-letter queue, and store why each became a dead letter.

    Args:
        worker: the worker that received them.
        messages: for each message its id, its receive count, and the reason with the fields of
            ``DeadLetterReason``.
        quarantined: whether they ran in quarantine and the outcome of that is known.
        result_ttl: seconds for which their records live; None if they have none.
        progresses: for each message its progress as it is stored, empty if it is not new.

    Returns:
        A digit for each message: 1 it was moved or cancelled, 0 it is not in the queue or has no
        body, 2 it was received again since.

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
        digits(REASONS_TTL_SECONDS * 1000),
        b"1" if quarantined else b"",
        b"" if result_ttl is None else digits(round(result_ttl * 1000)),
    ]
    for (id, count, reason), progress in zip(messages, progresses, strict=False):
        args += encode_name(id), digits(count), json.dumps(reason).encode()
        if result_ttl is not None:
            args += encode_job_error(reason["exception"]), progress
    return Operation(
        load("dead_letter_messages"),
        (worker.in_flight_key, target.hash, target.zset, target.reasons, queue.hash, queue.zset),
        tuple(args),
        lambda reply: reply,
        # A moved message is no longer in its queue, so a retry moves nothing twice.
        RetryClass.ALWAYS,
        (queue.name, target.name),
        parse_retried=lambda reply: reply.replace(b"0", b"1"),
    )


@dataclass(frozen=True, slots=True)
class RegisteredWorker:
    """
    Another worker of a name: one that is alive, or the one before, which has died.

    Attributes:
        remaining_ms: ms for which it still counts as alive without another heartbeat; 0 if it has
            died.
        info: its description of itself, JSON.
        expired_ms: of one that has died, Unix ms until which it counted as alive; else 0.
    """

    remaining_ms: int
    token: str
    info: str
    expired_ms: int = 0


def register_worker(
    worker: Identity, info: dict[str, Any], *, ttl: float, dead: str
) -> Operation[RegisteredWorker | None]:
    """
    Register a worker under its name.

    The result is the live worker that has the name; or, if the caller has it now, the one before
    that has died without unregistering; or None.

    Args:
        info: its description of itself.
        ttl: seconds for which it counts as alive without a heartbeat.
        dead: the token of a worker that is known to have died: its name is free. '' is none.
    """
    return on_keys(
        load("register_worker"),
        (worker.namespace.workers, worker.in_flight_key),
        (
            worker.name.encode(),
            worker.token.encode(),
            dead.encode(),
            digits(round(ttl * 1000)),
            digits(DEAD_WORKER_TTL_SECONDS * 1000),
            json.dumps(info).encode(),
        ),
        lambda reply: (
            reply
            and RegisteredWorker(
                reply[0], reply[1].decode(), reply[2].decode(), *map(int, reply[3:])
            )
        ),
    )


def send_heartbeat(
    worker: Identity, info: dict[str, Any], *, ttl: float, report: bytes = b""
) -> Operation[Orders]:
    """
    Renew a worker's sign of life. Return its orders.

    Args:
        report: what it runs, if it was asked, as ``encode_report`` returns it.
    """
    return on_keys(
        load("send_heartbeat"),
        (worker.namespace.workers, worker.in_flight_key),
        (
            worker.name.encode(),
            worker.token.encode(),
            digits(round(ttl * 1000)),
            digits(DEAD_WORKER_TTL_SECONDS * 1000),
            json.dumps(info).encode(),
            report,
        ),
        lambda reply: read_orders(int(reply[0]), reply[1]) if reply else NO_ORDERS,
    )


def unregister_worker(worker: Identity) -> Operation[int]:
    """Unregister a worker that has ended. The result is the number of messages still in flight."""
    return on_keys(
        load("unregister_worker"),
        (worker.namespace.workers, worker.in_flight_key),
        (worker.name.encode(), worker.token.encode()),
        int,
    )


def forget_dead_worker(
    namespace: Namespace, name: str, token: str, *, delay_ms: int
) -> Operation[int]:
    """
    Delete the record of the messages that a dead worker had in flight.

    Args:
        namespace: the namespace that it worked in.
        token: its token; another worker of the name keeps its record.
        delay_ms: ms after its time to live, until which the record is kept.

    Returns:
        1 if the record was deleted, else 0.
    """
    return on_keys(
        load("forget_dead_worker"),
        (namespace.workers, namespace.held(name)),
        (name.encode(), token.encode(), digits(delay_ms)),
        int,
    )


def list_in_flight(namespace: Namespace, name: str) -> Steps[dict[str, list[Receipt]]]:
    """Return the receipts of the messages that a worker has in flight, by queue."""
    return _walk_in_flight(namespace.held(name))


def _walk_in_flight(key: bytes) -> Steps[dict[str, list[Receipt]]]:
    found: dict[bytes, bytes] = {}
    cursor = b"0"
    while True:
        cursor, results = yield on_keys(
            load("list_in_flight"), (key,), (cursor,), lambda reply: reply
        )
        found |= dict(zip(results[::2], results[1::2], strict=True))
        if cursor == b"0":
            break
    by_queue: dict[str, list[Receipt]] = {}
    for id, value in found.items():
        count, _, queue = value.partition(b":")
        if not id.startswith(b":") and id:  # else it is the token, an order or a report
            receipt = decode_name(id), int(count)
            by_queue.setdefault(decode_name(queue), []).append(receipt)
    return by_queue


def record_quarantine_run(keys: QueueKeys, id: str, count: int) -> Operation[int]:
    """
    Record that a message is about to run in quarantine.

    The result is the number of its earlier runs whose outcome is unknown.
    """
    return on_queue(
        keys,
        load("record_quarantine_run"),
        (keys.quarantined,),
        (encode_name(id), digits(count), digits(QUARANTINE_TTL_SECONDS * 1000)),
        int,
    )
