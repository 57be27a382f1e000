"""
The memory of a worker process does not grow with the number of its jobs.

The first jobs fill caches, start threads and let the process reach its usual size. So the memory is
compared between two numbers of jobs, of which the smaller one is a warm-up.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scale import scaled
from tests.workers.processes.conftest import assert_nothing_left, fill, wait_until

WARM_UP_JOBS = scaled(8_000, 20_000)
JOBS = scaled(24_000, 200_000)
LIMIT_BYTES = scaled(2_000_000, 5_000_000)
QUEUES = "threads", "tasks"

#: Calls that exceed max_runtime in the warm-up, and afterwards.
WARM_UP_HANGS, HANGS = scaled(20, 60), scaled(60, 1_000)
HANGS_PER_GROUP = 20
#: More than two groups: one may begin before the calls of the previous one have ended.
CONCURRENCY = 64
MAX_RUNTIME_SECONDS = 0.1
#: The call ends soon after the worker has abandoned it, at a heartbeat; far earlier than this.
HANG_SECONDS = 60


def read_rss_bytes(program):
    """Return the resident memory of a process."""
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)[1]) * 1024


class Load:
    """
    Jobs for a worker with four queues: usual jobs and calls that hang, in threads and in tasks.

    Attributes:
        hangs: the number of calls that were sent and hang.
    """

    def __init__(self, rsmq, raw, ns):
        self._rsmq = rsmq
        self._raw = raw
        self._ns = ns
        self.hangs = 0
        for queue in QUEUES:
            rsmq.create_queue(queue)
            rsmq.create_queue(f"{queue}-hang")

    def handle(self, jobs, hangs):
        """Send jobs, and wait until the worker has handled all of them."""
        for queue in QUEUES:
            fill(self._rsmq, queue, [{"n": n, "do": "return"} for n in range(jobs // len(QUEUES))])
        for _ in range(hangs // HANGS_PER_GROUP):
            for queue in QUEUES:
                bodies = [{"n": 0, "do": "watch", "for": HANG_SECONDS}] * (
                    HANGS_PER_GROUP // len(QUEUES)
                )
                fill(self._rsmq, f"{queue}-hang", bodies)
            self.hangs += HANGS_PER_GROUP
            self._wait_until_empty("-hang", 20)
        self._wait_until_empty("", scaled(60, 600))

    def _wait_until_empty(self, suffix, seconds):
        keys = [f"{self._ns}:{queue}{suffix}" for queue in QUEUES]
        wait_until(lambda: not any(self._raw.zcard(key) for key in keys), seconds)


@pytest.mark.parametrize("hangs", [False, True], ids=["usual", "hanging"])
def test_memory_does_not_grow_with_the_number_of_jobs(rsmq, raw, ns, start_program, hangs):
    load = Load(rsmq, raw, ns)
    listeners = {}
    for queue in QUEUES:
        options = {"vt": 60, "max_retries": 0, "drop": True, "is_async": queue == "tasks"}
        listeners[queue] = options
        listeners[f"{queue}-hang"] = {**options, "max_runtime": MAX_RUNTIME_SECONDS}
    worker = start_program("one", listeners, concurrency=CONCURRENCY, logs_messages=False)
    load.handle(WARM_UP_JOBS, WARM_UP_HANGS if hangs else 0)
    warm = read_rss_bytes(worker)
    load.handle(JOBS - WARM_UP_JOBS, HANGS if hangs else 0)
    growth = read_rss_bytes(worker) - warm
    print(f"RSS {warm} after {WARM_UP_JOBS} jobs, {growth:+} after {JOBS}, {load.hangs} calls hung")

    assert worker.stop() == 0
    last_line = worker.log().splitlines()[-1]
    assert f" {JOBS} handled," in last_line
    assert last_line.endswith(f" {load.hangs} hung")
    assert growth < LIMIT_BYTES
    assert_nothing_left(raw, ns, *listeners)
