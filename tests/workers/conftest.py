"""Workers inside the test's process, on a real server and on the embedded one."""

from __future__ import annotations

import itertools
import threading

import pytest

from rsmq import RSMQ
from rsmq.transport import memory
from rsmq.worker import Middleware, Worker
from rsmq.worker.runtime import loop
from tests.workers.until import until

_numbers = itertools.count()


class Place:
    """A namespace with a client, the raw keys below it, and workers that end with the test."""

    def __init__(self, backend, request):
        self.ns = f"w{next(_numbers)}"
        if backend == "memory":
            self.url = f"memory://{self.ns}"
            self.raw = memory.client(self.url)
        else:
            server = request.getfixturevalue("server")
            self.url = server.url
            self.raw = server.raw()
        self._workers = []
        self._clients = []
        self.rsmq = self.client()
        #: Workers that are meant to fail.
        self.failing = []

    def client(self, **options):
        """Another client of the namespace."""
        client = RSMQ.from_url(self.url, ns=self.ns, **options)
        self._clients.append(client)
        return client

    def queues(self, *names, **attributes):
        for name in names:
            self.rsmq.create_queue(name, **attributes)

    def worker(self, **options):
        worker = Worker(options.pop("rsmq", self.rsmq), **{"grace": 5, **options})
        self._workers.append(worker)
        return worker

    def zset(self, queue):
        return f"{self.ns}:{queue}"

    def fields(self, queue):
        """The fields of a queue that are of messages."""
        stored = self.raw.hgetall(f"{self.ns}:{queue}:Q")
        return {
            name.decode(): value
            for name, value in stored.items()
            if len(name) >= 32  # attributes have shorter names
        }

    def scores(self, queue):
        stored = self.raw.zrange(self.zset(queue), 0, -1, withscores=True)
        return {id.decode(): score for id, score in stored}

    def empty(self, queue):
        """Whether nothing of any message is left."""
        return not self.scores(queue) and not self.fields(queue)

    def due_in(self, queue, id):
        """In how many seconds a message is due, by the server's clock."""
        seconds, micros = self.raw.time()
        return self.scores(queue)[id] / 1000 - seconds - micros / 1e6

    def elapse(self, queue, seconds):
        """Let time pass for what is hidden in a queue, and tell who waits for it."""
        for id, score in self.scores(queue).items():
            self.raw.zadd(self.zset(queue), {id: score - seconds * 1000})

    def held(self, name):
        """What is noted as held by a worker of this name: its raw key."""
        stored = self.raw.hgetall(f"{self.ns}:x:held:{name}")
        return {id.decode(): value for id, value in stored.items() if id}

    def close(self):
        for worker in self._workers:
            worker.stop(0)
        failures = [
            each._worker_loop.failure
            for each in self._workers
            if each._worker_loop is not None and each not in self.failing
        ]
        for client in self._clients:
            client.close()
        keys = self.raw.keys(f"{self.ns}:*")
        if keys:
            self.raw.delete(*keys)
        self.raw.close()

        assert not any(failures)


@pytest.fixture
def backend():
    return "redis"


@pytest.fixture
def place(backend, request):
    place = Place(backend, request)
    yield place
    place.close()


@pytest.fixture
def rsmq(place):
    return place.rsmq


@pytest.fixture
def beating(monkeypatch):
    """What workers do each second they do at once."""
    monkeypatch.setattr(loop, "HEARTBEAT_SECONDS", 0.02)


class Noted(Middleware):
    """A middleware that notes all hooks, in order, with the ids of messages."""

    def __init__(self):
        self.seen = []

    def names(self):
        return [name for name, *_ in self.seen]

    def of(self, hook):
        return [args for name, *args in self.seen if name == hook]


def _noting(hook):
    def note(self, *args):
        self.seen.append((hook, *args))

    return note


for _hook in [name for name in vars(Middleware) if not name.startswith("_")]:
    setattr(Noted, _hook, _noting(_hook))


@pytest.fixture
def noted():
    return Noted()


class Gate:
    """Handlers wait here until they are let through; counts how many are inside at once."""

    def __init__(self):
        self._open = threading.Event()
        self._lock = threading.Lock()
        self.inside = 0
        self.most = 0
        self.passed = 0

    def __call__(self):
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self._open.wait(20)
        with self._lock:
            self.inside -= 1
            self.passed += 1

    def open(self):
        self._open.set()

    def wait_for(self, number):
        until(lambda: self.inside >= number)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()
