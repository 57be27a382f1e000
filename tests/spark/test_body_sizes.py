"""The bytes of bodies that a frame reads at a time: their limit holds in any order of sizes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq.spark.read import message_fetch
from rsmq.transport.socket import SocketConnection
from rsmq.transport.threads.pending import PendingCall

LIMIT = 2000
_names = itertools.count()

sizes = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([0, 1, 20, 300, LIMIT, 3 * LIMIT])), max_size=6
).map(lambda runs: [size for number, size in runs for _ in range(number)])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=sizes,
    order=st.sampled_from(["sent", "shuffled", "ascending", "descending"]),
    random=st.randoms(use_true_random=False),
    snapshot=st.sampled_from(["scan", "exact"]),
    sampled=st.sampled_from([1, 64]),
    fetch_size=st.sampled_from([1, 7, 50, 2000]),
)
def test_limit_holds_in_any_order(
    env, monkeypatch, sizes, order, random, snapshot, sampled, fetch_size
):
    if order == "shuffled":
        random.shuffle(sizes)
    elif order != "sent":
        sizes.sort(reverse=order == "descending")
    queue = f"q{next(_names)}"
    env.rsmq.create_queue(queue)
    sent = env.rsmq.send_messages(queue, ["x" * size for size in sizes]) if sizes else []
    source = env.source(
        queue=queue, snapshot=snapshot, maxBytesPerFetch=LIMIT, fetchSize=fetch_size
    )
    reader = source.reader(source.schema())
    with monkeypatch.context() as patch:
        patch.setattr(message_fetch, "_SAMPLED_BODIES", sampled)  # one is often misleading
        batches = [batch for each in reader.partitions() for batch in reader.read(each)]

    read = [list(map(len, batch.column("message").to_pylist())) for batch in batches]
    assert all(sum(each) <= LIMIT or len(each) == 1 for each in read)
    stored = dict(zip(sent, sizes, strict=True))
    ids = [id for batch in batches for id in batch.column("id").to_pylist()]
    assert sorted(ids) == sorted(sent)
    assert [size for each in read for size in each] == [stored[id] for id in ids]


@pytest.fixture
def requests(monkeypatch):
    """The numbers of the bytes that were read for each request of fields."""
    read, totals = SocketConnection._read_more, []

    def note_read(self):
        read(self)
        if self.bytes_left is not None:
            totals[-1] = most[-1] - self.bytes_left

    finish, most = PendingCall.finish_within, []

    def note_finish(self, most_bytes):
        most.append(most_bytes)
        totals.append(0)
        return finish(self, most_bytes)

    monkeypatch.setattr(SocketConnection, "_read_more", note_read)
    monkeypatch.setattr(PendingCall, "finish_within", note_finish)
    return totals


def test_large_bodies_that_the_sample_misses_are_not_read_together(env, requests, monkeypatch):
    env.rsmq.create_queue("q", maxsize=-1)
    env.rsmq.send_messages("q", ["x"] * 500)
    monkeypatch.setattr(message_fetch.random, "sample", lambda ids, number: ids[:number])
    for _ in range(12):
        env.rsmq.send_messages("q", ["x" * 500_000])
    with env.commands() as commands:
        rows = env.read(queue="q", snapshot="exact", maxBytesPerFetch=1_000_000, numPartitions=1)

    assert len(rows) == 512
    assert requests
    assert max(requests) <= 1_100_000
    measures = [each for each in commands if each.startswith("EVALSHA")]
    assert len(measures) > 5


def test_small_bodies_are_not_measured_one_by_one(env, queue):
    sent = env.rsmq.send_messages(queue, ["x" * 100] * 1000)
    for snapshot in ("scan", "exact"):
        with env.commands() as commands:
            rows = env.read(queue=queue, columns="id,message", snapshot=snapshot, numPartitions=1)
        assert len(rows) == len(sent)
        measures = [each for each in commands if each.startswith("HSTRLEN")]
        assert len(measures) <= 64
        assert not [each for each in commands if each.startswith("EVALSHA")]
