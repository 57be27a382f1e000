"""Subscribers with faults, and pushers that are killed: each subscriber gets each message."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rsmq.push.subscribers import Subscribers
from tests.push.receiver import OK, Reply, reply
from tests.scale import scaled

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MESSAGES = scaled(300, 10_000)
KILLS = scaled(3, 20)
PUSHERS = 2


def start(server, ns):
    return subprocess.Popen(
        [sys.executable, "-c", "from rsmq.cli import main; main()", "push", "--subscribers", "q",
         "--allow-http", "--allow", "127.0.0.0/8", "--url", server.url, "--ns", ns],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_each_subscriber_gets_each_message_when_pushers_are_killed(
    server, ns, rsmq, raw, make_receiver
):
    seed = random.randrange(10**6)
    print(f"\nseed {seed}")
    chooser = random.Random(seed)
    faults = [reply(500), Reply(b"", close=True), reply(200, b"abc", length=100, close=True)]
    receivers = {
        "good": make_receiver(),
        "odd": make_receiver(lambda _: chooser.choice(faults) if chooser.random() < 0.05 else OK),
        "hanging": make_receiver(lambda _: reply(200, delay=1000)),
    }
    rsmq.create_queue("q")
    subscribers = Subscribers(rsmq)
    for name, receiver in receivers.items():
        subscribers.add("q", name, receiver.url, max_retries=100, concurrency=4)
        # A killed pusher releases nothing, and its successor has another name.
        rsmq.set_queue_attributes(f"q-{name}", vt=2)
    pushers = [start(server, ns) for _ in range(PUSHERS)]
    ids = set()
    kills = 0
    kills_at = sorted(chooser.sample(range(MESSAGES), KILLS))
    deadline = time.monotonic() + scaled(600, 800)
    try:
        # All may be answered before the last kill: then it comes after them.
        while not receivers["good"].answered >= ids or len(ids) < MESSAGES or kills < KILLS:
            assert time.monotonic() < deadline, len(ids - receivers["good"].answered)
            if len(ids) < MESSAGES:
                ids.update(rsmq.send_messages("q", ["m"] * chooser.randint(1, 20)))
            done = len(receivers["good"].answered)
            if kills < KILLS and done >= kills_at[kills]:
                place = chooser.randrange(PUSHERS)
                pushers[place].kill()
                pushers[place].wait()
                pushers[place] = start(server, ns)
                kills += 1
            time.sleep(0.005)
        while raw.zcard(f"{ns}:q-odd") or raw.zcard(f"{ns}:q-good"):
            assert time.monotonic() < deadline, raw.zcard(f"{ns}:q-odd")
            time.sleep(0.01)
    finally:
        for process in pushers:
            process.kill()
            process.wait()

    assert kills == KILLS
    assert not raw.zcard(f"{ns}:q")
    assert receivers["good"].answered == receivers["odd"].answered == ids
    assert {each.decode() for each in raw.zrange(f"{ns}:q-hanging", 0, -1)} == ids
    for name in receivers:
        assert raw.hget(f"{ns}:q-{name}:Q", "totalsent") == str(len(ids)).encode()
