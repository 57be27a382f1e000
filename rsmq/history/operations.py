"""
Operations on histories: claim a minute, record it, and read.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rsmq.errors import InvalidFormat, InvalidValue, QueueNotFound, RSMQError, show
from rsmq.history.records import History, created_of, make_history, parse_records
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_keys
from rsmq.operations.plain import encode_command, parse_fields, plain_commands
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import check_whole_number
from rsmq.wire.names import encode_name

load = loader_of("history")

#: Bytes of all histories of a namespace; beyond it, they are kept for a shorter time.
MAX_BYTES = 64 * 1024 * 1024
#: A minute can't be claimed later than so many ms after its begin: its figures would be those of
#: another time.
_LATEST_MS = 15_000
#: Queues that one script records.
QUEUES_PER_STEP = 25
_MAX_STEPS = 10_000
_HOUR_SECONDS = 3600
_DAY_SECONDS = 86_400
_DEFAULT_RANGE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class MinuteClaim:
    """
    The result of a claim.

    Attributes:
        is_granted: whether this process records the minute.
        now_ms: the server's time, Unix ms.
        minute: Unix minutes.
    """

    is_granted: bool
    now_ms: int
    minute: int


def claim_minute(namespace: Namespace, owner: str) -> Operation[MinuteClaim]:
    """Claim the recording of the current minute."""
    return Operation(
        load("claim_minute"),
        (namespace.history,),
        (encode_name(owner), digits(_LATEST_MS)),
        lambda reply: MinuteClaim(bool(reply[0]), int(reply[1]), int(reply[2])),
        # A second run after a lost reply finds the minute claimed: it is not recorded, at worst.
        RetryClass.ALWAYS,
    )


def record_minute(
    namespace: Namespace,
    minute: int,
    qnames: Sequence[str],
    *,
    is_last: bool,
    max_bytes: int = MAX_BYTES,
) -> Operation[int]:
    """
    Record what has happened in queues before a minute that was claimed.

    Names that this namespace does not allow are left out.

    Returns:
        The number of queues that were recorded; -1 if a later minute was claimed.
    """
    queues: list[QueueKeys] = []
    for name in qnames:
        with suppress(RSMQError):
            queues.append(namespace.queue(name))
    return on_keys(
        load("record_minute"),
        (
            namespace.history,
            *(key for keys in queues for key in (keys.hash, keys.zset, keys.history)),
        ),
        (digits(minute), digits(max_bytes), digits(int(is_last))),
        int,
    )


def read_history(
    namespace: Namespace,
    qname: str | None,
    start: datetime | None,
    end: datetime | None,
    step: int,
) -> Operation[History]:
    """
    Read the history of a queue, or of all queues of a namespace if the name is None.

    Two commands, in one round trip.

    Raises:
        InvalidFormat: start or end is not a datetime with a time zone.
        InvalidValue: the step is invalid, the range is empty, or it has too many steps.
        QueueNotFound: the queue does not exist.
    """
    seconds = _check_step(step)
    keys = None if qname is None else namespace.queue(qname)
    bounds = {"start": start, "end": end}
    for name, value in bounds.items():
        if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
            raise InvalidFormat(name, value=show(value), hint="It is a time with a time zone.")
    if start is not None and end is not None:
        _range_of(start, end, seconds, 0)

    def parse(replies: list[Any]) -> History:
        found, now = replies[0], replies[1]
        fields = parse_fields(found)
        if keys is not None:
            vt, created = replies[2]
            if vt is None:
                raise QueueNotFound(keys.name, namespace.name)
            # That of a deleted queue of this name.
            if created_of(fields.get(b"state", b"")) != parse_created(created):
                fields = {}
        first, last = _range_of(start, end, seconds, int(now[0]))
        records = parse_records(fields, by_hours=seconds >= _HOUR_SECONDS)
        return make_history(records, first, last, seconds // 60)

    history = namespace.history if keys is None else keys.history
    commands = [("HGETALL", history), ("TIME",)]
    if keys is not None:
        commands.append(("HMGET", keys.hash, "vt", "created"))
    operation: Operation[Any] = plain_commands(history, map(encode_command, commands))
    operation.parse = parse
    operation.queues = () if keys is None else (keys.name,)
    return operation


def parse_created(text: bytes | None) -> int:
    """Return the creation time of a queue as histories store it, Unix seconds."""
    try:
        return max(int(float(text or 0)), 0)
    except ValueError:
        return 0


def _check_step(step: object) -> int:
    seconds = check_whole_number("step", step, 60, _DAY_SECONDS)
    if (
        seconds % 60
        or _DAY_SECONDS % seconds
        or (seconds > _HOUR_SECONDS and seconds % _HOUR_SECONDS)
    ):
        raise InvalidValue(
            "step",
            60,
            _DAY_SECONDS,
            value=step,
            hint="It is whole minutes that divide an hour, or whole hours that divide a day.",
        )
    return seconds


def _range_of(start: datetime | None, end: datetime | None, step: int, now: int) -> tuple[int, int]:
    """
    Return the first minute of the first step, and the minute behind the last step.

    Args:
        now: the server's time, Unix seconds.
    """
    last = now if end is None else int(end.timestamp())
    default = last - max(int(_DEFAULT_RANGE.total_seconds()), step)
    first = default if start is None else int(start.timestamp())
    first -= first % step
    last += -last % step
    number = (last - first) // step
    if not 1 <= number <= _MAX_STEPS:
        raise InvalidValue(
            "the number of steps",
            1,
            _MAX_STEPS,
            value=number,
            hint="It is (end - start) / step. Pass a later end, or a longer step.",
        )
    return first // 60, last // 60
