"""
Faults of every process of a cluster, at random moments, under queries on messages with groups.

Two queries run all the time (``steady_job.py``) through the faults of a table. At the end a program
apart from the run (``kill_checker.py``) compares all that was sent with all that arrived: nothing
lost, nothing doubled, and each group in its order. scripts/soak spark has 108 faults.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.scale import SOAK
from tests.spark.session.steady_run import SteadyRun

#: The number of faults of each kind, at each place.
FAULTS = {"local-cluster": {"executor": 1, "Python worker": 1, "suspended task": 1, "Redis": 1}}
if SOAK:
    FAULTS = {
        "local-cluster": {
            "driver": 6, "driver out of memory": 3, "executor": 12, "Python worker": 10,
            "suspended task": 6, "streaming source": 3, "Redis": 8, "slow Redis": 6,
        },
        "standalone": {
            "driver": 7, "driver out of memory": 2, "executor": 12, "Python worker": 10,
            "suspended task": 4, "streaming source": 3, "worker of the cluster": 8,
            "Sentinel failover": 8,
        },
    }  # fmt: skip
#: RSMQ_SOAK_DIVISOR divides the numbers of faults, for a short trial.
DIVISOR = int(os.environ.get("RSMQ_SOAK_DIVISOR", "1"))


def choose_kinds(place, chance):
    """Return the kinds of all faults at a place, in a random order."""
    table = FAULTS[place]
    kinds = [kind for kind, number in table.items() for _ in range(max(1, number // DIVISOR))]
    chance.shuffle(kinds)
    return kinds


@pytest.mark.parametrize("place", FAULTS)
def test_faults_lose_and_double_no_message_and_keep_the_order_of_groups(place, tmp_path):
    seed = int(os.environ.get("RSMQ_SEED", time.time_ns() % 10**9))
    print(f"\nRSMQ_SEED={seed}")
    chance, begin = random.Random(seed), time.monotonic()
    run = SteadyRun(place, tmp_path, chance)
    try:
        run.start()
        run.wait_for_batches(2)
        for number, kind in enumerate(choose_kinds(place, chance), 1):
            run.pause()
            run.inject(kind)
            print(f"{time.monotonic() - begin:.0f} s: {place} {number}: {kind}, {run.sent} sent",
                  flush=True)  # fmt: skip
        run.wait_for_batches(2)
        run.finish()
        is_clean, verdict = run.check()
        print(verdict, f"{run.faults.total()} faults at {place}: {dict(run.faults)};",
              f"{run.count_speculations()} second attempts; {time.monotonic() - begin:.0f} s",
              flush=True)  # fmt: skip
        assert is_clean, verdict
    finally:
        run.close()
