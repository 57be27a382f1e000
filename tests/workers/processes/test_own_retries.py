"""kill -9 at random of workers whose messages have their own number of retries."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter

import pytest

from compat.peers import Node
from tests.scale import scaled
from tests.workers.processes.conftest import wait_until

pytestmark = [pytest.mark.foreign, pytest.mark.slow]

MESSAGES = scaled(200, 5000)
KILLS = scaled(4, 60)
OPTIONS = {"vt": 2, "max_retries": 9, "backoff": 0.05, "dead_letter_queue": "dead"}
RETRIES = (0, 1, 4)


@pytest.fixture
def node(server, ns):
    made = Node(server, ns)
    yield made
    made.close()


def test_own_numbers_of_retries_hold_although_workers_are_killed_and_node_deletes(
    ns, rsmq, raw, start_program, node
):
    seed = int(os.environ.get("RSMQ_SEED", time.time_ns() % 10**9))
    print(f"RSMQ_SEED={seed}")
    chance = random.Random(seed)
    rsmq.create_queue("dead")
    rsmq.create_queue("q")
    own = {}

    def send(numbers):
        for number in numbers:
            retries = RETRIES[number % len(RETRIES)]
            body = json.dumps({"n": number, "do": "fail"})
            own[rsmq.send_message("q", body, max_retries=retries)] = retries

    send(range(MESSAGES))
    deleted = {id for id in own if chance.random() < 0.1 and node.delete_message("q", id)}

    programs = []

    def start(name):
        programs.append(start_program(name, {"q": dict(OPTIONS)}, concurrency=4))
        return programs[-1]

    def count_begun():
        return sum(len(each.events("begin")) for each in programs)

    living = {name: start(name) for name in ("one", "two")}
    for number in range(1, KILLS + 1):
        enough = number * MESSAGES // (KILLS + 2)
        wait_until(lambda enough=enough: count_begun() >= enough)
        name = chance.choice(sorted(living))
        living[name].kill()
        living[name] = start(name)
    earlier = set(own)
    send(range(MESSAGES // 2))  # which no kill concerns
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    for program in living.values():
        program.wait_for("started")
        assert program.stop() == 0

    begun = Counter(event.id for each in programs for event in each.events("begin"))
    letters = rsmq.peek_messages("dead", count=10_000)
    attempts = {letter.id: letter.reason.attempts for letter in letters}
    assert attempts.keys() == begun.keys() == own.keys() - deleted
    for id, number in attempts.items():
        # A receive of a worker that was killed is an attempt, whether or not the call began.
        assert begun[id] <= number
        assert own[id] + 1 <= number <= own[id] + 1 + KILLS
        if id not in earlier:
            assert begun[id] == number == own[id] + 1
    print(f"{len(own)} messages, {len(deleted)} deleted by Node, {KILLS} kills")
    assert raw.hlen(f"{ns}:dead:x:limits") == 0
