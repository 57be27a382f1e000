"""The registration of a worker whose name may be that of another one, without a server."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rsmq import WorkerExists
from rsmq.wire.keys import Namespace
from rsmq.worker import registry
from rsmq.worker.operations import Identity, RegisteredWorker


class Server:
    """A server that has a worker of the name, on a clock that the test moves."""

    def __init__(self, expires_at):
        self.now = 100.0
        self.expires_at = expires_at
        self.stalls = iter(())  # seconds that pass after each answer, before it is read
        self.heartbeats = iter(())  # seconds by which each answer is later than the one before
        self.calls = 0

    def run(self, _operation):
        self.calls += 1
        self.expires_at += next(self.heartbeats, 0)
        remaining_ms = round((self.expires_at - self.now) * 1000)
        self.now += next(self.stalls, 0)
        return RegisteredWorker(remaining_ms, "other", "{}") if remaining_ms > 0 else None

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def server(monkeypatch):
    server = Server(expires_at=105.0)
    clock = SimpleNamespace(monotonic=lambda: server.now, sleep=server.sleep)
    monkeypatch.setattr(registry, "time", clock)
    return server


def register(server):
    return registry.register(server, Identity(Namespace(), "w", "mine"), {}, lambda: None)


def test_a_name_is_free_when_the_time_of_its_worker_is_over(server):
    server.stalls = iter([0, 2, 0, 1])  # this process is suspended before it reads answers
    began_at, deaths = register(server)
    assert began_at >= 105
    assert deaths == []


def test_a_heartbeat_of_the_other_worker_refuses_the_name(server):
    server.stalls, server.heartbeats = iter([0.5]), iter([0, 1, 1])
    with pytest.raises(WorkerExists):
        register(server)
    assert server.calls <= 3
