"""In the soak, kill -9 at random: no message is lost or duplicated."""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest

from rsmq.spark.versions import HAS_START
from tests.spark.session.killed import Job, assert_nothing_left, fill, read_parquet

# The streams of all versions up to 4.1 have the same reader.
MESSAGES, KILLS = (300_000, 20) if HAS_START else (60_000, 8)


@pytest.mark.parametrize("sink", ["parquet", "queue"])
def test_random_kills_lose_and_duplicate_no_message(server, ns, rsmq, raw, spark, tmp_path, sink):
    seed = int(os.environ.get("RSMQ_SEED", time.time_ns() % 10**9))
    print(f"RSMQ_SEED={seed}")
    chance = random.Random(seed)
    bodies = fill(rsmq, MESSAGES)
    rsmq.create_queue("target")
    folder = tmp_path / "parquet"
    job = Job(server, ns, tmp_path, *(
        ("--parquet", str(folder)) if sink == "parquet" else ("--queue", "target")
    ))  # fmt: skip
    for _ in range(KILLS):
        # From before the first batch to after the last.
        if job.die_after(chance.uniform(7, 16)):
            break
    while raw.zcard(f"{ns}:source"):
        # Messages of a batch that was never logged are received again after 20 s.
        job.finish()

    if sink == "parquet":
        arrived = read_parquet(spark, folder)
    else:
        ids = raw.zrange(f"{ns}:target", 0, -1)
        arrived = [body.decode() for body in raw.hmget(f"{ns}:target:Q", ids)]
    assert Counter(arrived) == Counter(bodies)
    assert_nothing_left(raw, ns, "source")
