"""kill -9 of a job with all its processes: nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.scale import SOAK, scaled
from tests.spark.session.conftest import ENVIRONMENT, ROOT
from tests.spark.session.fatal import BATCH, MARK, POINT

pytestmark = pytest.mark.timeout(scaled(280, 3600))


class Job:
    """The job of job.py, again and again on the same checkpoint."""

    def __init__(self, server, ns, folder, *sink):
        self._mark = folder / "mark"
        self._command = [
            sys.executable, "-m", "tests.spark.session.job", "--url", server.url, "--ns", ns,
            "--source", "source", "--checkpoint", str(folder / "checkpoint"), *sink,
        ]  # fmt: skip
        self._log = folder / "job.log"

    def start(self, point="", batch=1):
        self._mark.unlink(missing_ok=True)
        environment = {
            **os.environ, **ENVIRONMENT, POINT: point, BATCH: str(batch), MARK: str(self._mark),
        }  # fmt: skip
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command, cwd=ROOT, env=environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def die_at(self, point, batch):
        """Run it until it kills itself at a point."""
        assert self.start(point, batch).wait() == -signal.SIGKILL, self._told()
        assert self._mark.exists(), point

    def die_after(self, seconds):
        """Kill it some time after it began to receive; False if it had ended before."""
        process = self.start()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False
        assert process.returncode == 0, self._told()
        return True

    def finish(self):
        assert self.start().wait() == 0, self._told()

    def _told(self):
        return self._log.read_text()[-4000:]


def fill(rsmq, number):
    rsmq.create_queue("source")
    bodies = [f"message {n}" for n in range(number)]
    for begin in range(0, number, 1000):
        rsmq.send_messages("source", bodies[begin : begin + 1000])
    return bodies


def parquet_of(spark, path):
    """What readers see that know which files count."""
    return [row["message"] for row in spark.read.parquet(str(path)).select("message").collect()]


def nothing_left(raw, ns, *queues):
    for queue in queues:
        assert raw.zcard(f"{ns}:{queue}") == 0
        assert set(raw.hkeys(f"{ns}:{queue}:Q")) <= {
            b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv",
        }  # fmt: skip
        assert raw.exists(f"{ns}:{queue}:x:leases", f"{ns}:{queue}:x:staged") == 0


SOURCE_POINTS = [("after claim", 2), ("partitions", 3), ("acknowledge", 5), ("before claim", 7)]
SINK_POINTS = [("adopted", 2), ("publish", 4)]
if SOAK:
    SOURCE_POINTS.insert(2, ("read", 4))
    SINK_POINTS += [("published", 5), ("committed", 6), ("staged", 7)]


def test_a_queue_to_parquet_through_kills_at_every_point(server, ns, rsmq, raw, spark, tmp_path):
    bodies = fill(rsmq, 20_000)
    sink = tmp_path / "parquet"
    job = Job(server, ns, tmp_path, "--parquet", str(sink))
    for point, batch in SOURCE_POINTS:
        job.die_at(point, batch)
    job.finish()

    assert Counter(parquet_of(spark, sink)) == Counter(bodies)
    nothing_left(raw, ns, "source")
    assert rsmq.get_queue_attributes("source").total_received == len(bodies)


def test_queue_to_queue_through_kills_at_every_point(server, ns, rsmq, raw, tmp_path):
    bodies = fill(rsmq, 16_000)
    rsmq.create_queue("target")
    job = Job(server, ns, tmp_path, "--queue", "target")
    for point, batch in SINK_POINTS:
        job.die_at(point, batch)
    job.finish()

    arrived = raw.hmget(f"{ns}:target:Q", raw.zrange(f"{ns}:target", 0, -1))
    assert Counter(body.decode() for body in arrived) == Counter(bodies)
    nothing_left(raw, ns, "source")
    assert rsmq.get_queue_attributes("target").total_sent == len(bodies)
    assert raw.exists(f"{ns}:target:x:staged") == 0


@pytest.mark.parametrize("sink", ["parquet", "queue"])
def test_kills_at_random_lose_and_double_nothing(server, ns, rsmq, raw, spark, tmp_path, sink):
    seed = int(os.environ.get("RSMQ_SEED", time.time_ns() % 10**9))
    print(f"RSMQ_SEED={seed}")
    chance = random.Random(seed)
    bodies = fill(rsmq, scaled(20_000, 300_000))
    rsmq.create_queue("target")
    where = tmp_path / "parquet"
    job = Job(server, ns, tmp_path, *(
        ("--parquet", str(where)) if sink == "parquet" else ("--queue", "target")
    ))  # fmt: skip
    for _ in range(scaled(1, 20)):
        # From before the first batch to after the last.
        if job.die_after(chance.uniform(7, 16)):
            break
    while raw.zcard(f"{ns}:source"):
        # What was received for a batch that was never logged comes back after 20 s.
        job.finish()

    if sink == "parquet":
        arrived = parquet_of(spark, where)
    else:
        ids = raw.zrange(f"{ns}:target", 0, -1)
        arrived = [body.decode() for body in raw.hmget(f"{ns}:target:Q", ids)]
    assert Counter(arrived) == Counter(bodies)
    nothing_left(raw, ns, "source")
