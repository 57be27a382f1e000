"""Two namespaces: queues are exported from one of them and imported into the other."""

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

    def dump(self):
        """Return every key with its dumped value, to detect changes."""
        return {key: self.raw.dump(key) for key in self.raw.keys(f"{self.ns}:*")}

    def add(self, queue, id, body, score, **counters):
        """Write a message as another client does."""
        fields = {id: body} | {f"{id}:{name}": value for name, value in counters.items()}
        self.raw.hset(f"{self.ns}:{queue}:Q", mapping=fields)
        self.raw.zadd(f"{self.ns}:{queue}", {id: score})


@pytest.fixture
def source(raw, ns):
    """Return the raw keys of the exported queues, which ``rsmq`` works on."""
    return Keys(raw, ns)


@pytest.fixture
def target(raw, ns):
    """Return the raw keys of the imported queues."""
    return Keys(raw, f"{ns}:other")


@pytest.fixture
def other(server, ns):
    """Return a client of the other namespace."""
    with RSMQ.from_url(server.url, ns=f"{ns}:other") as other:
        yield other


@pytest.fixture
def export_bytes(rsmq):
    """Return a function that exports queues and returns the bytes."""

    def export_queues_to_bytes(*names, client=rsmq):
        file = io.BytesIO()
        export_queues(client, names or None, file)
        return file.getvalue()

    return export_queues_to_bytes


@pytest.fixture
def import_bytes(other):
    """Return a function that imports bytes and returns the result."""

    def import_queues_from_bytes(data, *, client=other, **options):
        return import_queues(client, io.BytesIO(data), **options)

    return import_queues_from_bytes
