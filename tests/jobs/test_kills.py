"""Workers are killed while they handle tracked messages: each record ends in the true state."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from rsmq import RSMQ
from rsmq.errors import JobFailed
from tests.scale import scaled
from tests.workers.polling import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JOBS = scaled(600, 50_000)
KILLS = scaled(6, 50)
PROCESSES = 2
BATCH = 200


def start(server, ns):
    program = "from rsmq.cli import run_worker; run_worker()"
    return subprocess.Popen(
        [sys.executable, "-c", program, "tests.jobs.app:worker"],
        env={**os.environ, "JOBS_URL": server.url, "JOBS_NS": ns},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_each_job_ends_in_its_true_state_through_kills(server, ns, raw):
    chance = random.Random(7)
    with RSMQ.from_url(server.url, ns=ns) as rsmq:
        rsmq.create_queue("q")
        ids = [
            id
            for at in range(0, JOBS, BATCH)
            for id in rsmq.send_messages(
                "q", [str(number) for number in range(at, at + BATCH)], track=True
            )
        ]
        processes = [start(server, ns) for _ in range(PROCESSES)]
        try:
            for kill in range(1, KILLS + 1):
                goal = JOBS - JOBS * kill // (KILLS + 1)
                wait_until(lambda: raw.zcard(f"{ns}:q") <= goal, 300)  # noqa: B023 - used at once
                chosen = chance.randrange(PROCESSES)
                processes[chosen].kill()
                processes[chosen].wait()
                processes[chosen] = start(server, ns)
            # The last message as Node deletes it, whatever it was doing.
            raw.zrem(f"{ns}:q", ids[-1])
            raw.hdel(f"{ns}:q:Q", ids[-1], f"{ids[-1]}:rc", f"{ids[-1]}:fr")
            statuses = rsmq.wait_for_jobs([rsmq.job("q", id) for id in ids], 300)
        finally:
            for process in processes:
                process.kill()
                process.wait()

    assert raw.zcard(f"{ns}:q") == 0
    for number, status in enumerate(statuses[:-1]):
        if number % 7 == 0:
            with pytest.raises(JobFailed, match=f"Discard: {number}$"):
                status.result()
        else:
            assert status.result() == number
            assert status.attempt >= 1 + (number % 5 == 0)
    assert statuses[-1].state in ("expired", "succeeded")
    assert all(0 < raw.pttl(f"{ns}:q:x:job:{id}") <= 900_000 for id in ids[:-1])
    assert 0 < raw.pttl(f"{ns}:q:x:job:{ids[-1]}") <= 3_600_000
