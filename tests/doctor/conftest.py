"""Queues as other clients leave them, and what the doctor finds in them."""

from __future__ import annotations

import pytest

from rsmq.doctor import examine, repair
from rsmq.doctor.catalogue import _SERVER


class Patient:
    """A namespace, its raw keys, and the doctor."""

    def __init__(self, rsmq, raw):
        self.rsmq, self.raw = rsmq, raw
        self.ns = rsmq.namespace.name

    def zset(self, queue="q"):
        return f"{self.ns}:{queue}"

    def hash(self, queue="q"):
        return f"{self.ns}:{queue}:Q"

    @property
    def index(self):
        return f"{self.ns}:QUEUES"

    def fields(self, queue="q"):
        stored = self.raw.hgetall(self.hash(queue))
        return {name.decode(): value.decode() for name, value in stored.items()}

    def scores(self, queue="q"):
        stored = self.raw.zrange(self.zset(queue), 0, -1, withscores=True)
        return {id.decode(): score for id, score in stored}

    def listed(self):
        return {name.decode() for name in self.raw.smembers(self.index)}

    def now_ms(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def findings(self, queues=None):
        """Those of queues and of the namespace; the server is the same for all."""
        found = examine(self.rsmq, queues).findings
        return [each for each in found if each.code not in _SERVER]

    def codes(self, queues=None):
        return [(each.code, each.queue, each.number) for each in self.findings(queues)]

    def repaired(self, *also):
        """What a repair says that it did."""
        done = repair(self.rsmq, self.findings(), also=also)
        return [(each.finding.code, each.finding.queue, each.number) for each in done]

    def state(self):
        """Every key, with values and times to live."""
        dump = {}
        for key in sorted(self.raw.keys(f"{self.ns}*")):
            dump[key] = self.raw.dump(key), self.raw.ttl(key)
        return dump


@pytest.fixture
def patient(rsmq, raw):
    rsmq.create_queue("q")
    return Patient(rsmq, raw)


@pytest.fixture(autouse=True)
def nobody_else_is_here(request, monkeypatch):
    """What might be half of a call need not be looked at twice, where nobody calls."""
    if "traffic" not in request.fixturenames:
        monkeypatch.setattr("rsmq.doctor.examination.RECHECK_SECONDS", 0)
