"""Many processes that fire schedules, some of which are killed or suspended at any time."""

from __future__ import annotations

import json
import random
import signal
import time

from rsmq.schedules.operations import read_schedules
from rsmq.schedules.ticks import to_ms
from tests.scale import scaled
from tests.workers.processes.forks import start_command

PROCESSES = scaled(4, 16)
SCHEDULES = scaled(3, 10)
EVERY_MS = 100
TICKS = scaled(200, 10_000)


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
        return start_command("scheduler", *self._place)

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


def run(queues, crowd, disturbances=0, disturb=None):
    """
    Let schedules be fired while processes die.

    Args:
        queues: the client.
        crowd: the processes.
        disturbances: how often ``disturb`` is called, evenly between the ticks.
        disturb: a function that disturbs the server.

    Returns:
        The number of ticks; each was fired exactly once.
    """
    names = [f"s{number}" for number in range(SCHEDULES)]
    for name in names:
        queues.create_queue(name, maxsize=-1)
        body = json.dumps({"name": name})
        queues.schedules.add(
            name, every=EVERY_MS / 1000, queue=name, body=body, missed="all", tick_field="tick"
        )
    first = {each.name: to_ms(each.next_tick_at) for each in queues.schedules.list()}
    disturb_at = [TICKS * (each + 1) // (disturbances + 1) for each in range(disturbances)]
    done = 0
    while done < TICKS or disturb_at:
        done = sum(queues.get_queue_attributes(name).messages for name in names)
        crowd.disturb()
        if disturb_at and done >= disturb_at[0]:
            disturb_at.pop(0)
            disturb()
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
    _, (record,) = yield read_schedules(queues.namespace, [name])
    return int(record.tick)
