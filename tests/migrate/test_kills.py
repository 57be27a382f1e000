"""Migrations that are killed and run again, with an idle and with an active source."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rsmq import RSMQ
from rsmq.migrate.sources.rfq import make_uuid
from tests.migrate.keyed_server import Server
from tests.migrate.stored import read_bodies, read_messages
from tests.scale import WAIT_SECONDS, scaled
from tests.workers.polling import wait_until

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow

MESSAGES = scaled(8000, 200_000)
KILLS = scaled(1, 30)


@pytest.fixture
def start(monkeypatch, server, ns):
    """Return a function that starts the program in a process."""
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
        with process:  # closes its pipes, and waits
            process.kill()


def assert_succeeds(process):
    """Check that the program succeeds."""
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors


def run_with_kills(start, target_raw, key, command, url, seed):
    """Kill the migration repeatedly after some progress, and run it to its end at last."""
    chance = random.Random(seed)
    for _ in range(KILLS):
        process = start(*command, url=url)
        threshold = target_raw.zcard(key) + chance.randrange(1, MESSAGES // (KILLS + 1))
        wait_until(lambda process=process, threshold=threshold: (
            process.poll() is not None or target_raw.zcard(key) >= threshold
        ))  # fmt: skip
        process.kill()
        process.wait(WAIT_SECONDS)
    process = start(*command, url=url)
    _, errors = process.communicate(timeout=600)
    # All messages may have been moved just before the kill.
    assert process.returncode == 0 or "There is no" in errors, errors


def fill(raw, kind, ns):
    """Fill a source with numbered messages, and return its name on the command line."""
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
            for start_number in range(0, MESSAGES, 4000):
                old.send_messages(
                    "q", [f"{n}" for n in range(start_number, min(start_number + 4000, MESSAGES))]
                )
            old.receive_messages("q", 500, vt=5000)
    return {"rfq": f"rfq:{ns}", "list": f"list:{ns}:work", "rsmq": "rsmq:q"}[kind]


def url_of(raw):
    return f"redis://127.0.0.1:{raw.connection_pool.connection_kwargs['port']}/0"


@pytest.mark.parametrize(("kind", "way", "is_remote"), [
    ("rfq", "--copy", False),
    ("rfq", "--move", False),
    ("list", "--move", True),
    ("rsmq", "--move", True),
    ("rsmq", "--copy", True),
])  # fmt: skip
def test_repeatedly_killed_migration_moves_each_message_once(
    server, other_server, raw, ns, start, kind, way, is_remote
):
    source = fill(raw, kind, ns)
    target = other_server if is_remote else server
    command = ["migrate", "--from", source, "--to", "to", way]
    if kind == "rsmq":
        command += ["--from-ns", f"{ns}:old"]
    if is_remote:
        command += ["--from-url", server.url]
    if way == "--move" and kind == "rsmq":
        command += ["--in-flight"]
    with target.raw() as target_raw:
        before = raw.zrange(f"{ns}:old:q", 0, -1, withscores=True)
        run_with_kills(start, target_raw, f"{ns}:to", command, target.url, f"{kind}{way}")
        messages = read_messages(target_raw, ns, "to")
        numbers = [
            int(json.loads(each.body)["n"]) if kind == "rfq" else int(each.body)
            for each in messages
        ]
        assert sorted(numbers) == list(range(MESSAGES))
        if kind == "rsmq":
            assert target_raw.zrange(f"{ns}:to", 0, -1, withscores=True) == before
            assert sum(each.count == 1 for each in messages) == 500
        else:
            assert numbers == list(range(MESSAGES))
        remaining_pattern = {"rfq": f"rfq:{ns}:*", "list": f"{ns}:work", "rsmq": f"{ns}:old:q"}[
            kind
        ]
        if way == "--move":
            assert raw.keys(remaining_pattern) == []
            assert [key for key in raw.keys("*:x:aside:*") if b":probe:" not in key] == []
            assert target_raw.hget(f"{ns}:to:Q", "totalsent") == b"%d" % MESSAGES
        for client in (raw, target_raw):
            for pattern in (f"*{ns}*",):
                if keys := client.keys(pattern):
                    client.unlink(*keys)


class Consumers:
    """Threads that consume messages from a queue as they arrive, and record their numbers."""

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
            thread.join(WAIT_SECONDS)


@pytest.mark.parametrize("is_remote", [False, True])
def test_killed_migration_loses_nothing_while_rfq_is_active(
    server, other_server, raw, ns, rfq, topic, start, is_remote
):
    """
    Its producer and consumer continue, a consumer of RSMQ handles arrivals, and all are killed.
    """
    target = other_server if is_remote else server
    sent, seen_key = f"{ns}:sent", f"{ns}:seen"
    producer = rfq.start_producer(topic, sent)
    consumer = rfq.start_consumer(topic, seen_key)
    wait_until(lambda: raw.llen(seen_key) > 20)
    command = ["migrate", "--from", f"rfq:{topic}", "--to", "to", "--move"]
    if is_remote:
        command += ["--from-url", server.url]
    with Server.from_url(target.url, ns=ns) as target_namespace:
        target_namespace.rsmq.create_queue("to")
        consumers = Consumers(target_namespace.rsmq, "to", lambda raw: int(json.loads(raw)["n"]))
        chance = random.Random(is_remote)
        try:
            for round_number in range(scaled(2, 40)):
                if round_number % 2 == 0:  # it is fast, and would leave few messages to migrate
                    consumer.kill()
                process = start(*command, url=target.url)
                threshold = len(consumers.numbers) + chance.randrange(1, 200)
                wait_until(lambda process=process, threshold=threshold: (
                    process.poll() is not None or len(consumers.numbers) >= threshold
                ))  # fmt: skip
                process.kill()
                process.wait(WAIT_SECONDS)
                consumer.kill()
                consumer.wait(WAIT_SECONDS)
                consumer = rfq.start_consumer(topic, seen_key)
            producer.kill()
            producer.wait(WAIT_SECONDS)
            consumer.kill()
            consumer.wait(WAIT_SECONDS)
            process = start(*command, "--in-flight", url=target.url)
            _, errors = process.communicate()
            assert process.returncode == 0 or "There is no message" in errors, errors
            wait_until(lambda: not target_namespace.raw.zcard(f"{ns}:to"))
        finally:
            consumers.end()
    by_rfq = [int(number) for number in raw.lrange(seen_key, 0, -1)]
    produced = {int(number) for number in raw.lrange(sent, 0, -1)}
    handled = [*by_rfq, *consumers.numbers]

    assert produced <= set(handled)
    assert consumers.numbers
    # Only an rfq consumer that is killed between its record and the acknowledgement handles twice.
    assert len(handled) - len(set(handled)) <= scaled(3, 41)
    assert raw.keys(f"rfq:{topic}:*") == []


def test_migration_loses_nothing_while_brpoplpush_workers_are_killed(
    server, other_server, raw, ns, start_brpoplpush_worker, start
):
    count = scaled(3000, 50_000)
    work, log = f"{ns}:work", f"{ns}:log"
    raw.lpush(work, *[f"mail:{number}" for number in range(count // 2)])
    workers = {name: start_brpoplpush_worker(name, seconds=0.003) for name in ("w1", "w2")}
    wait_until(lambda: raw.llen(log) > 20)
    command = [
        "migrate", "--from", f"list:{work}", "--to", "to", "--move",
        "--processing", f"{ns}:w?-queue", "--from-url", server.url,
    ]  # fmt: skip
    chance = random.Random("pattern")
    with other_server.raw() as target_raw:
        for round_number in range(scaled(2, 30)):
            for number in range(count // 2 + round_number, count, scaled(2, 30)):
                raw.lpush(work, f"mail:{number}")
            process = start(*command, url=other_server.url)
            threshold = target_raw.zcard(f"{ns}:to") + chance.randrange(1, 500)
            wait_until(lambda process=process, threshold=threshold: (
                process.poll() is not None or target_raw.zcard(f"{ns}:to") >= threshold
            ))  # fmt: skip
            process.kill()
            process.wait(WAIT_SECONDS)
            name = chance.choice(["w1", "w2"])
            workers[name].kill()
            workers[name].wait(WAIT_SECONDS)
            workers[name] = start_brpoplpush_worker(name, seconds=0.003)
        for worker in workers.values():
            worker.kill()
            worker.wait(WAIT_SECONDS)
        process = start(*command, "--in-flight", url=other_server.url)
        _, errors = process.communicate()
        assert process.returncode == 0 or "There is no list" in errors, errors
        moved = [int(body.split(b":")[1]) for body in read_bodies(target_raw, ns, "to")]
        assert len(set(moved)) == len(moved) > 0
    handled = [int(number) for number in raw.lrange(log, 0, -1)]

    assert {*handled, *moved} == set(range(count))
    # A worker that is killed between its record and LREM still has the task in its list.
    assert len(handled) + len(moved) - count <= scaled(4, 32)
    assert raw.keys(f"{ns}:w?-queue") == []
    assert not raw.exists(work)
