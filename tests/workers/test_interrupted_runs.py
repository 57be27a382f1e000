"""Runs that the end of a worker interrupts."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.workers.polling import wait_until


class Deployments:
    """Workers of one queue, one after the other, each of which interrupts the call that it runs."""

    def __init__(self, env, gate, **options):
        self._env = env
        self._gate = gate
        self._options = {"max_retries": 1, "backoff": 0, "dead_letter_queue": "dead", **options}
        #: The receive count and the attempt of each call.
        self.calls = []
        self.fails = False
        env.create_queues("q", "dead")

    def start(self, kind="thread"):
        worker = self._env.create_worker(name="w", concurrency=1)

        def handle(body, message):
            self.calls.append((message.receive_count, message.attempt))
            if self.fails:
                raise ValueError(body)
            self._gate()

        async def handle_later(body, message):
            self.calls.append((message.receive_count, message.attempt))
            if self.fails:
                raise ValueError(body)
            await asyncio.sleep(60)

        worker.listener("q", **self._options)(handle_later if kind == "task" else handle)
        worker.start()
        return worker

    def interrupt(self, kind="thread"):
        """Start a worker, and stop it while it runs a call, unless there is nothing to call."""
        before = len(self.calls)
        worker = self.start(kind)
        wait_until(lambda: len(self.calls) > before or worker.numbers.dead)
        time.sleep(0.005)  # longer than the shortest max_runtime
        worker.stop(0)
        return worker


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_interrupted_runs_are_no_attempts(env, rsmq, gate, kind):
    deployments = Deployments(env, gate)
    id = rsmq.send_message("q", "x")
    for number in range(1, 7):
        worker = deployments.interrupt(kind)
        assert worker.numbers.released == 1
        assert env.raw.hget(f"{env.ns}:q:x:unbegun", id) == b"%d" % number
        assert env.in_flight("w") == {}
    deployments.fails = True
    worker = deployments.start(kind)
    wait_until(lambda: worker.numbers.dead == 1)

    assert deployments.calls == [*((count, 1) for count in range(1, 8)), (8, 2)]
    assert list(env.scores("dead")) == [id]
    gate.open()


@pytest.mark.parametrize("reason", ["number", "time", "max_runtime"])
def test_runs_are_not_interrupted_without_end(env, rsmq, gate, monkeypatch, reason):
    """A handler that hangs until each worker has ended is given up in the end."""
    limits = {
        "number": {"max_deferrals": 3},
        "time": {"max_deferred_seconds": 3600},
        "max_runtime": {"max_runtime": 0.001},
    }
    deployments = Deployments(env, gate, **limits[reason])
    if reason == "max_runtime":  # its call is not abandoned before the worker stops
        monkeypatch.setattr(
            "rsmq.worker.loop.heartbeat.Heartbeat.abandon_hung_calls", lambda *_, **__: None
        )
    id = rsmq.send_message("q", "x")
    deployments.interrupt()
    if reason == "time":
        first = int(env.raw.hget(f"{env.ns}:q:Q", f"{id}:fr"))
        env.raw.hset(f"{env.ns}:q:Q", f"{id}:fr", first - 3_600_000)
    runs = 1
    while not env.scores("dead"):
        deployments.interrupt()
        runs += 1
        assert runs < 20

    [letter] = rsmq.peek_messages("dead")
    assert "in each run its worker died, or could not extend" in letter.reason.text
    free = {"number": 3, "time": 1, "max_runtime": 0}[reason]
    attempts = 1 + 2  # max_retries + 2, and then in quarantine
    assert len(deployments.calls) == free + attempts + 3
    assert [attempt for _, attempt in deployments.calls] == [1] * free + [*range(1, 7)]
    gate.open()


def test_an_interrupted_run_in_quarantine_is_not_counted(env, rsmq, gate):
    deployments = Deployments(env, gate)
    id = rsmq.send_message("q", "x")
    for _ in range(6):
        rsmq.receive_message("q", vt=0)
    for _ in range(5):
        deployments.interrupt()
        assert not env.raw.hexists(f"{env.ns}:q:x:alone", id)
    gate.open()
    worker = deployments.start()
    wait_until(lambda: worker.numbers.handled == 1)

    assert env.is_empty("dead")
