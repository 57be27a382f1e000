"""A message whose lease is lost in each run becomes a dead letter, however its runs end."""

from __future__ import annotations

import signal
import threading
import time

from tests.workers.processes.conftest import assert_nothing_left, fill, now_ms, scores, wait_until

VT = 1
RETRIES = 1
LISTENERS = {"q": {"vt": VT, "max_retries": RETRIES, "dead_letter_queue": "dead", "backoff": 0.05}}
#: The documented bound, in docs/workers.md under "Poison".
MAX_RUNS = RETRIES + 5


class Case:
    """Two workers, and a message that they receive again and again."""

    def __init__(self, rsmq, raw, ns, start_program, body):
        self._rsmq, self._raw, self._ns, self._body = rsmq, raw, ns, body
        rsmq.create_queue("dead")
        self._send()
        self.programs = [start_program(name, LISTENERS) for name in ("one", "two")]

    def _send(self):
        [self.id] = fill(self._rsmq, "q", [self._body])

    def receive_counts(self):
        begun = [event for each in self.programs for event in each.events("begin")]
        return sorted(event.count for event in begun if event.id == self.id)

    def _is_over(self):
        """
        Return whether the message is a dead letter, or has had too many runs.

        If no worker receives it before a late run ends, which happens on a slow machine, that run
        deletes it. Then another message is sent.
        """
        if not self._raw.zcard(f"{self._ns}:q") and not self._raw.zcard(f"{self._ns}:dead"):
            self._send()
        return self._raw.zcard(f"{self._ns}:dead") or len(self.receive_counts()) > MAX_RUNS

    def assert_dead_lettered(self):
        try:
            wait_until(self._is_over)
        except AssertionError as error:
            state = scores(self._raw, self._ns, "q"), self._raw.hgetall(f"{self._ns}:q:Q")
            error.add_note(f"{now_ms(self._raw)}: {state}")
            for each in self.programs:
                error.add_note(f"{each.name}, status {each.process.poll()}:\n{each}")
            raise
        assert len(self.receive_counts()) <= MAX_RUNS, self.receive_counts()
        [letter] = self._rsmq.peek_messages("dead")
        assert letter.id == self.id
        assert "in each run its worker died, or could not extend" in letter.reason.text
        # It is not run again, and the workers still handle messages.
        [after] = fill(self._rsmq, "q", [{"n": 1, "do": "return"}])
        wait_until(
            lambda: after in {event.id for each in self.programs for event in each.events("end")}
        )
        assert [each.stop() for each in self.programs] == [0] * len(self.programs)
        assert len(self.receive_counts()) <= MAX_RUNS
        assert_nothing_left(self._raw, self._ns, "q", killed=True)


def test_runs_of_a_handler_that_holds_the_gil_for_longer_than_vt_are_bounded(
    ns, rsmq, raw, start_program
):
    body = {"n": 0, "do": "hold_gil", "for": 1.5 * VT}
    Case(rsmq, raw, ns, start_program, body).assert_dead_lettered()


def test_runs_of_a_message_whose_worker_is_suspended_each_time_are_bounded(
    ns, rsmq, raw, start_program
):
    case = Case(rsmq, raw, ns, start_program, {"n": 0, "do": "sleep", "for": VT})
    over = threading.Event()

    def suspend():
        """Suspend each worker in each of its runs, until another worker has begun the message."""
        seen = dict.fromkeys(case.programs, 0)
        wake_times = {}
        while not over.wait(0.002):
            for each in case.programs:
                begun = len([event for event in each.events("begin") if event.detail == "0"])
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
        case.assert_dead_lettered()
    finally:
        over.set()
        suspender.join()
        for each in case.programs:
            if each.process.poll() is None:
                each.signal(signal.SIGCONT)
