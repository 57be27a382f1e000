"""Workers in processes of their own, and in this one; a namespace for each test."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from rsmq import RSMQ
from rsmq.worker import Worker
from tests.servers import Server, redis_7

_numbers = itertools.count()
ROOT = Path(__file__).parents[3]


def until(condition, seconds=20.0, said="it does not come about"):
    """What the condition returns, once that is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, said
        time.sleep(0.005)
    return value


class Event(NamedTuple):
    """A line of a diary."""

    at: float
    what: str
    queue: str
    id: str
    count: int
    more: str


class Program:
    """A worker in a process of its own."""

    def __init__(self, folder, server, ns, name, listeners, **options):
        number = next(_numbers)
        self.name = name
        self._diary = folder / f"{number}-{name}.diary"
        self._log = folder / f"{number}-{name}.log"
        self._errors = folder / f"{number}-{name}.errors"
        self.begun = time.time()
        given = {
            "url": server.url, "ns": ns, "name": name, "listeners": listeners,
            "diary": str(self._diary), "log": str(self._log), **options,
        }  # fmt: skip
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.workers.processes.program", json.dumps(given)],
                cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=errors,
            )  # fmt: skip

    def events(self, *what):
        """What it wrote so far, all of it or some kinds."""
        if not self._diary.exists():
            return []
        lines = self._diary.read_text().split("\n")[:-1]
        events = []
        for line in lines:
            at, kind, queue, id, count, more = line.split(" ", 5)
            if not what or kind in what:
                events.append(Event(float(at), kind, queue, id, int(count), more))
        return events

    def saw(self, what, number=1, seconds=20.0):
        """The events of a kind, once there are so many."""

        def enough():
            events = self.events(what)
            return events if len(events) >= number else None

        return until(enough, seconds, f"{self.name} does not see {number} {what}: {self}")

    def log(self):
        return self._log.read_text() if self._log.exists() else ""

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        return self.process.wait(10)

    def stop(self, seconds=20.0):
        """SIGTERM, and its exit code."""
        self.signal(signal.SIGTERM)
        return self.ended(seconds)

    def ended(self, seconds=20.0):
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
    """A server that tests kill, and that loses nothing by it."""

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
def program(server, ns, tmp_path):
    """Starts workers in processes of their own; those that are left are killed at the end."""
    programs = []

    def start(name, listeners, **options):
        programs.append(Program(tmp_path, server, ns, name, listeners, **options))
        return programs[-1]

    yield start
    for each in programs:
        if each.process.poll() is None:
            each.kill()


@pytest.fixture
def worker(rsmq, caplog):
    """Makes workers in this process, which are stopped at the end."""
    caplog.set_level(logging.INFO, logger="rsmq.worker")
    workers = []

    def make(client=rsmq, **options):
        workers.append(Worker(client, **options))
        return workers[-1]

    yield make
    for each in workers:
        with contextlib.suppress(Exception):
            each.stop(grace=0)


def fill(rsmq, queue, bodies, **options):
    """Make a queue with messages; their ids."""
    rsmq.create_queue(queue, exist_ok=True, **options)
    texts = [json.dumps(body) for body in bodies]
    ids = []
    for begin in range(0, len(texts), 1000):
        ids += rsmq.send_messages(queue, texts[begin : begin + 1000])
    return ids


def scores(raw, ns, queue):
    """When each message is due, ms, in order."""
    return {id.decode(): score for id, score in raw.zrange(f"{ns}:{queue}", 0, -1, withscores=True)}


def now_ms(raw):
    seconds, micros = raw.time()
    return seconds * 1000 + micros / 1000


def count_of(raw, ns, queue, id):
    """How often a message has been received."""
    return int(raw.hget(f"{ns}:{queue}:Q", f"{id}:rc") or 0)


def nothing_left(raw, ns, *queues, killed=False):
    """
    Of the queues nothing is stored but themselves, and no worker holds anything.

    Where workers were killed, a note may be left of a message that was handled alone: for a time.
    """
    for queue in queues:
        assert raw.zcard(f"{ns}:{queue}") == 0
        fields = {field for field in raw.hkeys(f"{ns}:{queue}:Q") if len(field) >= 20}
        assert not fields
        left_ms = raw.pttl(f"{ns}:{queue}:x:alone")
        assert left_ms == -2 or (killed and left_ms > 0)
    assert raw.keys(f"{ns}:x:held:*") == []
