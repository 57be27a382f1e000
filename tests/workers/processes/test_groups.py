"""Groups and limit keys that workers and Node consume together, while workers are killed."""

from __future__ import annotations

import json
import random
import threading
import time
from itertools import groupby

import pytest

from compat.peers import Node
from tests.scale import scaled
from tests.workers.processes.conftest import assert_nothing_left, wait_until

pytestmark = pytest.mark.foreign

VT = 120
GROUPS, OF_GROUP = 8, scaled(24, 3000)
#: Messages that Node sends: they have no group.
PLAIN = scaled(24, 3000)
KILLS = scaled(2, 60)
#: The number of a message is that of its group times this, and its place in the group.
FACTOR = 10**6


def start_consuming(node, over, begun):
    """Let a Node client receive and delete messages; ``begun`` gets the time and number of each."""

    def consume():
        while not over.is_set():
            message = node.receive_message("q", vt=VT)
            if message is None:
                time.sleep(0.005)
                continue
            begun.append((time.time(), json.loads(message["message"])["n"]))
            assert node.delete_message("q", message["id"]) is True

    thread = threading.Thread(target=consume)
    thread.start()
    return thread


def count_overtaken(order):
    """
    Return the largest number of messages of a group that were overtaken by the same one.

    A message was overtaken if its last attempt began after the first one of a later message. So it
    was not deleted when that one began.
    """
    first, last = {}, {}
    for place, n in enumerate(order):
        first.setdefault(n, place)
        last[n] = place
    return max(
        sum(last[earlier] > first[n] for earlier in members if earlier < n)
        for _, group in groupby(sorted(first), lambda n: n // FACTOR)
        for members in [[*group]]
        for n in members
    )


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_messages_run_than_may_and_they_stay_in_order(
    server, ns, rsmq, raw, start_program, most
):
    numbers = [at * FACTOR + n for n in range(OF_GROUP) for at in range(GROUPS)]
    rsmq.create_queue("q")
    for at in range(0, len(numbers), 1000):
        some = numbers[at : at + 1000]
        bodies = [json.dumps({"n": n, "do": "return"}) for n in some]
        names = [str(n // FACTOR) for n in some]
        if most == 1:
            rsmq.send_messages("q", bodies, groups=names)
        else:
            rsmq.send_messages("q", bodies, limit_keys=names, max_running=most)
    node, over, begun = Node(server, ns), threading.Event(), []
    plain = [GROUPS * FACTOR + n for n in range(PLAIN)]
    for n in plain:
        node.send_message("q", json.dumps({"n": n, "do": "return"}))

    def count_left():
        rsmq.sweep_groups("q")  # Node admits no messages
        return raw.zcard(f"{ns}:q")

    chance, total = random.Random(), count_left()
    thread = start_consuming(node, over, begun)
    try:
        wait_until(lambda: begun)
        programs = [start_program("one", {"q": {"vt": VT}}, concurrency=4)]
        for kill in range(1, KILLS + 1):
            left = total - kill * total // (KILLS + 1)
            wait_until(lambda left=left: count_left() <= left, 600)
            wait_until(lambda: programs[-1].events("begin") or not count_left())
            time.sleep(chance.uniform(0, 0.02))
            programs[-1].kill()
            programs.append(start_program("one", {"q": {"vt": VT}}, concurrency=4))
        wait_until(lambda: count_left() == 0, 600)
        programs[-1].wait_for("started")
        assert programs[-1].stop() == 0
    finally:
        over.set()
        thread.join()
        node.close()

    begun += [
        (event.time, int(event.detail)) for program in programs for event in program.events("begin")
    ]
    order = [n for _, n in sorted(begun)]
    assert set(order) == {*numbers, *plain}
    assert count_overtaken([n for n in order if n // FACTOR < GROUPS]) < most
    assert raw.zcard(f"{ns}:q:x:held_back") == 0
    assert_nothing_left(raw, ns, "q", killed=True)
