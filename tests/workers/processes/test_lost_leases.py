"""A message whose lease is lost in each run becomes a dead letter, however its runs end."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from tests.workers.processes.conftest import assert_nothing_left, fill, wait_until

pytestmark = pytest.mark.timeout(120)

VT = 1
RETRIES = 1
LISTENERS = {"q": {"vt": VT, "max_retries": RETRIES, "dead_letter_queue": "dead", "backoff": 0.05}}
#: The documented bound, in docs/workers.md under "Poison".
MAX_RUNS = RETRIES + 5


def receive_counts(programs):
    return sorted(event.count for each in programs for event in each.events("begin"))


def assert_dead_lettered(rsmq, raw, ns, programs, id):
    wait_until(lambda: raw.zcard(f"{ns}:dead") or len(receive_counts(programs)) > MAX_RUNS, 60)
    assert len(receive_counts(programs)) <= MAX_RUNS, receive_counts(programs)
    [letter] = rsmq.peek_messages("dead")
    assert letter.id == id
    assert "its handler never ended" in letter.reason.text
    # It is not run again, and the workers still handle messages.
    [after] = fill(rsmq, "q", [{"n": 1, "do": "return"}])
    wait_until(lambda: after in {event.id for each in programs for event in each.events("end")})
    assert [each.stop() for each in programs] == [0] * len(programs)
    assert len(receive_counts(programs)) <= MAX_RUNS + 1
    assert_nothing_left(raw, ns, "q", killed=True)


def test_runs_of_a_handler_that_holds_the_gil_for_longer_than_vt_are_bounded(
    ns, rsmq, raw, start_program
):
    rsmq.create_queue("dead")
    [id] = fill(rsmq, "q", [{"n": 0, "do": "hold_gil", "for": 1.5 * VT}])
    programs = [start_program(name, LISTENERS) for name in ("one", "two")]
    assert_dead_lettered(rsmq, raw, ns, programs, id)


def test_runs_of_a_message_whose_worker_is_suspended_each_time_are_bounded(
    ns, rsmq, raw, start_program
):
    rsmq.create_queue("dead")
    [id] = fill(rsmq, "q", [{"n": 0, "do": "sleep", "for": VT}])
    programs = [start_program(name, LISTENERS) for name in ("one", "two")]
    over = threading.Event()

    def suspend():
        """Suspend each worker in each of its runs, until another worker has begun the message."""
        seen = dict.fromkeys(programs, 0)
        wake_times = {}
        while not over.wait(0.002):
            for each in programs:
                begun = len([event for event in each.events("begin") if event.id == id])
                if begun > seen[each]:
                    seen[each] = begun
                    each.signal(signal.SIGSTOP)
                    wake_times[each] = time.monotonic() + 1.5 * VT
                elif each in wake_times and time.monotonic() > wake_times[each]:
                    each.signal(signal.SIGCONT)
                    del wake_times[each]

    suspender = threading.Thread(target=suspend)
    suspender.start()
    try:
        assert_dead_lettered(rsmq, raw, ns, programs, id)
    finally:
        over.set()
        suspender.join()
        for each in programs:
            if each.process.poll() is None:
                each.signal(signal.SIGCONT)
