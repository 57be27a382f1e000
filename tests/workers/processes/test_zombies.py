"""
SIGSTOP: a worker that is suspended until its leases have ended, and then continues.

Each is suspended for longer than vt, and longer than the five seconds for which its registry entry
counts as alive.
"""

from __future__ import annotations

import signal
import time

import pytest

from tests.workers.processes.conftest import (
    assert_nothing_left,
    fill,
    now_ms,
    receive_count,
    scores,
    suspend,
    wait_until,
)
from tests.workers.processes.program import REPLACED

VT = 1
SUSPENSION_SECONDS = 5.5


def wake_after_suspension(program, suspended_at):
    """Wait until the suspension has lasted long enough, and send SIGCONT."""
    time.sleep(max(suspended_at + SUSPENSION_SECONDS - time.monotonic(), 0))
    program.signal(signal.SIGCONT)


@pytest.mark.parametrize("is_async", [False, True])
def test_worker_of_another_name_receives_the_zombies_messages_after_vt(
    ns, rsmq, raw, start_program, is_async
):
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
    zombie = start_program("zombie", listeners)
    zombie.wait_for("begin", 4)
    suspended_at = time.monotonic()
    suspend(zombie)
    due = scores(raw, ns, "q")
    other = start_program("other", listeners)
    received = other.wait_for("begin", 4)
    for event in received:
        assert event.count == 2
        assert event.time * 1000 >= due[event.id]
    wake_after_suspension(zombie, suspended_at)

    zombie.wait_for("lost", 4)
    if is_async:
        zombie.wait_for("cancelled", 2)
    else:
        zombie.wait_for("gave_up", 2)
    # Messages whose handlers returned right after waking are still stored: the other worker has
    # them.
    assert scores(raw, ns, "q").keys() == set(ids)
    assert [receive_count(raw, ns, "q", id) for id in ids] == [2, 2, 2, 2]
    other.wait_for("end", 4)
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    assert {event.id for event in other.events("end")} == set(ids)
    # The former zombie handles messages like any other worker.
    assert other.stop() == 0
    [more] = fill(rsmq, "q", [{"n": 9, "do": "return"}])
    wait_until(lambda: more in {event.id for event in zombie.events("end")})
    assert zombie.stop() == 0
    assert_nothing_left(raw, ns, "q")


@pytest.mark.parametrize("is_async", [False, True])
def test_worker_of_the_same_name_takes_over_and_the_zombie_ends(
    ns, rsmq, raw, start_program, is_async
):
    ids = fill(rsmq, "q", [{"n": n, "do": "watch", "for": 60} for n in range(4)])
    listeners = {"q": {"vt": VT, "is_async": is_async}}
    zombie = start_program("one", listeners, linger=1)
    zombie.wait_for("begin", 4)
    suspended_at = time.monotonic()
    suspend(zombie)
    successor = start_program("one", listeners, grace=0)
    received = successor.wait_for("begin", 4)
    assert {event.count for event in received} == {2}
    wake_after_suspension(zombie, suspended_at)

    zombie.wait_for("replaced")
    assert len(zombie.wait_for("cancelled" if is_async else "gave_up", 4)) == 4
    assert {event.id for event in zombie.events("lost")} == set(ids)
    assert zombie.wait() == REPLACED
    assert scores(raw, ns, "q").keys() == set(ids)
    assert [receive_count(raw, ns, "q", id) for id in ids] == [2, 2, 2, 2]
    assert successor.events("lost") == []
    assert successor.stop() == 0
    assert raw.keys(f"{ns}:x:held:*") == []


def test_zombie_does_not_hide_messages_that_its_successor_released(ns, rsmq, raw, start_program):
    """The successor has released all of them, and has one slot."""
    ids = fill(rsmq, "q", [{"n": n, "do": "watch", "for": 60} for n in range(4)])
    listeners = {"q": {"vt": 9}}  # not ended on waking, but due for extension
    zombie = start_program("one", listeners, concurrency=4, linger=1)
    zombie.wait_for("begin", 4)
    suspended_at = time.monotonic()
    suspend(zombie)
    successor = start_program("one", listeners, concurrency=1)
    [first] = successor.wait_for("begin")
    wake_after_suspension(zombie, suspended_at)
    assert zombie.wait() == REPLACED

    due = scores(raw, ns, "q")
    assert sorted(due) == sorted(ids)
    now = now_ms(raw)
    assert {id for id in ids if due[id] > now} == {first.id}
    successor.kill()
