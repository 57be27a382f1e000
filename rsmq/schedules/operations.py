"""
Operations on schedules, and the steps that are made of several.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from redis.exceptions import ResponseError

from rsmq.codecs import BYTES
from rsmq.errors import InvalidValue, MissingExtra, NotPossible, RSMQError, show
from rsmq.errors.hints import Hint, Method
from rsmq.jobs.flows.operations import DUE_PREFIX, check_flow
from rsmq.operations.arguments import digits
from rsmq.operations.messages import send_message
from rsmq.operations.operation import Operation, RetryClass, Steps, on_keys, on_queue
from rsmq.operations.scripts import loader_of
from rsmq.operations.sending import set_counted_size
from rsmq.schedules.definition import (
    BrokenDefinition,
    NewerForm,
    ScheduleDefinition,
    StoredSchedule,
    UnknownZone,
    check_schedule_name,
    decide_definition,
    decode_definition,
    encode_definition,
)
from rsmq.schedules.missed import DueTicks, plan_ticks
from rsmq.schedules.ticks import find_zone, next_tick, to_time
from rsmq.transport.backoff import exponential_seconds
from rsmq.wire.ids import make_tick_suffix
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name, encode_name

#: Not the generator of the module, which the application may seed.
_chance = random.SystemRandom()

load = loader_of("schedules")

T = TypeVar("T")

#: The largest number of schedules of a namespace.
MAX_SCHEDULES = 10_000
#: The number of schedules that are fired between two looks.
SCHEDULES_PER_LOOK = 32
#: The pause after a failure is doubled with each further one, from the first to the longest.
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_MAX_FAILURE_CHARACTERS = 500
_FIELDS_OF_STATE = 7
_FIELDS_OF_DUE = 4
#: The result of ``put_schedule`` if there are too many.
TOO_MANY = 2
_NO_SCHEDULE, _OTHER_DEFINITION = -1, -2


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """
    A schedule as its fields are stored.

    Attributes:
        attempt_ms: the ms from which it is fired; None if it is in no sorted set, infinite if it is
            not fired.
    """

    name: str
    attempt_ms: float | None
    definition: bytes
    tick: bytes
    paused: bytes
    last: bytes
    failure: bytes

    def start_ms(self, now_ms: int) -> int:
        """
        Return the time after which the next tick is: now, or the last tick that was fired.

        The last one is later if the clock of the server was set back.
        """
        last = self.last.partition(b" ")[0]
        return max(now_ms, int(last) if last.isdigit() else 0)

    def to_schedule(self) -> StoredSchedule:
        """Return it as the clients return it. Fields that can't be read are None."""
        definition, problem = None, None
        try:
            definition = decode_definition(self.name, self.definition)
        except BrokenDefinition as error:
            problem = f"The definition can't be read: {error}"
        last_ms, sent_ms, message_id = [*self.last.split(b" "), b"", b"", b""][:3]
        failed_ms, count, reason = [*self.failure.split(b" ", 2), b"", b"", b""][:3]
        is_waiting = self.attempt_ms is not None and math.isfinite(self.attempt_ms)
        return StoredSchedule(
            self.name,
            definition,
            _to_time(self.tick) if is_waiting else None,
            to_time(int(self.attempt_ms or 0)) if is_waiting else None,
            _to_time(self.paused),
            _to_time(last_ms),
            _to_time(sent_ms),
            decode_name(message_id) if message_id not in {b"", b"-"} else None,
            problem or (reason.decode(errors="replace") or None),
            _to_time(failed_ms),
            int(count) if count.isdigit() else 0,
        )


def _to_time(ms: bytes) -> datetime | None:
    return to_time(int(ms)) if ms.isdigit() and len(ms) < 16 else None  # noqa: PLR2004 - digits of a date


def _on_schedules(
    namespace: Namespace, script: str, args: tuple[bytes, ...], parse: Callable[[Any], T]
) -> Operation[T]:
    """Return an operation on all schedules, of the class ALWAYS."""
    keys = namespace.schedules, namespace.due_schedules
    return on_keys(load(script), keys, args, parse)


