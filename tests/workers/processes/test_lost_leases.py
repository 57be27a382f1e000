"""A message whose lease is lost during each run becomes a dead letter, however its runs end."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from tests.workers.processes.conftest import fill, nothing_left, until

pytestmark = pytest.mark.timeout(120)

VT = 1
RETRIES = 1
LISTENERS = {"q": {"vt": VT, "max_retries": RETRIES, "dead_letter_queue": "dead", "backoff": 0.05}}
#: The documented bound, in README.md under "Poison".
MOST_RUNS = RETRIES + 5


def runs(programs):
    return sorted(event.count for each in programs for event in each.events("begin"))


def ends_as_dead_letter(rsmq, raw, ns, programs, id):
    until(lambda: raw.zcard(f"{ns}:dead") or len(runs(programs)) > MOST_RUNS, 60)
    assert len(runs(programs)) <= MOST_RUNS, runs(programs)
    [letter] = rsmq.peek_messages("dead")
    assert letter.id == id
    assert "its handler never ended" in letter.reason.text
    # Nobody begins it once more, and the workers go on working.
    [after] = fill(rsmq, "q", [{"n": 1, "do": "return"}])
    until(lambda: after in {event.id for each in programs for event in each.events("end")})
    assert [each.stop() for each in programs] == [0] * len(programs)
    assert len(runs(programs)) <= MOST_RUNS + 1
    nothing_left(raw, ns, "q", killed=True)


def test_a_handler_that_holds_the_gil_for_longer_than_vt_is_bounded(ns, rsmq, raw, program):
    rsmq.create_queue("dead")
    [id] = fill(rsmq, "q", [{"n": 0, "do": "hold_gil", "for": 1.5 * VT}])
    programs = [program(name, LISTENERS) for name in ("one", "two")]
    ends_as_dead_letter(rsmq, raw, ns, programs, id)


def test_a_worker_that_is_suspended_in_each_run_is_bounded(ns, rsmq, raw, program):
    rsmq.create_queue("dead")
    [id] = fill(rsmq, "q", [{"n": 0, "do": "sleep", "for": 0.3}])
    programs = [program(name, LISTENERS) for name in ("one", "two")]
    over = threading.Event()

    def suspend():
        """Stop each worker during each of its runs, until another one has begun the message."""
        seen = dict.fromkeys(programs, 0)
        asleep = {}
        while not over.wait(0.002):
            for each in programs:
                begun = len([event for event in each.events("begin") if event.id == id])
                if begun > seen[each]:
                    seen[each] = begun
                    each.signal(signal.SIGSTOP)
                    asleep[each] = time.monotonic() + 1.5 * VT
                elif each in asleep and time.monotonic() > asleep[each]:
                    each.signal(signal.SIGCONT)
                    del asleep[each]

    suspender = threading.Thread(target=suspend)
    suspender.start()
    try:
        ends_as_dead_letter(rsmq, raw, ns, programs, id)
    finally:
        over.set()
        suspender.join()
        for each in programs:
            if each.process.poll() is None:
                each.signal(signal.SIGCONT)
