"""Processes that fire schedules are killed and suspended; the server fails over. No tick twice."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from rsmq import RSMQ
from tests.scale import scaled
from tests.schedules.conftest import wait_until
from tests.schedules.crowd import TICKS, run

pytestmark = pytest.mark.slow

FAILOVERS = scaled(1, 5)


def test_kills_and_suspensions_fire_no_tick_twice_and_none_never(server, ns, crowd):
    with RSMQ.from_url(server.url, ns=ns) as queues:
        processes = crowd(server.url, ns)
        total = run(queues, processes)

    print(f"{total} ticks, {processes.kills} kills, {processes.freezes} suspensions")
    assert total >= TICKS


def test_failovers_fire_no_tick_twice_and_none_never(sentinels, crowd):
    """Message and next tick are one script, so a replica has both or neither."""
    ns = f"ticks{random.randrange(10**6)}"
    with RSMQ.from_url(sentinels.url, ns=ns) as queues:
        processes = crowd(sentinels.url, ns)

        def failover():
            sentinels.failover()
            wait_until(lambda: _answers(queues))

        try:
            total = run(queues, processes, FAILOVERS, failover)
        finally:
            processes.stop()
            sentinels.heal()

    print(f"{total} ticks, {processes.kills} kills, {FAILOVERS} failovers")
    assert total >= TICKS


def _answers(queues):
    with suppress(Exception):
        return queues.schedules.list()