def read_schedules(
    namespace: Namespace, names: Sequence[str] = ()
) -> Operation[tuple[int, list[ScheduleRecord]]]:
    """
    Read schedules.

    Args:
        names: their names; none reads all.

    Returns:
        The server's time, Unix ms, and the schedules, without those that do not exist.
    """

    def parse(reply: list[bytes | None]) -> tuple[int, list[ScheduleRecord]]:
        found = []
        for at in range(1, len(reply), _FIELDS_OF_STATE):
            name, score, *fields = reply[at : at + _FIELDS_OF_STATE]
            attempt = None if score is None else float(score)
            if attempt is not None or fields[0] is not None:
                values = [each or b"" for each in fields]
                found.append(ScheduleRecord(decode_name(name or b""), attempt, *values))
        return int(reply[0] or 0), found

    return _on_schedules(namespace, "read_schedules", tuple(map(encode_name, names)), parse)


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule whose time has come, as its fields are stored."""

    name: str
    definition: bytes
    tick: bytes
    failure: bytes


def read_due_schedules(
    namespace: Namespace, limit: int = SCHEDULES_PER_LOOK
) -> Operation[tuple[int, float, list[DueSchedule]]]:
    """
    Read the schedules whose time has come.

    Returns:
        The server's time, Unix ms; the ms of the next attempt of the others, infinite if there is
        none; and the schedules.
    """

    def parse(reply: list[bytes | None]) -> tuple[int, float, list[DueSchedule]]:
        found = []
        for at in range(2, len(reply), _FIELDS_OF_DUE):
            name, *fields = [each or b"" for each in reply[at : at + _FIELDS_OF_DUE]]
            found.append(DueSchedule(decode_name(name), *fields))
        return int(reply[0] or 0), float(reply[1] or math.inf), found

    return _on_schedules(namespace, "read_due_schedules", (digits(limit),), parse)


def put_schedule(
    namespace: Namespace,
    name: str,
    expected: bytes,
    definition: bytes,
    *,
    tick_ms: int,
    attempt_ms: int,
    keeps_tick: bool,
    last: bytes = b"",
) -> Operation[int]:
    """
    Store a definition in place of the expected one; the result is as in the script.

    After an ambiguous failure, 0 may mean that the first attempt has stored it: the caller reads.
    """
    return _on_schedules(
        namespace,
        "put_schedule",
        (
            encode_name(name),
            expected,
            definition,
            digits(tick_ms),
            digits(attempt_ms),
            b"1" if keeps_tick else b"",
            digits(MAX_SCHEDULES),
            last,
        ),
        int,
    )


def remove_schedule(namespace: Namespace, name: str) -> Operation[bool]:
    """Remove a schedule; the result is whether there was one."""
    return Operation(
        load("remove_schedule"),
        (namespace.schedules, namespace.due_schedules),
        (encode_name(check_schedule_name(name)),),
        bool,
        RetryClass.ALWAYS,
        parse_retried=lambda _: True,  # the attempt whose reply was lost may have removed it
    )


def pause_schedule(
    namespace: Namespace, name: str, definition: bytes = b"", tick_ms: int = 0, attempt_ms: int = 0
) -> Operation[int]:
    """Pause a schedule, or resume it if its definition is passed; see the script for the result."""
    return _on_schedules(
        namespace,
        "pause_schedule",
        (encode_name(check_schedule_name(name)), definition, digits(tick_ms), digits(attempt_ms)),
        int,
    )


class SentTicks(NamedTuple):
    """
    The messages of ticks.

    Attributes:
        ids: those that were sent; none if the ticks are skipped, or an earlier message is there.
        earlier: the message with their unique_key that is in the queue; empty for none.
    """

    ids: list[str]
    earlier: str = ""


def fire_schedule(
    namespace: Namespace, definition: ScheduleDefinition, due: DueSchedule, plan: DueTicks
) -> Operation[SentTicks | None]:
    """
    Send the messages of due ticks, and store the next tick.

    A second run changes nothing: the stored tick is another one then.

    Returns:
        The messages; None if another process has fired the tick, or the schedule has changed.
    """
    keys = namespace.queue(definition.queue)
    bodies = [definition.body_of(tick) for tick in plan.ticks]
    delay, options = definition.send_options(len(bodies))
    suffixes = options.mark([make_tick_suffix(tick) for tick in plan.ticks])
    _, *option_keys = options.keys(keys)
    return on_queue(
        keys,
        load("fire_schedule"),
        (namespace.schedules, namespace.due_schedules, keys.hash, keys.zset, *option_keys),
        (
            encode_name(due.name),
            due.definition,
            due.tick,
            digits(plan.last_ms),
            b"" if plan.next_ms is None else digits(plan.next_ms),
            digits(delayed(definition, plan.next_ms or 0)),
            digits(max((size for _, size in bodies), default=0)),
            delay,
            b"".join(suffixes),
            keys.channel if definition.realtime else b"",
            options.pack(),
            *(body for body, _ in bodies),
        ),
        lambda reply: (
            SentTicks(list(map(decode_name, reply[2:])), decode_name(reply[1]))
            if reply[0]
            else None
        ),
    )


def postpone_schedule(namespace: Namespace, due: DueSchedule, reason: str) -> Operation[bool]:
    """Record why a schedule could not be fired; the result is whether it was as it was read."""
    failures = due.failure.split(b" ", 2)
    count = int(failures[1]) + 1 if len(failures) > 1 and failures[1].isdigit() else 1
    seconds = exponential_seconds(count, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
    text = " ".join(reason.split())[:_MAX_FAILURE_CHARACTERS]
    return _on_schedules(
        namespace,
        "postpone_schedule",
        (
            encode_name(due.name),
            due.definition,
            due.tick,
            digits(round(seconds * 1000)),
            f"{count} {text}".encode(errors="replace"),
        ),
        bool,
    )


def delayed(definition: ScheduleDefinition, tick_ms: int) -> int:
    """Return the ms of the attempt for a tick: later by a random time up to the jitter."""
    jitter = round(definition.jitter * 1000)
    return tick_ms + (_chance.randint(0, jitter) if jitter else 0)


def store_definition(
    namespace: Namespace, new: ScheduleDefinition, *, keeps_version: bool
) -> Steps[bool]:
    """
    Store a definition, unless ``decide_definition`` leaves the one that is stored.

    Code also leaves one that a newer version of this library has stored.

    Returns:
        Whether the stored definition has changed.

    Raises:
        InvalidValue: there are too many schedules.
        NotPossible: it is changed by others again and again; or a call would replace a definition
            that a newer version of this library has stored.
    """
    written = b""
    for _ in range(100):
        now_ms, found = yield read_schedules(namespace, [new.name])
        stored_text = found[0].definition if found else b""
        if written and stored_text == written:  # an earlier attempt, whose reply was lost
            return True
        try:
            stored = decode_definition(new.name, stored_text) if stored_text else None
        except NewerForm as error:
            if new.source == "code":
                return False
            raise _not_readable(new.name, error) from error
        except BrokenDefinition:
            stored = None
        chosen = decide_definition(stored, new, keeps_version=keeps_version)
        if chosen is None or (chosen == stored and found[0].attempt_ms is not None):
            return False
        start_ms = found[0].start_ms(now_ms) if found else now_ms
        tick = next_tick(new.rule, find_zone(new.timezone), start_ms)
        written = encode_definition(chosen)
        result = yield put_schedule(
            namespace,
            new.name,
            stored_text,
            written,
            tick_ms=tick or 0,
            attempt_ms=delayed(new, tick or 0),
            keeps_tick=stored is not None and stored.has_same_times(new),
            last=found[0].last if found else b"",
        )
        if result == TOO_MANY:
            raise too_many_schedules()
        if result:
            return True
    raise NotPossible("The schedule is changed by others all the time", value=new.name)


def resume_schedule(namespace: Namespace, name: str) -> Steps[bool]:
    """
    Resume a schedule with its next tick; the result is whether it was paused.

    Raises:
        NotPossible: there is no such schedule, or its definition can't be read.
    """
    while True:
        now_ms, record = yield from read_schedule(namespace, name)
        definition = _decode(record)
        start_ms = record.start_ms(now_ms)
        tick = next_tick(definition.rule, find_zone(definition.timezone), start_ms) or 0
        result = yield pause_schedule(
            namespace, name, record.definition, tick, delayed(definition, tick)
        )
        if result == _NO_SCHEDULE:
            raise no_schedule(name)
        if result != _OTHER_DEFINITION:
            return bool(result)


def run_schedule(namespace: Namespace, name: str) -> Steps[str]:
    """
    Send the message of a schedule now; its ticks stay as they are. The result is the id.

    If a message with its unique_key is in the queue, the result is the id of that one.

    Raises:
        NotPossible: there is no such schedule, or its definition can't be read.
        The errors of a send.
    """
    now_ms, record = yield from read_schedule(namespace, name)
    definition = _decode(record)
    body, size = definition.body_of(now_ms)
    operation = send_message(
        namespace, definition.queue, body, definition.options, codec=BYTES,
        realtime=definition.realtime,
    )  # fmt: skip
    set_counted_size(operation, size)
    message_id: str = yield operation
    return message_id


def read_schedule(namespace: Namespace, name: str) -> Steps[tuple[int, ScheduleRecord]]:
    """
    Return the server's time, and a schedule.

    Raises:
        NotPossible: there is no such schedule.
    """
    now_ms, found = yield read_schedules(namespace, [check_schedule_name(name)])
    if not found or not found[0].definition:
        raise no_schedule(name)
    return now_ms, found[0]


def _decode(record: ScheduleRecord) -> ScheduleDefinition:
    try:
        return decode_definition(record.name, record.definition)
    except BrokenDefinition as error:
        raise _not_readable(record.name, error) from error


def _not_readable(name: str, error: BrokenDefinition) -> NotPossible:
    is_newer = isinstance(error, NewerForm)
    return NotPossible(
        f"The definition of the schedule can't be read: {error}",
        value=name,
        hint="Or remove the schedule first." if is_newer else "Add the schedule again.",
    )


def too_many_schedules() -> InvalidValue:
    """Return the error of a namespace that has no room for a further schedule."""
    return InvalidValue(
        "the number of schedules",
        0,
        MAX_SCHEDULES,
        value=MAX_SCHEDULES + 1,
        hint="Remove some, or use several namespaces.",
    )


def no_schedule(name: str) -> NotPossible:
    """Return the error of a schedule that does not exist."""
    return NotPossible(
        f"There is no schedule {show(name)}",
        value=name,
        hint=Hint(Method("schedules.list"), " has all; ", Method("schedules.add"), " adds one."),
    )


@dataclass(slots=True)
class Firing:
    """
    The result of a look at the schedules that are due.

    Attributes:
        fired: the ids of the messages that were sent, by schedule; empty if none was.
        joined: the earlier messages with the unique_key because of which none was sent.
        failures: why schedules could not be fired.
        others: the number of schedules that another process has fired or changed meanwhile.
        unable: the schedules that this process can't compute: a package or time zone is missing, or
            their definitions have a newer form.
        has_more: whether there may be more schedules that are due.
        next_in: seconds until the next attempt of those that were not due; infinite without one.
    """

    fired: dict[str, list[str]] = field(default_factory=dict)
    joined: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    others: int = 0
    unable: dict[str, str] = field(default_factory=dict)
    has_more: bool = False
    next_in: float = math.inf


def fire_due_schedules(namespace: Namespace) -> Steps[Firing]:
    """
    Fire the schedules that are due, each in a step of its own, in random order.

    The flows of tasks that are due are checked.

    A schedule that can't be fired keeps its tick: the reason is recorded, and it is tried again
    after a pause.

    Raises:
        Errors of redis-py, except those of a send to a queue.
    """
    result = Firing()
    limit = SCHEDULES_PER_LOOK
    while True:
        now_ms, next_ms, found = yield read_due_schedules(namespace, limit)
        result.next_in = (next_ms - now_ms) / 1000
        for due in _chance.sample(found, len(found)):
            if due.name.startswith(DUE_PREFIX):
                yield check_flow(namespace, due.name.removeprefix(DUE_PREFIX))
                result.others += 1
            elif due.name not in result.unable:
                yield from _fire(namespace, due, now_ms, result)
        result.has_more = len(found) == limit
        if not result.has_more or len(result.unable) < len(found):
            return result
        limit *= 4  # those that this process can compute may be behind these


def _fire(namespace: Namespace, due: DueSchedule, now_ms: int, result: Firing) -> Steps[None]:
    """Fire a schedule that is due, and add what has happened to the result."""
    try:
        definition, plan = plan_due(due, now_ms)
        sent = yield fire_schedule(namespace, definition, due, plan)
    except (MissingExtra, NewerForm, UnknownZone) as error:
        result.unable[due.name] = str(error)
        return
    except BrokenDefinition as error:
        reason = f"The definition can't be read: {error}"
    except (RSMQError, ResponseError) as error:
        reason = str(error)
    else:
        if sent is None:
            result.others += 1
        else:
            result.fired[due.name] = sent.ids
            if sent.earlier:
                result.joined[due.name] = sent.earlier
        return
    if (yield postpone_schedule(namespace, due, reason)) and due.definition:
        result.failures[due.name] = reason


def plan_due(due: DueSchedule, now_ms: int) -> tuple[ScheduleDefinition, DueTicks]:
    """
    Return the definition of a schedule that is due, and the ticks to fire.

    Raises:
        BrokenDefinition: the definition or the tick can't be read.
        MissingExtra: the extra ``schedules`` is not installed.
    """
    definition = decode_definition(due.name, due.definition)
    if not due.tick.isdigit():
        raise BrokenDefinition("it has no tick")
    zone = find_zone(definition.timezone)
    jitter_ms = round(definition.jitter * 1000)
    plan = plan_ticks(
        definition.rule,
        zone,
        int(due.tick),
        now_ms,
        missed=definition.missed,
        jitter_ms=jitter_ms,
    )
    return definition, plan
