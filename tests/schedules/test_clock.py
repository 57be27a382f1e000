"""The server's clock is set back and forward while processes that fire schedules are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsmq import RSMQ
from tests.schedules.crowd import TICKS, run
from tests.servers import Server, redis_62

pytestmark = pytest.mark.slow

#: Seconds by which the clock is off, one after the other.
OFFSETS = [3, -4, 8, 0, 5, -6, 2]


@pytest.fixture
def clock(tmp_path):
    """Return a function that sets the offset of the server's clock, in seconds."""
    file = tmp_path / "offset"

    def set_clock(seconds):
        new = file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(file)

    set_clock(0)
    set_clock.file = file
    return set_clock


@pytest.fixture
def server(clock):
    """A server of version 6.2: the memory allocator of later ones can't start with libfaketime."""
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    environment = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock.file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    server = Server(redis_62(), environment=environment)
    yield server
    server.stop()


def test_a_clock_set_back_and_forward_fires_no_tick_twice_and_none_never(server, clock, crowd):
    offsets = iter(OFFSETS)
    with RSMQ.from_url(server.url, ns="clock") as queues, server.raw() as raw:
        processes = crowd(server.url, "clock")
        seen = []

        def set_clock():
            before = raw.time()[0]
            clock(next(offsets))
            seen.append(raw.time()[0] - before)

        total = run(queues, processes, len(OFFSETS), set_clock)

    print(f"{total} ticks, {processes.kills} kills, clock set by {seen} seconds")
    assert total >= TICKS
    assert len(seen) == len(OFFSETS)
    assert min(seen) < -9  # the clock of the server has obeyed
    assert max(seen) > 9
