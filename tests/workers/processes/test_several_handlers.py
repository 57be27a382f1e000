"""kill -9 at random of workers with several handlers: each finishes, for each message."""

from __future__ import annotations

import os
import random
import time
from collections import Counter

from tests.scale import scaled
from tests.workers.processes.conftest import assert_nothing_left, fill, wait_until

MESSAGES = scaled(900, 20_000)
KILLS = scaled(4, 60)
OPTIONS = {"vt": 60, "max_retries": 50, "backoff": 0.05, "dead_letter_queue": "dead"}


def test_each_handler_finishes_although_workers_are_killed(ns, rsmq, raw, start_program):
    seed = int(os.environ.get("RSMQ_SEED", time.time_ns() % 10**9))
    print(f"RSMQ_SEED={seed}")
    chance = random.Random(seed)
    rsmq.create_queue("dead")
    bodies = [
        {"n": n, "for": chance.uniform(0, 0.01), "fails": chance.choice("abcd")}
        for n in range(MESSAGES)
    ]
    ids = fill(rsmq, "q", bodies)
    programs = []

    def start(name):
        programs.append(start_program(name, {}, concurrency=4, groups={"q": OPTIONS}))
        return programs[-1]

    def count_left():
        return raw.zcard(f"{ns}:q")

    def find_busy():
        # A new process may begin when the other one has handled all that is left.
        found = [name for name in sorted(living) if living[name].events("end")]
        return found or (not count_left() and sorted(living))

    living = {name: start(name) for name in ("one", "two")}
    for number in range(1, KILLS + 1):
        left = MESSAGES - number * MESSAGES // (KILLS + 1)
        wait_until(lambda left=left: count_left() <= left)
        busy = wait_until(find_busy)
        name = chance.choice(busy)
        living[name].kill()
        living[name] = start(name)
    wait_until(lambda: count_left() == 0)
    for program in living.values():
        program.wait_for("started")
        assert program.stop() == 0

    ends = [Counter((event.id, event.detail) for event in each.events("end")) for each in programs]
    total = sum(ends, Counter())
    print(f"{MESSAGES} messages, {KILLS} kills, {total.total() - 3 * MESSAGES} repeated")
    assert total.keys() == {(id, name) for id in ids for name in "abc"}
    # Only a kill can repeat a handler: the message is then received by another process.
    assert all(count == 1 for each in ends for count in each.values())
    assert rsmq.peek_messages("dead") == []
    assert_nothing_left(raw, ns, "q", "dead", killed=True)
