"""
SIGSTOP: a worker that sleeps through its leases, and wakes up.

Each sleeps for longer than vt and than the five seconds for which the registry takes it to be
alive.
"""

from __future__ import annotations

import signal
import time

import pytest

from tests.workers.processes.conftest import count_of, fill, nothing_left, now_ms, scores, until
from tests.workers.processes.program import REPLACED

pytestmark = pytest.mark.timeout(120)

VT = 1
ASLEEP = 5.5


def stopped(program):
    """SIGSTOP, and wait until it is."""
    program.signal(signal.SIGSTOP)
    status = f"/proc/{program.process.pid}/stat"
    with open(status) as file:  # noqa: PTH123 - read again and again

        def state():
            file.seek(0)
            return file.read().rpartition(")")[2].split()[0] == "T"

        until(state)


def asleep(program, since):
    """Let it sleep for long enough."""
    time.sleep(max(since + ASLEEP - time.monotonic(), 0))
    program.signal(signal.SIGCONT)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_worker_of_another_name_has_its_messages_after_vt(ns, rsmq, raw, program, is_async):
    until_woken = {"zombie": 4, "other": 9}
    kinds = ["sleep", "sleep", "watch", "watch"]
    ids = fill(
        rsmq,
        "q",
        [
            {"n": n, "do": do, "for": {"zombie": 60, "other": 9} if do == "watch" else until_woken}
            for n, do in enumerate(kinds)
        ],
    )
    listeners = {"q": {"vt": VT, "is_async": is_async}}
    zombie = program("zombie", listeners)
    zombie.saw("begin", 4)
    since = time.monotonic()
    stopped(zombie)
    due = scores(raw, ns, "q")
    other = program("other", listeners)
    taken = other.saw("begin", 4)
    for event in taken:
        assert event.count == 2
        assert event.at * 1000 >= due[event.id]
    asleep(zombie, since)

    zombie.saw("lost", 4)
    if is_async:
        zombie.saw("cancelled", 2)
    else:
        zombie.saw("gave_up", 2)
    # Those whose handlers ended at once on waking are there still: they are the other's.
    assert scores(raw, ns, "q").keys() == set(ids)
    assert [count_of(raw, ns, "q", id) for id in ids] == [2, 2, 2, 2]
    other.saw("end", 4)
    until(lambda: raw.zcard(f"{ns}:q") == 0)
    assert {event.id for event in other.events("end")} == set(ids)
    # It is as good as any worker again.
    assert other.stop() == 0
    [more] = fill(rsmq, "q", [{"n": 9, "do": "return"}])
    until(lambda: more in {event.id for event in zombie.events("end")})
    assert zombie.stop() == 0
    nothing_left(raw, ns, "q")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_worker_of_its_name_takes_over_and_the_zombie_ends(ns, rsmq, raw, program, is_async):
    ids = fill(rsmq, "q", [{"n": n, "do": "watch", "for": 60} for n in range(4)])
    listeners = {"q": {"vt": VT, "is_async": is_async}}
    zombie = program("one", listeners, linger=1)
    zombie.saw("begin", 4)
    since = time.monotonic()
    stopped(zombie)
    successor = program("one", listeners, grace=0)
    taken = successor.saw("begin", 4)
    assert {event.count for event in taken} == {2}
    asleep(zombie, since)

    zombie.saw("replaced")
    assert len(zombie.saw("cancelled" if is_async else "gave_up", 4)) == 4
    assert {event.id for event in zombie.events("lost")} == set(ids)
    assert zombie.ended() == REPLACED
    assert scores(raw, ns, "q").keys() == set(ids)
    assert [count_of(raw, ns, "q", id) for id in ids] == [2, 2, 2, 2]
    assert successor.events("lost") == []
    assert successor.stop() == 0
    assert raw.keys(f"{ns}:x:held:*") == []


def test_what_was_taken_from_a_zombie_is_not_hidden_by_it(ns, rsmq, raw, program):
    """Its successor has released them all, and has room for one."""
    ids = fill(rsmq, "q", [{"n": n, "do": "watch", "for": 60} for n in range(4)])
    listeners = {"q": {"vt": 9}}  # not over on waking, but to be extended
    zombie = program("one", listeners, concurrency=4, linger=1)
    zombie.saw("begin", 4)
    since = time.monotonic()
    stopped(zombie)
    successor = program("one", listeners, concurrency=1)
    [first] = successor.saw("begin")
    asleep(zombie, since)
    assert zombie.ended() == REPLACED

    due = scores(raw, ns, "q")
    assert sorted(due) == sorted(ids)
    now = now_ms(raw)
    assert {id for id in ids if due[id] > now} == {first.id}
    successor.kill()
