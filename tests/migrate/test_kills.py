"""Migrations that are killed, and run again, while their source is quiet or at work."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rsmq import RSMQ
from rsmq.migrate import Server
from rsmq.migrate.sources.rfq import make_uuid
from tests.migrate.stored import bodies, stored
from tests.scale import scaled
from tests.workers.until import until

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(scaled(60, 3600))

MESSAGES = scaled(8000, 200_000)
KILLS = scaled(1, 30)


@pytest.fixture
def start(monkeypatch, server, ns):
    """Starts the program in a process of its own."""
    monkeypatch.setenv("RSMQ_CONFIG", "/dev/null")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    running = []

    def start(*arguments, url=server.url):
        program = "import sys, rsmq.cli; sys.exit(rsmq.cli.main())"
        command = [sys.executable, "-c", program, *map(str, arguments)]
        where = ("--url", url, "--ns", ns)
        running.append(
            subprocess.Popen(
                [*command, *where], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
        )
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def through(process):
    """It has come to its end, and all is well."""
    _, said = process.communicate(timeout=scaled(30, 600))
    assert process.returncode == 0, said


def killed_again_and_again(start, seen, key, command, url, seed):
    """Kill it when some more have arrived, and let it come to its end at last."""
    chance = random.Random(seed)
    for _ in range(KILLS):
        process = start(*command, url=url)
        enough = seen.zcard(key) + chance.randrange(1, MESSAGES // (KILLS + 1))
        until(lambda process=process, enough=enough: (
            process.poll() is not None or seen.zcard(key) >= enough
        ), 30)  # fmt: skip
        process.kill()
        process.wait(10)
    process = start(*command, url=url)
    _, said = process.communicate(timeout=scaled(30, 600))
    # All of it may have been moved just before it was killed.
    assert process.returncode == 0 or "There is no" in said, said


def fill(raw, kind, ns):
    """Messages with numbers for bodies; the source's name."""
    with raw.pipeline(transaction=False) as pipeline:
        for number in range(MESSAGES):
            if kind == "rfq":
                id = make_uuid(1_700_000_000_000_000 + number).hex
                pipeline.hset(f"rfq:{ns}:message:{id}", "n", number)
                pipeline.lpush(f"rfq:{ns}:backlog", id)
            elif kind == "list":
                pipeline.lpush(f"{ns}:work", f"{number}")
            if number % 2000 == 1999:
                pipeline.execute()
        pipeline.execute()
    if kind == "rsmq":
        with RSMQ.from_url(f"{url_of(raw)}", ns=f"{ns}:old") as old:
            old.create_queue("q", vt=7)
            for at in range(0, MESSAGES, 4000):
                old.send_messages("q", [f"{n}" for n in range(at, min(at + 4000, MESSAGES))])
            old.receive_messages("q", 500, vt=5000)
    return {"rfq": f"rfq:{ns}", "list": f"list:{ns}:work", "rsmq": "rsmq:q"}[kind]


def url_of(raw):
    return f"redis://127.0.0.1:{raw.connection_pool.connection_kwargs['port']}/0"


@pytest.mark.parametrize(("kind", "way", "away"), [
    ("rfq", "--copy", False),
    ("rfq", "--move", False),
    ("list", "--move", True),
    ("rsmq", "--move", True),
    ("rsmq", "--copy", True),
])  # fmt: skip
def test_a_migration_that_is_killed_again_and_again_brings_each_message_once(
    server, other_server, raw, ns, start, kind, way, away
):
    origin = fill(raw, kind, ns)
    target = other_server if away else server
    command = ["migrate", "--from", origin, "--to", "to", way]
    if kind == "rsmq":
        command += ["--from-ns", f"{ns}:old"]
    if away:
        command += ["--from-url", server.url]
    if way == "--move" and kind == "rsmq":
        command += ["--in-flight"]
    with target.raw() as seen:
        before = raw.zrange(f"{ns}:old:q", 0, -1, withscores=True)
        killed_again_and_again(start, seen, f"{ns}:to", command, target.url, f"{kind}{way}")
        found = stored(seen, ns, "to")
        numbers = [
            int(json.loads(each.body)["n"]) if kind == "rfq" else int(each.body) for each in found
        ]
        assert sorted(numbers) == list(range(MESSAGES))
        if kind == "rsmq":
            assert seen.zrange(f"{ns}:to", 0, -1, withscores=True) == before
            assert sum(each.count == 1 for each in found) == 500
        else:
            assert numbers == list(range(MESSAGES))
        left = {"rfq": f"rfq:{ns}:*", "list": f"{ns}:work", "rsmq": f"{ns}:old:q"}[kind]
        if way == "--move":
            assert raw.keys(left) == []
            assert [key for key in raw.keys("*:x:aside:*") if b":probe:" not in key] == []
            assert seen.hget(f"{ns}:to:Q", "totalsent") == b"%d" % MESSAGES
        for server_of in (raw, seen):
            for pattern in (f"*{ns}*",):
                if keys := server_of.keys(pattern):
                    server_of.unlink(*keys)


