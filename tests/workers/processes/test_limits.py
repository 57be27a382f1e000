"""kill -9 at random of workers with a rate limit and locks by key, and Node on their queue."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
from collections import Counter, defaultdict

import pytest

from compat.peers import Node
from tests.scale import WAIT_SECONDS, scaled
from tests.workers.processes.conftest import assert_nothing_left, fill, wait_until

pytestmark = [pytest.mark.foreign, pytest.mark.slow]

MESSAGES = scaled(400, 10_000)
KILLS = scaled(4, 60)
KEYS = 12
OPTIONS = {"vt": 60, "max_retries": 50, "backoff": 0.05, "dead_letter_queue": "dead"}
LIMITS = {"rate": [100, 1], "locks": True}


@pytest.fixture
def node(server, ns):
    made = Node(server, ns)
    yield made
    made.close()


def find_overlaps(programs, key_of):
    """Return the calls of a key that began while another one of the key ran in a live process."""
    calls = defaultdict(list)
    for program, died_at in programs:
        ends = {(e.id, e.count): e.time for e in program.events("end", "failed")}
        for event in program.events("begin"):
            ended_at = ends.get((event.id, event.count), died_at)
            calls[key_of[event.id]].append((event.time, ended_at, event, program.name))
    return [
        (first, second)
        for of_key in map(sorted, calls.values())
        for first, second in itertools.pairwise(of_key)
        if second[0] < first[1]
    ]


def test_limits_hold_and_no_lock_remains_although_workers_are_killed(
    ns, rsmq, raw, start_program, node
):
    seed = int(os.environ.get("RSMQ_SEED", time.time_ns() % 10**9))
    print(f"RSMQ_SEED={seed}")
    chance = random.Random(seed)
    rsmq.create_queue("dead")
    bodies = [
        {"n": n, "key": f"k{n % KEYS}", "do": "sleep", "for": chance.uniform(0, 0.01)}
        for n in range(MESSAGES)
    ]
    half = MESSAGES // 2
    ids = fill(rsmq, "q", bodies[:half])
    programs, died_at = [], {}

    def start(name):
        programs.append(
            start_program(name, {"q": dict(OPTIONS)}, concurrency=4, limits=dict(LIMITS))
        )
        return programs[-1]

    def count_begun():
        return sum(len(each.events("begin")) for each in programs)

    by_node = set()
    living = {name: start(name) for name in ("one", "two")}

    def use_node():
        """Node sends the other half, and handles some messages beside the workers."""
        for body in bodies[half:]:
            ids.append(node.send_message("q", json.dumps(body)))
            if body["n"] % 10 == 0:
                message = node.receive_message("q", vt=60)
                if message is not None:
                    assert node.delete_message("q", message["id"]) is True
                    by_node.add(message["id"])

    user = threading.Thread(target=use_node)
    user.start()
    for number in range(1, KILLS + 1):
        # Handlers run: a worker is killed while it has locks and permits.
        enough = number * MESSAGES // (KILLS + 2)
        wait_until(lambda enough=enough: count_begun() >= enough)
        name = chance.choice(sorted(living))
        killed = living[name]
        killed.kill()
        died_at[killed] = time.time()
        living[name] = start(name)
    user.join(WAIT_SECONDS)
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    # The locks of killed workers are free: a message of each key is handled.
    last = fill(rsmq, "q", [{"n": n, "key": f"k{n}", "do": "return"} for n in range(KEYS)])
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0)
    for program in living.values():
        program.wait_for("started")
        assert program.stop() == 0
        died_at[program] = time.time()

    ends = [Counter(event.id for event in each.events("end")) for each in programs]
    total = sum(ends, Counter())
    repeated = total.total() - len(total)
    print(f"{MESSAGES} messages, {KILLS} kills, {len(by_node)} by Node, {repeated} repeated")
    assert total.keys() | by_node == {*ids, *last}
    # Only a kill can repeat a call: the message is then received by another process, or by Node.
    assert not by_node & {id for each in living.values() for id in ends[programs.index(each)]}
    assert all(count == 1 for each in ends for count in each.values())
    key_of = dict(zip(ids, [body["key"] for body in bodies], strict=True))
    key_of |= {id: f"k{n}" for n, id in enumerate(last)}
    assert find_overlaps([(each, died_at[each]) for each in programs], key_of) == []
    assert rsmq.peek_messages("dead") == []
    assert_nothing_left(raw, ns, "q", "dead", killed=True)
