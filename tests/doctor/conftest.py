"""A namespace with faults, as other clients leave them, and the doctor's findings in it."""

from __future__ import annotations

import pytest

from rsmq.doctor import examine, repair
from rsmq.doctor.catalogue import _SERVER


class NamespaceUnderTest:
    """A namespace: its raw keys, and the doctor's examination and repair of it."""

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

    def read_fields(self, queue="q"):
        stored = self.raw.hgetall(self.hash(queue))
        return {name.decode(): value.decode() for name, value in stored.items()}

    def read_scores(self, queue="q"):
        stored = self.raw.zrange(self.zset(queue), 0, -1, withscores=True)
        return {id.decode(): score for id, score in stored}

    def read_listed(self):
        return {name.decode() for name in self.raw.smembers(self.index)}

    def now_ms(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def examine(self, queues=None):
        """Return the findings, without those of the shared server."""
        findings = examine(self.rsmq, queues).findings
        return [finding for finding in findings if finding.code not in _SERVER]

    def find_codes(self, queues=None):
        return [(finding.code, finding.queue, finding.number) for finding in self.examine(queues)]

    def repair(self, *also):
        """Repair all findings, and return the results: code, queue and number."""
        results = repair(self.rsmq, self.examine(), also=also)
        return [(done.finding.code, done.finding.queue, done.number) for done in results]

    def dump(self):
        """Return every key with its value and time to live."""
        dump = {}
        for key in sorted(self.raw.keys(f"{self.ns}*")):
            dump[key] = self.raw.dump(key), self.raw.ttl(key)
        return dump


@pytest.fixture
def namespace(rsmq, raw):
    rsmq.create_queue("q")
    return NamespaceUnderTest(rsmq, raw)


@pytest.fixture(autouse=True)
def skip_recheck_pause(request, monkeypatch):
    """Recheck faults at once: only in test_traffic do other clients use the queues."""
    if "traffic" not in request.fixturenames:
        monkeypatch.setattr("rsmq.doctor.examination.RECHECK_SECONDS", 0)