class Consumers:
    """Threads that take messages from a queue as they come, and note their numbers."""

    def __init__(self, rsmq, queue, number):
        self.numbers = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(rsmq, queue))]
        self._number = number
        for thread in self._threads:
            thread.start()

    def _work(self, rsmq, queue):
        while not self._over.is_set():
            for message in rsmq.receive_messages([queue], 100, vt=30, wait=0.1):
                self.numbers.append(self._number(message.raw))
                rsmq.delete_message(message)

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join(10)


@pytest.mark.parametrize("away", [False, True])
def test_nothing_is_lost_while_rfq_is_at_work_on_both_sides(
    server, other_server, raw, ns, rfq, topic, start, away
):
    """Its producer and its consumer go on; ours is a consumer of what arrives; all are killed."""
    target = other_server if away else server
    sent, seen = f"{ns}:sent", f"{ns}:seen"
    producer = rfq.producing(topic, sent)
    consumer = rfq.consuming(topic, seen)
    until(lambda: raw.llen(seen) > 20)
    command = ["migrate", "--from", f"rfq:{topic}", "--to", "to", "--move"]
    if away:
        command += ["--from-url", server.url]
    with Server.from_url(target.url, ns=ns) as to:
        to.rsmq.create_queue("to")
        ours = Consumers(to.rsmq, "to", lambda raw: int(json.loads(raw)["n"]))
        chance = random.Random(away)
        try:
            for round in range(scaled(2, 40)):
                if round % 2 == 0:  # it is quick, and would leave us little
                    consumer.kill()
                process = start(*command, url=target.url)
                enough = len(ours.numbers) + chance.randrange(1, 200)
                until(lambda process=process, enough=enough: (
                    process.poll() is not None or len(ours.numbers) >= enough
                ), 20)  # fmt: skip
                process.kill()
                process.wait(10)
                consumer.kill()
                consumer.wait(10)
                consumer = rfq.consuming(topic, seen)
            producer.kill()
            producer.wait(10)
            consumer.kill()
            consumer.wait(10)
            process = start(*command, "--in-flight", url=target.url)
            _, said = process.communicate(timeout=30)
            assert process.returncode == 0 or "There is no message" in said, said
            until(lambda: not to.raw.zcard(f"{ns}:to"))
        finally:
            ours.end()
    by_rfq = [int(number) for number in raw.lrange(seen, 0, -1)]
    produced = {int(number) for number in raw.lrange(sent, 0, -1)}
    handled = [*by_rfq, *ours.numbers]

    assert produced <= set(handled)
    assert ours.numbers
    # A consumer of rfq that is killed behind its note and before its word is the only way to twice.
    assert len(handled) - len(set(handled)) <= scaled(3, 41)
    assert raw.keys(f"rfq:{topic}:*") == []


def test_nothing_is_lost_while_workers_of_the_pattern_are_killed(
    server, other_server, raw, ns, brpoplpush, start
):
    count = scaled(3000, 50_000)
    work, log = f"{ns}:work", f"{ns}:log"
    raw.lpush(work, *[f"mail:{number}" for number in range(count // 2)])
    workers = {name: brpoplpush(name, seconds=0.003) for name in ("w1", "w2")}
    until(lambda: raw.llen(log) > 20)
    command = [
        "migrate", "--from", f"list:{work}", "--to", "to", "--move",
        "--processing", f"{ns}:w?-queue", "--from-url", server.url,
    ]  # fmt: skip
    chance = random.Random("pattern")
    with other_server.raw() as seen:
        for round in range(scaled(2, 30)):
            for number in range(count // 2 + round, count, scaled(2, 30)):
                raw.lpush(work, f"mail:{number}")
            process = start(*command, url=other_server.url)
            enough = seen.zcard(f"{ns}:to") + chance.randrange(1, 500)
            until(lambda process=process, enough=enough: (
                process.poll() is not None or seen.zcard(f"{ns}:to") >= enough
            ), 20)  # fmt: skip
            process.kill()
            process.wait(10)
            name = chance.choice(["w1", "w2"])
            workers[name].kill()
            workers[name].wait(10)
            workers[name] = brpoplpush(name, seconds=0.003)
        for worker in workers.values():
            worker.kill()
            worker.wait(10)
        process = start(*command, "--in-flight", url=other_server.url)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0 or "There is no list" in said, said
        moved = [int(body.split(b":")[1]) for body in bodies(seen, ns, "to")]
        assert len(set(moved)) == len(moved) > 0
    handled = [int(number) for number in raw.lrange(log, 0, -1)]

    assert {*handled, *moved} == set(range(count))
    # A worker that is killed between its note and the end of its task has it in its list still.
    assert len(handled) + len(moved) - count <= scaled(4, 32)
    assert raw.keys(f"{ns}:w?-queue") == []
    assert not raw.exists(work)
