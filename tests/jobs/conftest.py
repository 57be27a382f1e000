"""Workers and their queues, as the tests of workers have them; and the raw records of jobs."""

from __future__ import annotations

import pytest

from tests.workers.conftest import WorkerEnvironment, gate  # noqa: F401 - a fixture


class JobEnvironment(WorkerEnvironment):
    def key(self, id, queue="q"):
        return f"{self.ns}:{queue}:x:job:{id}"

    def record(self, id, queue="q"):
        """Return the stored fields of a record."""
        stored = self.raw.hgetall(self.key(id, queue))
        return {name.decode(): value.decode() for name, value in stored.items()}

    def records(self):
        """Return the keys of all records."""
        return self.raw.keys(f"{self.ns}:*:x:job:*")

    def ttl(self, id, queue="q"):
        """Return the time to live of a record, seconds."""
        return self.raw.pttl(self.key(id, queue)) / 1000


@pytest.fixture
def backend():
    return "redis"


@pytest.fixture
def env(backend, request):
    env = JobEnvironment(backend, request)
    yield env
    env.close()


@pytest.fixture
def rsmq(env):
    return env.rsmq
