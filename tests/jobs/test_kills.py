"""Workers are killed while they handle tracked messages: each record ends in the true state."""

from __future__ import annotations

import json
import random
import time

import pytest

from rsmq import RSMQ
from rsmq.jobs import ReportedProgress
from tests.scale import scaled
from tests.workers.polling import wait_until
from tests.workers.processes.forks import start_command

pytestmark = pytest.mark.slow

JOBS = scaled(600, 50_000)
KILLS = scaled(6, 50)
PROCESSES = 2
BATCH = 200


def start(server, ns):
    environment = {"JOBS_URL": server.url, "JOBS_NS": ns}
    return start_command("worker", "tests.jobs.app:worker", environment=environment)


def run_with_kills(server, ns, raw, rsmq, ids):
    """Run workers until all jobs have ended, and return the statuses; workers are killed."""
    chance = random.Random(7)
    processes = [start(server, ns) for _ in range(PROCESSES)]
    try:
        for kill in range(1, KILLS + 1):
            goal = JOBS - JOBS * kill // (KILLS + 1)
            wait_until(lambda: raw.zcard(f"{ns}:q") <= goal, 600)  # noqa: B023 - used at once
            chosen = chance.randrange(PROCESSES)
            processes[chosen].kill()
            processes[chosen].wait()
            processes[chosen] = start(server, ns)
        # The last message as Node deletes it, whatever it was doing.
        raw.zrem(f"{ns}:q", ids[-1])
        raw.hdel(f"{ns}:q:Q", ids[-1], f"{ids[-1]}:rc", f"{ids[-1]}:fr")
        return rsmq.wait_for_jobs([rsmq.job("q", id) for id in ids], 600)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_each_job_ends_in_its_true_state_through_kills(server, ns, raw):
    with RSMQ.from_url(server.url, ns=ns) as rsmq:
        rsmq.create_queue("q")
        ids = []
        for at in range(0, JOBS, BATCH):
            ids += rsmq.send_messages("q", list(map(str, range(at, at + BATCH))), track=True)
        begun_at = time.monotonic()
        statuses = run_with_kills(server, ns, raw, rsmq, ids)
        seconds = time.monotonic() - begun_at

    assert raw.zcard(f"{ns}:q") == 0
    calls = 0
    for number, status in enumerate(statuses):
        ledger = [json.loads(each) for each in raw.lrange(f"{ns}:ledger:{number}", 0, -1)]
        calls += len(ledger)
        if status is statuses[-1] and status.state == "expired":
            continue
        # What the record says is what one of the calls has done, and what such a call does.
        token = status.result() if status.state == "succeeded" else status.error[-8:]
        did = {"state": status.state, "attempt": status.attempt, "token": token}
        assert did in ledger, (number, status)
        assert status.state == ("failed" if number % 7 == 0 else "succeeded")
        assert status.attempt >= 1 + (number % 5 == 0 and number % 7 != 0)
    # No record is without a time to live, or beyond it.
    records = set(raw.scan_iter(f"{ns}:q:x:job:*", count=1000))
    assert records == {f"{ns}:q:x:job:{id}".encode() for id in ids}
    lives = [raw.pttl(key) for key in records]
    assert min(lives) > 0
    assert max(lives) <= (3_600_000 if statuses[-1].state == "expired" else 900_000)
    assert sum(each > 900_000 for each in lives) <= 1
    print(
        f"\n{JOBS:,} jobs, {KILLS} kills, {calls:,} calls of the handler, {seconds:.0f} s: "
        "each record has the state, the attempt and the result of one of its calls"
    )


def test_cancelled_jobs_are_not_handled_through_kills(server, ns, raw):
    chance, number, cancelled = random.Random(9), scaled(400, 5_000), {}
    with RSMQ.from_url(server.url, ns=ns) as rsmq:
        rsmq.create_queue("q")
        ids = rsmq.send_messages("q", list(map(str, range(number))), track=True)
        jobs = [rsmq.job("q", id) for id in ids]
        processes = [start(server, ns) for _ in range(PROCESSES)]
        try:
            for kill in range(1, 5):
                goal = number - number * kill // 6
                wait_until(lambda: raw.zcard(f"{ns}:q") <= goal, 300)  # noqa: B023 - used at once
                for at in chance.sample(range(number), number // 20):
                    result = jobs[at].cancel()
                    calls = raw.llen(f"{ns}:ledger:{at}")
                    cancelled.setdefault(at, (result, calls))
                chosen = chance.randrange(PROCESSES)
                processes[chosen].kill()
                processes[chosen].wait()
                processes[chosen] = start(server, ns)
            statuses = rsmq.wait_for_jobs(jobs, 300)
        finally:
            for process in processes:
                process.kill()
                process.wait()

    assert raw.zcard(f"{ns}:q") == 0
    assert raw.hlen(f"{ns}:q:Q") < 20  # its attributes
    for at, status in enumerate(statuses):
        result, calls = cancelled.get(at, ("ended", 0))
        ledger = [json.loads(each) for each in raw.lrange(f"{ns}:ledger:{at}", 0, -1)]
        expected = {"failed" if at % 7 == 0 else "succeeded"}
        if result == "cancelled":
            expected = {"cancelled"}
        elif result == "requested":
            expected.add("cancelled")
        # At most one call ran when it was cancelled, and none has begun since.
        assert result == "ended" or len(ledger) <= calls + 1
        assert status.state in expected, (at, result, status)
        if status.state == "succeeded":
            assert status.progress == ReportedProgress(at, text=status.result())
        assert not status.is_cancelling
