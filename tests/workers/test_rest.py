"""A worker at rest: how many calls to Redis it makes, and when it works again at full pace."""

from __future__ import annotations

import time
from itertools import pairwise
from types import SimpleNamespace

import pytest

from rsmq import TEXT
from rsmq.schedules.scheduler import SchedulerThread
from rsmq.wire.workers import TTL
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.listener import Handlers, make_listener
from rsmq.worker.loop import worker_loop
from rsmq.worker.loop.worker_loop import LoopSettings, WorkerLoop
from rsmq.worker.middleware import Hooks
from rsmq.worker.operations import register_worker
from rsmq.worker.state.lane import Lane


class Resting:
    """A loop without a thread, for which the test lets time pass. Redis is real."""

    def __init__(self, env, monkeypatch):
        env.create_queues("q")
        self.client, self.calls = env.rsmq, []
        connection = WorkerConnection(env.rsmq, "w", "token")
        env.rsmq.run(register_worker(connection.identity, {}, ttl=TTL, dead=""))
        handlers = Handlers()
        handlers.add("", lambda body: None)
        listener = make_listener("q", handlers)
        keys = env.rsmq.namespace.queue("q")
        self.lane = Lane(listener, keys, 30.0, TEXT, 1, listener.policy)
        self.now = time.monotonic()
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(worker_loop, "time", clock)
        self.loop = WorkerLoop(
            connection, [self.lane], Hooks([]), self,
            LoopSettings(slots=1, facts={}, grace=1, registered_at=self.now),
            scheduler=SchedulerThread(env.rsmq),
        )  # fmt: skip
        self.lane.arrivals = SimpleNamespace(
            is_waiting=True, note_look=self._wait, stop=lambda: None
        )
        run = env.rsmq.run

        def count(operation):
            self.calls.append((self.now, operation.script.name))
            return run(operation)

        monkeypatch.setattr(env.rsmq, "run", count)

    def _wait(self, **_):
        self.lane.arrivals.is_waiting = True

    def pass_seconds(self, seconds):
        """Make all turns of the loop within a time; return the names of the calls."""
        begin, end = len(self.calls), self.now + seconds
        while self.now < end:
            self.loop._access_redis(self.now)
            pause, _ = self.loop._plan_sleep(self.now)
            self.now += max(pause, 0.001)
        return [name for _, name in self.calls[begin:]]

    def heartbeat_pauses(self):
        at = [moment for moment, name in self.calls if name == "send_heartbeat"]
        return [round(after - before, 1) for before, after in pairwise(at)]


@pytest.fixture
def resting(env, monkeypatch):
    return Resting(env, monkeypatch)


def test_worker_at_rest_makes_less_than_one_call_in_two_seconds(resting):
    resting.pass_seconds(5)
    calls = resting.pass_seconds(300)
    # The watcher adds a PING in 15 seconds and a receive in 15 to 30.
    assert len(calls) + 300 / 15 + 300 / 22.5 <= 300 * 0.5
    assert calls.count("send_heartbeat") >= 300 / (TTL - 2), "a late heartbeat has two seconds"
    assert set(resting.heartbeat_pauses()) == {3.0}


def test_message_that_arrives_is_received_after_a_new_heartbeat(env, resting):
    resting.pass_seconds(5)
    resting.lane.arrivals.is_waiting = False
    assert resting.pass_seconds(0.5) == ["send_heartbeat", "receive_for_worker"]


def test_worker_that_was_paused_at_rest_receives_no_message(env, resting):
    resting.pass_seconds(5)
    env.rsmq.workers.pause("w")
    env.rsmq.send_message("q", "x")
    resting.now += 1.1
    resting.lane.arrivals.is_waiting = False
    assert "receive_for_worker" not in resting.pass_seconds(10)
    assert env.raw.hget(f"{env.ns}:q:Q", "totalrecv") in (None, b"0")
    assert set(resting.heartbeat_pauses()[-3:]) == {1.0}, "a paused one learns soon of its end"


@pytest.mark.parametrize("reason", ["p", "m", "b"])
def test_worker_looks_at_a_closed_queue_each_second(monkeypatch, resting, reason):
    monkeypatch.setattr(Lane, "open", lambda lane: None)  # it remains closed
    resting.lane.close(reason)
    resting.pass_seconds(10)
    assert set(resting.heartbeat_pauses()) == {1.0}


def test_what_was_counted_since_the_last_heartbeat_is_reported_within_a_second(resting):
    resting.pass_seconds(5)
    resting.loop.numbers.handled += 1
    resting.pass_seconds(1)
    [worker] = resting.client.workers.list()
    assert worker.handled == 1
