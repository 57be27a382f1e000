"""Processes that fire schedules are killed and suspended; the server fails over. No tick twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from rsmq import RSMQ
from rsmq.schedules.ticks import to_ms
from tests.scale import scaled
from tests.schedules.conftest import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROCESSES = scaled(4, 16)
SCHEDULES = scaled(3, 10)
EVERY_MS = 100
TICKS = scaled(200, 10_000)
FAILOVERS = scaled(1, 5)


class Crowd:
    """
    Processes of ``rsmq scheduler``, some of which are killed or suspended at any time.

    Attributes:
        kills: the number of processes that were killed.
        freezes: the number of suspensions.
    """

    def __init__(self, url, ns, seed):
        self.kills = self.freezes = 0
        self._place = ["--url", url, "--ns", ns]
        self._random = random.Random(seed)
        self._processes = [self._start() for _ in range(PROCESSES)]
        self._suspended = []

    def _start(self):
        command = [sys.executable, "-c", "from rsmq.cli import main; main()", "scheduler"]
        return subprocess.Popen(
            [*command, *self._place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def disturb(self):
        """Kill a process and start another, or suspend one, or let one continue."""
        chosen = self._random.randrange(PROCESSES)
        what = self._random.choice(["kill", "freeze", "thaw", "thaw"])
        process = self._processes[chosen]
        if what == "kill":
            process.kill()
            process.wait()
            self.kills += 1
            self._processes[chosen] = self._start()
        elif what == "freeze" and len(self._suspended) < PROCESSES // 2:
            process.send_signal(signal.SIGSTOP)
            self.freezes += 1
            self._suspended.append(process)
        elif self._suspended:
            self._suspended.pop(0).send_signal(signal.SIGCONT)

    def stop(self):
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()


@pytest.fixture
def crowd():
    made = []

    def start(url, ns):
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        made.append(Crowd(url, ns, seed))
        return made[-1]

    yield start
    for each in made:
        each.stop()


def run(queues, crowd, failover=lambda: None):
    """Let schedules be fired while processes die; return what each has fired."""
    names = [f"s{number}" for number in range(SCHEDULES)]
    for name in names:
        queues.create_queue(name, maxsize=-1)
        body = json.dumps({"name": name})
        queues.schedules.add(
            name, every=EVERY_MS / 1000, queue=name, body=body, missed="all", tick_field="tick"
        )
    first = {each.name: to_ms(each.next_tick_at) for each in queues.schedules.list()}
    failovers_at = [TICKS * (each + 1) // (FAILOVERS + 1) for each in range(FAILOVERS)]
    while (done := sum(queues.get_queue_attributes(name).messages for name in names)) < TICKS:
        crowd.disturb()
        if failovers_at and done >= failovers_at[0]:
            failovers_at.pop(0)
            failover()
        time.sleep(0.3)
    for name in names:
        queues.schedules.pause(name)
    total = 0
    for name in names:
        fields = queues.run_steps(_fields(queues, name))
        messages = queues.peek_messages(name, 0, 10_000)
        ticks = sorted(to_ms(message.scheduled_at) for message in messages)
        assert ticks == list(range(first[name], fields, EVERY_MS)), name
        assert len({message.body for message in messages}) == len(messages)
        total += len(ticks)
    return total


def _fields(queues, name):
    from rsmq.schedules.operations import read_schedules

    _, (record,) = yield read_schedules(queues.namespace, [name])
    return int(record.tick)


def test_kills_and_suspensions_fire_no_tick_twice_and_none_never(server, ns, crowd):
    with RSMQ.from_url(server.url, ns=ns) as queues:
        processes = crowd(server.url, ns)
        total = run(queues, processes)

    print(f"{total} ticks, {processes.kills} kills, {processes.freezes} suspensions")
    assert total >= TICKS


def test_failovers_fire_no_tick_twice_and_none_never(sentinels, crowd):
    """Message and next tick are one script, so a replica has both or neither."""
    ns = f"ticks{random.randrange(10**6)}"
    with RSMQ.from_url(sentinels.url, ns=ns) as queues:
        processes = crowd(sentinels.url, ns)

        def failover():
            sentinels.failover()
            wait_until(lambda: _answers(queues))

        try:
            total = run(queues, processes, failover)
        finally:
            processes.stop()
            sentinels.heal()

    print(f"{total} ticks, {processes.kills} kills, {FAILOVERS} failovers")
    assert total >= TICKS


def _answers(queues):
    with suppress(Exception):
        return queues.schedules.list()
