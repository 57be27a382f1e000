"""
kill -9 at points of a batch: no message is lost or duplicated.

Each kill costs a JVM, so only the soak has every point, and two kinds of sinks. The tests of
streams one folder up kill at every call, without a JVM.
"""

from __future__ import annotations

from collections import Counter

import pytest

from rsmq import RSMQ
from tests.scale import SOAK, scaled
from tests.spark.session.killed import Job, assert_nothing_left, fill, read_parquet

SOURCE_POINTS = [
    ("after claim", 2), ("acknowledge", 3), ("ahead", 5), ("before claim", 6), ("read", 7),
    ("partitions", 8),
]  # fmt: skip
SINK_POINTS = [("after claim", 2), ("publish", 3), ("ahead", 5)]
if SOAK:
    SINK_POINTS = [
        ("partitions", 2), ("publish", 3), ("adopted", 4), ("published", 5), ("committed", 6),
        ("staged", 7),
    ]  # fmt: skip


@pytest.mark.skipif(not SOAK, reason="minutes; RSMQ_SOAK=1")
def test_queue_to_parquet_survives_kills_at_every_point(server, ns, rsmq, raw, spark, tmp_path):
    bodies = fill(rsmq, 20_000)
    sink = tmp_path / "parquet"
    job = Job(server, ns, tmp_path, "--parquet", str(sink))
    for point, batch in SOURCE_POINTS:
        job.die_at(point, batch)
    job.finish()

    assert Counter(read_parquet(spark, sink)) == Counter(bodies)
    assert_nothing_left(raw, ns, "source")
    assert rsmq.get_queue_attributes("source").total_received == len(bodies)


def test_queue_to_queue_survives_kills_at_every_point(server, ns, rsmq, raw, tmp_path):
    bodies = fill(rsmq, scaled(12_000, 20_000))
    rsmq.create_queue("target")
    job = Job(server, ns, tmp_path, "--queue", "target")
    for point, batch in SINK_POINTS:
        job.die_at(point, batch)
    job.finish()

    arrived = raw.hmget(f"{ns}:target:Q", raw.zrange(f"{ns}:target", 0, -1))
    assert Counter(body.decode() for body in arrived) == Counter(bodies)
    assert_nothing_left(raw, ns, "source")
    assert rsmq.get_queue_attributes("target").total_sent == len(bodies)
    assert raw.exists(f"{ns}:target:x:staged") == 0


@pytest.mark.skipif(not SOAK, reason="tests/spark/test_namespaces.py kills without a JVM")
def test_two_namespaces_to_a_queue_survive_kills_between_them(server, ns, rsmq, raw, tmp_path):
    names = [ns, f"{ns}-other"]
    bodies = fill(rsmq, 6000)
    rsmq.create_queue("target")
    with RSMQ.from_url(server.url, ns=names[1]) as other:
        bodies += fill(other, 6000)
        job = Job(server, ns, tmp_path, "--queue", "target", "--reads", ", ".join(names))
        for point, batch in SOURCE_POINTS[1:3]:
            job.die_at(point, batch)
        job.finish()

        arrived = raw.hmget(f"{ns}:target:Q", raw.zrange(f"{ns}:target", 0, -1))
        assert Counter(body.decode() for body in arrived) == Counter(bodies)
        for name, client in zip(names, (rsmq, other), strict=True):
            assert_nothing_left(raw, name, "source")
            assert client.get_queue_attributes("source").total_received == 6000
