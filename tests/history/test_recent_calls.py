"""The calls of the last hour that a reader keeps: they are those of a read without kept ones."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time

from rsmq import RSMQ
from rsmq.history.call_operations import record_calls
from rsmq.history.call_records import CallCounts
from rsmq.history.recent_calls import RecentCalls

_BEGIN = datetime(2030, 1, 1, 12, 0, 30, tzinfo=UTC)
_NAMES = ("a", "b", "c")
_numbers = itertools.count()


@pytest.fixture
def clock():
    with freeze_time(_BEGIN) as clock:
        yield clock


@pytest.fixture
def queues(clock):
    with RSMQ.from_url(f"memory://recent{next(_numbers)}") as queues:
        for name in _NAMES:
            queues.create_queue(name)
        yield queues


def _record(queues, queue, task, calls=1, failed=0, *, minutes_ago=0):
    minute = int(datetime.now(UTC).timestamp()) // 60 - minutes_ago
    packed = CallCounts(calls, failed, durations={200: calls}).pack()
    assert queues.run(record_calls(queues.namespace.queue(queue), minute, [(task, packed)])) == 1


def _read(queues, recent, names=_NAMES):
    reading = recent.read_in_steps(queues.namespace, names)
    return [_row(each) for each in queues.run_steps(reading)]


def _row(each):
    place = each.queue, each.task, each.start_ms, each.step
    return *place, tuple(each.calls_by_step), tuple(each.failed_by_step)


def _expected(queues, names=_NAMES):
    return [_row(each) for each in queues.task_figures(names)]


@pytest.mark.parametrize("seed", range(4))
def test_kept_calls_are_those_of_a_new_read_at_any_time(queues, clock, seed):
    chance, recent = random.Random(seed), RecentCalls()
    for _ in range(60):
        for _ in range(chance.choice((0, 1, 4))):
            _record(
                queues, chance.choice(_NAMES), chance.choice(("", "mail", "é")),
                chance.randrange(1, 9), chance.randrange(3), minutes_ago=chance.randrange(2),
            )  # fmt: skip
        if not chance.randrange(12):
            name = chance.choice(_NAMES)
            queues.delete_queue(name)
            if chance.randrange(2):
                assert _read(queues, recent) == _expected(queues)
            queues.create_queue(name)
        assert _read(queues, recent) == _expected(queues)
        clock.tick(timedelta(seconds=chance.choice((1, 20, 60, 150, 1800, 3700))))


def test_calls_that_are_written_during_a_read_are_in_the_next_one(queues, clock):
    _record(queues, "a", "mail")
    recent = RecentCalls()
    _read(queues, recent)
    clock.tick(timedelta(seconds=60))
    _record(queues, "a", "mail")
    steps = recent.read_in_steps(queues.namespace, _NAMES)
    reply = queues.run(next(steps))
    clock.tick(timedelta(seconds=60))  # the minute that has begun is not among those that it reads
    _record(queues, "a", "mail", 5)
    with pytest.raises(StopIteration):
        steps.send(queues.run(steps.send(reply)))
    assert _read(queues, recent) == _expected(queues)


def test_a_clock_that_was_set_back_reads_all_again(queues, clock):
    _record(queues, "a", "mail", 3)
    recent = RecentCalls()
    clock.tick(timedelta(minutes=5))
    _record(queues, "a", "mail", 2)
    _read(queues, recent)
    clock.move_to(_BEGIN + timedelta(minutes=2))
    assert _read(queues, recent) == _expected(queues)


def test_queues_that_are_not_asked_for_are_kept_and_not_shown(queues, clock):
    _record(queues, "a", "mail", 3)
    _record(queues, "b", "mail", 4)
    recent = RecentCalls()
    _read(queues, recent)
    clock.tick(timedelta(minutes=3))
    assert _read(queues, recent, ["b"]) == _expected(queues, ["b"])
    _record(queues, "a", "mail", 1)
    assert _read(queues, recent) == _expected(queues)


def test_only_queues_with_new_calls_are_read_again_and_only_their_last_minutes(queues, clock):
    for name in _NAMES:
        _record(queues, name, "mail")
    recent = RecentCalls()
    _read(queues, recent)
    clock.tick(timedelta(minutes=3))
    _record(queues, "b", "mail")
    steps = recent.read_in_steps(queues.namespace, _NAMES)
    operation = steps.send(queues.run(next(steps)))
    assert operation.keys[2:] == (queues.namespace.queue("b").call_times,)
    assert operation.args[1:] == (b"m58:", b"m59:", b"m0:", b"m1:", b"m2:", b"m3:")
    with pytest.raises(StopIteration):
        steps.send(queues.run(operation))
    with pytest.raises(StopIteration):  # a read without new calls has one step
        steps = recent.read_in_steps(queues.namespace, _NAMES)
        steps.send(queues.run(next(steps)))


def test_a_read_that_another_one_overtakes_disturbs_neither(queues, clock):
    _record(queues, "a", "mail", 3)
    recent = RecentCalls()
    _read(queues, recent)
    clock.tick(timedelta(minutes=1))
    _record(queues, "a", "mail", 2)
    slow = recent.read_in_steps(queues.namespace, _NAMES)
    operation = slow.send(queues.run(next(slow)))
    clock.tick(timedelta(minutes=2))
    _record(queues, "a", "mail", 4)
    assert _read(queues, recent) == _expected(queues)
    with pytest.raises(StopIteration) as ended:
        slow.send(queues.run(operation))
    assert [sum(each.calls_by_step) for each in ended.value.value] == [5]
    assert _read(queues, recent) == _expected(queues)
