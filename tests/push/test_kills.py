"""
A target with every fault, and pushers that are killed.

Each message is answered 2xx at least once, or is a dead letter with its reason.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from email.utils import formatdate
from pathlib import Path

import pytest

from rsmq.webhooks.shared_breaker import list_targets, resume_target
from tests.push.conftest import dead_letters
from tests.push.receiver import OK, Reply, reply
from tests.scale import scaled

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MESSAGES = scaled(500, 10_000)
KILLS = scaled(3, 20)
PUSHERS = 2
#: The number of each reply among 1,000; all others are 2xx.
FAULTS = {
    "500": 60, "302": 20, "400": 10, "no answer": 20, "not HTTP": 10, "closes in the body": 20,
    "500 that closes in the body": 10, "lies, too long": 20, "lies, too short": 20,
    "drips": 4, "huge": 4,
}  # fmt: skip
#: How often each of these happens in a run.
RARE = {
    "410": scaled(1, 4),
    "429": scaled(1, 4),
    "503": scaled(1, 4),
    "slow": scaled(0, 20),
    "dies": scaled(1, 4),
}


def is_poison(body):
    """Return whether the target refuses a message each time; ten messages are so."""
    return int(body) % (MESSAGES // 10) == 0


class Target:
    """Decides the answers of the receiver."""

    def __init__(self, other, seed):
        self._random = random.Random(seed)
        self._other = other
        self.counts = Counter()
        self.by_id = {}
        self.dies = threading.Event()
        rare = [kind for kind, number in RARE.items() for _ in range(number)]
        self._random.shuffle(rare)
        pause = MESSAGES // (len(rare) + 1)
        self._rare = {(place + 1) * pause: kind for place, kind in enumerate(rare)}

    def answer(self, request):
        kind = self._choose(request)
        self.counts[kind] += 1
        self.by_id.setdefault(request.headers["webhook-id"], []).append(kind)
        return self._make(kind)

    def _choose(self, request):
        if is_poison(request.body):
            return "poison"
        rare = self._rare.pop(sum(self.counts.values()), None)
        if rare is not None:
            return rare
        (kind,) = self._random.choices(
            [*FAULTS, "200"], [*FAULTS.values(), 1000 - sum(FAULTS.values())]
        )
        return kind

    def _make(self, kind):
        if kind == "dies":
            self.dies.set()
            return Reply(b"", close=True)
        made = {
            "200": OK,
            "poison": reply(422, b"no such order"),
            "500": reply(500, b"x" * 5000),
            "302": reply(302, headers=[f"Location: {self._other.url}"]),
            "400": reply(400, b"bad"),
            "410": reply(410),
            "429": reply(429, headers=["Retry-After: 1"]),
            "503": reply(
                503, headers=[f"Retry-After: {formatdate(time.time() + 1.5, usegmt=True)}"]
            ),
            "no answer": Reply(b"", close=True),
            "not HTTP": Reply(b"220 ready\r\n", close=True),
            "closes in the body": reply(200, b"abc", length=100, close=True),
            "500 that closes in the body": reply(500, b"abc", length=100, close=True),
            "lies, too long": reply(200, b"abc", length=10**9, close=True),
            "lies, too short": reply(200, b"abc" * 100, length=5),
            "drips": reply(200, b"abc", drip=0.01),
            "huge": reply(200, b"x" * 300_000),
            "slow": reply(200, delay=30),
        }
        return made[kind]


class Pushers:
    """Pusher processes, which are killed and started again."""

    def __init__(self, *arguments):
        self._command = [sys.executable, str(Path(__file__).with_name("pusher.py")), *arguments]
        self._processes = [self._start() for _ in range(PUSHERS)]
        self.gone = 0

    def _start(self):
        return subprocess.Popen(
            self._command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill(self, place):
        process = self._processes[place]
        process.kill()
        process.communicate()
        self._processes[place] = self._start()

    def restart_ended(self, rsmq):
        """Start those again that have ended, because the target had answered 410."""
        for place, process in enumerate(self._processes):
            if process.poll() is not None:
                error = process.communicate()[1]
                assert process.returncode == 3, error
                self.gone += 1
                for field, _ in list_targets(rsmq):
                    resume_target(rsmq, field)
                self._processes[place] = self._start()

    def stop(self):
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.communicate()


def test_each_message_is_answered_or_is_a_dead_letter_when_pushers_are_killed(
    server, ns, rsmq, raw, make_receiver
):
    seed = random.randrange(10**6)
    print(f"\nseed {seed}")
    other = make_receiver()
    receiver = make_receiver()
    target = Target(other, seed)
    receiver.answer = target.answer
    rsmq.create_queue("q")
    ids = {}

    def send(numbers):
        bodies = [str(number) for number in numbers]
        ids.update(zip(rsmq.send_messages("q", bodies), bodies, strict=True))

    for at in range(0, MESSAGES, 1000):
        send(range(at, min(at + 1000, MESSAGES)))
    further = itertools.count(MESSAGES + 1, 100)  # none of these is poison
    poison = {id for id, body in ids.items() if is_poison(body)}
    began = time.monotonic()
    pushers = Pushers(server.url, ns, receiver.url)
    chooser = random.Random(seed)
    kills_at = [MESSAGES * (number + 1) // (KILLS + 2) for number in range(KILLS)]
    kills = 0
    try:
        deadline = time.monotonic() + scaled(600, 800)
        while raw.zcard(f"{ns}:q"):
            assert time.monotonic() < deadline, (raw.hgetall(f"{ns}:x:push"), target.counts)
            if kills < KILLS and len(receiver.requests) >= kills_at[kills]:
                kills += 1
                pushers.kill(chooser.randrange(PUSHERS))
            if target.dies.is_set():
                target.dies.clear()
                receiver.stop()
                time.sleep(0.3)
                receiver.start()
            pushers.restart_ended(rsmq)
            # If only poison was left, the breaker would open for minutes, as it should.
            if raw.zcard(f"{ns}:q") < 20 and raw.zcard(f"{ns}:q-dead") < len(poison):
                send(itertools.islice(further, 10))
            time.sleep(0.005)
    finally:
        pushers.stop()
    dead = dead_letters(rsmq)
    answered = receiver.answered - poison

    assert kills == KILLS
    missing = ids.keys() - answered - dead.keys()
    assert not missing, {id: target.by_id.get(id) for id in missing}
    assert answered | dead.keys() == ids.keys()
    assert poison <= dead.keys()
    assert not other.requests
    for id, letter in dead.items():
        assert letter.raw == ids[id].encode()
        assert letter.reason.exception.startswith("PushFailed: ")
        assert letter.reason.attempts >= 6
        if id in poison:
            assert letter.reason.status == 422
            assert letter.reason.answer == "no such order"
    assert {each.body for each in receiver.requests} == {body.encode() for body in ids.values()}
    seconds = time.monotonic() - began
    print(
        f"{len(ids):,} messages, {kills} kills, {pushers.gone} ends by 410, {seconds:.0f} s: "
        f"{len(answered):,} answered 2xx, {len(dead):,} dead letters, "
        f"{len(answered & dead.keys())} both; {len(receiver.requests):,} requests on "
        f"{receiver.connections:,} connections; {dict(target.counts)}"
    )
