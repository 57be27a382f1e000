"""Two namespaces: queues are exported from the one and imported into the other."""

from __future__ import annotations

import io

import pytest

from rsmq import RSMQ
from rsmq.transfer import export_queues, import_queues


class Keys:
    """The raw keys of a namespace."""

    def __init__(self, raw, ns):
        self.raw = raw
        self.ns = ns

    def fields(self, queue):
        return self.raw.hgetall(f"{self.ns}:{queue}:Q")

    def scores(self, queue):
        return self.raw.zrange(f"{self.ns}:{queue}", 0, -1, withscores=True)

    def all(self):
        """Every key with what it holds, to see that nothing changed."""
        return {key: self.raw.dump(key) for key in self.raw.keys(f"{self.ns}:*")}

    def add(self, queue, id, body, score, **counters):
        """A message as another client writes it."""
        fields = {id: body} | {f"{id}:{name}": value for name, value in counters.items()}
        self.raw.hset(f"{self.ns}:{queue}:Q", mapping=fields)
        self.raw.zadd(f"{self.ns}:{queue}", {id: score})


@pytest.fixture
def source(raw, ns):
    """The raw keys of the queues that are exported, which ``rsmq`` works on."""
    return Keys(raw, ns)


@pytest.fixture
def target(raw, ns):
    """The raw keys of those that are imported."""
    return Keys(raw, f"{ns}:other")


@pytest.fixture
def other(server, ns):
    """A client of the other namespace."""
    with RSMQ.from_url(server.url, ns=f"{ns}:other") as other:
        yield other


@pytest.fixture
def exported(rsmq):
    """Exports queues; the bytes."""

    def export(*names, of=rsmq):
        file = io.BytesIO()
        export_queues(of, names or None, file)
        return file.getvalue()

    return export


@pytest.fixture
def imported(other):
    """Imports bytes; what came out."""

    def import_(data, *, to=other, **options):
        return import_queues(to, io.BytesIO(data), **options)

    return import_
