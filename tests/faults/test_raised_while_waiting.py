"""An exception at any point of a wait leaves no reply to another request of the watcher."""

from __future__ import annotations

import itertools
import time
from contextlib import suppress
from functools import partial

import pytest

from rsmq import RSMQ
from rsmq.transport import socket
from rsmq.waiting import schedule, tracking, watcher_state
from rsmq.waiting import threads as sync
from tests.bytecodes import Raised, raising

QUEUES = 3
#: Far longer than a test; each queue has a message that is due after another time.
DELAY_SECONDS = 10_000


def until(condition, client, queues):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "a queue is not read, or a reply never arrives"
        assert client.receive_messages(queues, 1, wait=0.005) == []


class Observed:
    """The reads of a watcher, and why it closed its connections."""

    def __init__(self, monkeypatch):
        self.read = set()
        self.wrong = []
        self.errors = []
        note_first_due = schedule.Schedule.note_first_due
        note_disconnected = sync.Watcher._note_disconnected

        def check(schedule, queue, seconds, now):
            name = queue.rpartition(b":")[2].decode()
            self.read.add(name)
            place = int(name.rpartition("-")[2])
            if seconds is None or round(seconds / DELAY_SECONDS) != place + 1:
                self.wrong.append((name, seconds))
            note_first_due(schedule, queue, seconds, now)

        def record(watcher, error):
            self.errors.append(error)
            note_disconnected(watcher, error)

        monkeypatch.setattr(schedule.Schedule, "note_first_due", check)
        monkeypatch.setattr(sync.Watcher, "_note_disconnected", record)


@pytest.mark.parametrize("kind", [Raised, KeyboardInterrupt])
def test_each_reply_is_that_of_its_request_after_an_exception_in_a_wait(
    server, ns, kind, monkeypatch
):
    monkeypatch.setattr(tracking, "REPLY_TIMEOUT_SECONDS", 1000)  # nothing else repairs it
    for module in (schedule, tracking):
        monkeypatch.setattr(module, "SAFETY_SECONDS", 1000)
    monkeypatch.setattr(watcher_state, "RECONNECT_SECONDS", 0.01)
    observed = Observed(monkeypatch)
    files = [each.__file__ for each in (socket, sync, tracking, watcher_state)]
    with RSMQ.from_url(server.url, ns=ns) as client:
        watcher = client.watcher

        def has_read(names):
            is_up_to_date = watcher.is_tracking and not watcher._state.tracking._pending
            return is_up_to_date and observed.read.issuperset(names)

        for number in itertools.count(1):
            queues = [f"{number}-{place}" for place in range(QUEUES)]
            for place, queue in enumerate(queues):
                client.create_queue(queue)
                client.send_message(queue, "", delay=DELAY_SECONDS * (place + 1))
            until(partial(has_read, ()), client, queues[:1])
            with suppress(kind), raising(kind, number, *files) as raised:
                client.receive_messages(queues, 1, wait=0.005)
            until(partial(has_read, queues), client, queues)
            assert not observed.wrong, raised
            assert all(isinstance(each, kind) for each in observed.errors), observed.errors
            if not raised:
                break
    assert number > 50
