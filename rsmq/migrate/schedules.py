"""
The takeover of periodic messages as schedules.

A periodic message stands for one of its times, and its system adds the next one. A move first
makes sure that a schedule sends the times after this one, and then moves the message. So a run that
breaks off in between leaves both in place, and the next run finds the schedule and moves the
message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC
from hashlib import blake2b

from rsmq.codecs import BYTES
from rsmq.errors import InvalidFormat, InvalidValue, NotPossible, RSMQError
from rsmq.migrate.report import MigrationReport, ScheduleOutcome
from rsmq.migrate.server import Server
from rsmq.migrate.sources.item import Item, PeriodicMessage
from rsmq.operations.operation import Steps
from rsmq.schedules.definition import (
    ScheduleDefinition,
    check_schedule_name,
    encode_definition,
    make_definition,
)
from rsmq.schedules.operations import TOO_MANY, put_schedule, read_schedules, too_many_schedules
from rsmq.schedules.ticks import next_tick

_CUT_NAME = 120


def schedule_name(queue: str, id: str) -> str:
    """
    Return the name of the schedule that continues a periodic message.

    It is QUEUE.ID; if a schedule can't have this name, the allowed characters of it, and a hash.
    """
    name = f"{queue}.{id}"
    try:
        return check_schedule_name(name)
    except InvalidFormat:
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        return f"{re.sub('[^A-Za-z0-9_.-]', '-', name)[:_CUT_NAME]}-{digest}"


def take_over(target: Server, report: MigrationReport, items: Iterable[Item]) -> None:
    """
    Make sure that a schedule sends the times after these messages, before they are moved.

    The report gets the outcome for each of them, and a note on one that can't have a schedule.
    """
    for periodic in _periodic(items):
        name, definition = _define(target, report, periodic)
        if definition is None:
            report.add_schedule(name, periodic.every, "failed")
            continue
        steps = _put(target, definition, periodic.due_ms)
        try:
            report.add_schedule(name, periodic.every, target.rsmq.run_steps(steps))
        except (InvalidValue, NotPossible) as error:
            _note(report, name, error)
            report.add_schedule(name, periodic.every, "failed")


def look(target: Server, report: MigrationReport, items: Iterable[Item]) -> None:
    """Report what ``take_over`` would do with these messages; nothing is changed."""
    for periodic in _periodic(items):
        name, definition = _define(target, report, periodic)
        outcome: ScheduleOutcome = "failed"
        if definition is not None:
            _, found = target.rsmq.run(read_schedules(target.rsmq.namespace, [name]))
            stored = found[0].definition if found else b""
            outcome = "added" if not stored else _compare(stored, definition)
        report.add_schedule(name, periodic.every, outcome)


def _periodic(items: Iterable[Item]) -> Iterable[PeriodicMessage]:
    return (item.periodic for item in items if item.periodic is not None)


def _define(
    target: Server, report: MigrationReport, periodic: PeriodicMessage
) -> tuple[str, ScheduleDefinition | None]:
    """Return the name and the definition; None if a schedule can't have these values."""
    name = schedule_name(report.queue, periodic.id)
    try:
        return name, make_definition(
            target.rsmq.namespace,
            name,
            {"every": periodic.every, "queue": report.queue, "body": periodic.body},
            codec=BYTES,
            realtime=target.realtime,
            source="call",
        )
    except RSMQError as error:
        _note(report, name, error)
        return name, None


def _note(report: MigrationReport, name: str, error: RSMQError) -> None:
    report.note(f"NO SCHEDULE {name}: {error}")


def _compare(stored: bytes, definition: ScheduleDefinition) -> ScheduleOutcome:
    return "present" if stored == encode_definition(definition) else "other"


def _put(target: Server, definition: ScheduleDefinition, due_ms: int) -> Steps[ScheduleOutcome]:
    """Store a schedule whose next tick is after a time, unless there is another one of its name."""
    namespace, text = target.rsmq.namespace, encode_definition(definition)
    outcome: ScheduleOutcome = "present"
    while True:
        now_ms, found = yield read_schedules(namespace, [definition.name])
        record = found[0] if found else None
        stored = record.definition if record else b""
        if record is not None and stored:
            if stored != text:
                return "other"
            if not record.tick.isdigit() or int(record.tick) > due_ms:
                return outcome
        else:
            outcome = "added"
        start_ms = record.start_ms(now_ms) if record else now_ms
        tick = next_tick(definition.rule, UTC, max(start_ms, due_ms)) or 0
        result = yield put_schedule(
            namespace,
            definition.name,
            stored,
            text,
            tick_ms=tick,
            attempt_ms=tick,
            keeps_tick=False,
            last=record.last if record else b"",
        )
        if result == TOO_MANY:
            raise too_many_schedules()
        if result:
            return outcome
