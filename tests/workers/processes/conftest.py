"""Workers in processes of their own and in the test's process; a namespace for each test."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from rsmq import RSMQ
from rsmq.worker import Worker
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.workers.processes import forks

_numbers = itertools.count()
ROOT = Path(__file__).parents[3]


def wait_until(condition, seconds=WAIT_SECONDS, failure="it does not come about"):
    """Wait until the condition is true, and return its result."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, failure
        time.sleep(0.005)
    return value


class Event(NamedTuple):
    """A line of an event log."""

    time: float
    kind: str
    queue: str
    id: str
    count: int
    detail: str


class Program:
    """A worker in a process of its own."""

    def __init__(self, folder, server, ns, name, listeners, *, is_anew=False, **options):
        run_number = next(_numbers)
        self.name = name
        self._event_log = folder / f"{run_number}-{name}.events"
        self._log = folder / f"{run_number}-{name}.log"
        self._errors = folder / f"{run_number}-{name}.errors"
        self.started_at = time.time()
        settings = {
            "url": server.url, "ns": ns, "name": name, "listeners": listeners,
            "event_log": str(self._event_log), "log": str(self._log), **options,
        }  # fmt: skip
        with self._errors.open("wb") as errors:
            self.process = forks.start_program(json.dumps(settings), errors, is_anew=is_anew)

    def events(self, *kinds):
        """Return the events that it has logged so far, of all kinds or of these kinds."""
        if not self._event_log.exists():
            return []
        lines = self._event_log.read_text().split("\n")[:-1]
        events = []
        for line in lines:
            time, kind, queue, id, count, detail = line.split(" ", 5)
            if not kinds or kind in kinds:
                events.append(Event(float(time), kind, queue, id, int(count), detail))
        return events

    def wait_for(self, kind, number=1, seconds=WAIT_SECONDS):
        """Wait until there are this many events of a kind, and return them."""

        def find():
            events = self.events(kind)
            return events if len(events) >= number else None

        return wait_until(find, seconds, f"{self.name} does not see {number} {kind}: {self}")

    def log(self):
        return self._log.read_text() if self._log.exists() else ""

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """Send SIGKILL, and wait for the end of the process."""
        self.process.kill()
        return self.process.wait(WAIT_SECONDS)

    def stop(self, seconds=WAIT_SECONDS):
        """Send SIGTERM, wait for the end of the process, and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=WAIT_SECONDS):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} does not end: {self}")

    def __str__(self):
        events = "\n".join(map(str, self.events()[-20:]))
        return f"{events}\n{self.log()[-3000:]}\n{self._errors.read_text()[-3000:]}"


@pytest.fixture
def rsmq(server, ns):
    with RSMQ.from_url(server.url, ns=ns) as rsmq:
        yield rsmq


class OwnServer(Server):
    """A server for tests that kill it; it loses no data when killed."""

    def __init__(self):
        super().__init__(redis_7(), "--appendonly", "yes", "--appendfsync", "always")

    def client(self, ns, **options):
        return RSMQ.from_url(self.url, ns=ns, **options)


@pytest.fixture
def own_server():
    server = OwnServer()
    yield server
    server.stop()


@pytest.fixture
def start_program(server, ns, tmp_path):
    """Return a function that starts workers in processes; the fixture kills them at the end."""
    programs = []

    def start(name, listeners, **options):
        programs.append(Program(tmp_path, server, ns, name, listeners, **options))
        return programs[-1]

    yield start
    for each in programs:
        if each.process.poll() is None:
            each.kill()


@pytest.fixture
def create_worker(rsmq, caplog):
    """Return a function that creates workers in this process; the fixture stops them at the end."""
    caplog.set_level(logging.INFO, logger="rsmq.worker")
    workers = []

    def make(client=rsmq, **options):
        workers.append(Worker(client, **options))
        return workers[-1]

    yield make
    for each in workers:
        with contextlib.suppress(Exception):
            each.stop(grace=0)


def suspend(program):
    """Send SIGSTOP, and wait until the process is stopped."""
    program.signal(signal.SIGSTOP)
    status = f"/proc/{program.process.pid}/stat"
    with open(status) as file:  # noqa: PTH123 - read again and again

        def state():
            file.seek(0)
            return file.read().rpartition(")")[2].split()[0] == "T"

        wait_until(state)


def fill(rsmq, queue, bodies, **options):
    """Create a queue with these messages, and return their ids."""
    rsmq.create_queue(queue, exist_ok=True, **options)
    texts = [json.dumps(body) for body in bodies]
    ids = []
    for begin in range(0, len(texts), 1000):
        ids += rsmq.send_messages(queue, texts[begin : begin + 1000])
    return ids


def scores(raw, ns, queue):
    """Return when each message is due, in ms, in the order of the queue."""
    return {id.decode(): score for id, score in raw.zrange(f"{ns}:{queue}", 0, -1, withscores=True)}


def now_ms(raw):
    seconds, micros = raw.time()
    return seconds * 1000 + micros / 1000


def receive_count(raw, ns, queue, id):
    """Return the receive count of a message."""
    return int(raw.hget(f"{ns}:{queue}:Q", f"{id}:rc") or 0)


def assert_nothing_left(raw, ns, *queues, killed=False):
    """
    Check that no messages are stored in the queues, and that no messages are in flight.

    With killed workers, a quarantine record may remain for a limited time.
    """
    for queue in queues:
        assert raw.zcard(f"{ns}:{queue}") == 0
        fields = {field for field in raw.hkeys(f"{ns}:{queue}:Q") if len(field) >= 20}
        assert not fields
        left_ms = raw.pttl(f"{ns}:{queue}:x:alone")
        assert left_ms == -2 or (killed and left_ms > 0)
    assert raw.keys(f"{ns}:x:held:*") == []
