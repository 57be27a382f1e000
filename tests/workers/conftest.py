"""Workers inside the test's process, on a real server and on the embedded one."""

from __future__ import annotations

import itertools
import threading

import pytest

from rsmq import RSMQ
from rsmq.transport import memory
from rsmq.worker import Middleware, Worker
from rsmq.worker.loop import worker_loop as loop
from tests.scale import WAIT_SECONDS
from tests.workers.polling import loop_of, state_of, wait_until

_numbers = itertools.count()


class WorkerEnvironment:
    """
    A test environment: a namespace with a client, its raw keys, and workers that end with the test.
    """

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
        self.rsmq = self.create_client()
        #: Workers that the test expects to fail.
        self.expected_to_fail = []

    def create_client(self, **options):
        """Return another client of the namespace."""
        client = RSMQ.from_url(self.url, **{"ns": self.ns, **options})
        self._clients.append(client)
        return client

    def create_queues(self, *names, **attributes):
        for name in names:
            self.rsmq.create_queue(name, **attributes)

    def create_worker(self, **options):
        worker = Worker(options.pop("rsmq", self.rsmq), **{"grace": 5, **options})
        self._workers.append(worker)
        return worker

    def queue_key(self, queue):
        return f"{self.ns}:{queue}"

    def fields(self, queue):
        """Return the fields of a queue that belong to messages."""
        stored = self.raw.hgetall(f"{self.ns}:{queue}:Q")
        return {
            name.decode(): value
            for name, value in stored.items()
            if len(name) >= 32  # attributes have shorter names
        }

    def scores(self, queue):
        stored = self.raw.zrange(self.queue_key(queue), 0, -1, withscores=True)
        return {id.decode(): score for id, score in stored}

    def is_empty(self, queue):
        """Return whether nothing of any message is stored."""
        return not self.scores(queue) and not self.fields(queue)

    def due_in(self, queue, id):
        """Return in how many seconds a message is due, by the server's clock."""
        seconds, micros = self.raw.time()
        return self.scores(queue)[id] / 1000 - seconds - micros / 1e6

    def advance_time(self, queue, seconds):
        """Make hidden messages due `seconds` earlier, and notify waiting receives."""
        for id, score in self.scores(queue).items():
            self.raw.zadd(self.queue_key(queue), {id: score - seconds * 1000})

    def in_flight(self, name):
        """
        Return the record of the messages in flight at a worker of this name, from its raw key.
        """
        stored = self.raw.hgetall(f"{self.ns}:x:held:{name}")
        return {id.decode(): value for id, value in stored.items() if id}

    def close(self):
        for worker in self._workers:
            worker.stop(0)
        failures = [
            state_of(each).failure
            for each in self._workers
            if loop_of(each) is not None and each not in self.expected_to_fail
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
def env(backend, request):
    env = WorkerEnvironment(backend, request)
    yield env
    env.close()


@pytest.fixture
def rsmq(env):
    return env.rsmq


@pytest.fixture
def fast_heartbeat(monkeypatch):
    """Shorten the worker's heartbeat interval from a second to 20 ms."""
    monkeypatch.setattr(loop, "HEARTBEAT_SECONDS", 0.02)


class HookRecorder(Middleware):
    """A middleware that records all hook calls in order, with their arguments."""

    def __init__(self):
        self.calls = []

    def names(self):
        return [name for name, *_ in self.calls]

    def calls_of(self, hook):
        return [args for name, *args in self.calls if name == hook]


def _recording_hook(hook):
    def record(self, *args):
        self.calls.append((hook, *args))

    return record


for _hook in [name for name in vars(Middleware) if not name.startswith("_")]:
    setattr(HookRecorder, _hook, _recording_hook(_hook))


@pytest.fixture
def hook_recorder():
    return HookRecorder()


class Gate:
    """A gate where handlers wait until it is opened; counts how many wait at once."""

    def __init__(self):
        self._open = threading.Event()
        self._lock = threading.Lock()
        self.inside = 0
        self.max_inside = 0
        self.passed = 0

    def __call__(self):
        with self._lock:
            self.inside += 1
            self.max_inside = max(self.max_inside, self.inside)
        self._open.wait(WAIT_SECONDS)
        with self._lock:
            self.inside -= 1
            self.passed += 1

    def open(self):
        self._open.set()

    def close(self):
        self._open.clear()

    def wait_for(self, number):
        wait_until(lambda: self.inside >= number)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()
