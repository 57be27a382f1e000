"""The pages of compat/MIGRATING.md on moving over: each command is run as it is written."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from rsmq import RSMQ
from rsmq.cli.commands.foreign_systems import KINDS
from tests.migrate import rqueue_states
from tests.migrate.redisrq import RedisRQ
from tests.migrate.rfq import Rfq
from tests.servers import Server, redis_7
from tests.workers.until import until

ROOT = Path(__file__).parents[2]
MIGRATING = (ROOT / "compat" / "MIGRATING.md").read_text()


def commands(heading):
    """Those of a page."""
    page = MIGRATING[MIGRATING.index(f"## {heading}\n") :]
    block = re.search(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    return [shlex.split(line) for line in block.splitlines()]


@pytest.fixture(scope="module")
def place():
    """A server of its own: the pages' names are used as they are."""
    server = Server(redis_7())
    yield server
    server.stop()


@pytest.fixture
def raw(place):
    with place.raw() as raw:
        yield raw
        raw.flushall()


@pytest.fixture
def rsmq(place, raw):
    with RSMQ.from_url(place.url) as rsmq:
        yield rsmq


@pytest.fixture
def run(place, rsmq):
    """Runs the commands of a page, in order; a bridge until its queue has so many messages."""

    def run(heading, *, arrive=None, other=None):
        outputs = []
        for name, *arguments in commands(heading):
            assert name == "rsmq"
            bridges = arguments[0] == "bridge"
            if other is not None:
                arguments += ["--other-url" if bridges else "--from-url", other]
            process = subprocess.Popen(
                [sys.executable, "-c", "from rsmq.cli import main; raise SystemExit(main())",
                 *arguments],
                env={**os.environ, "RSMQ_URL": place.url}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            if bridges:
                queue = arguments[arguments.index("--to") + 1]
                until(lambda queue=queue: messages(rsmq, queue) >= arrive)
                process.send_signal(signal.SIGTERM)
            out, error = process.communicate(timeout=30)
            assert process.returncode == 0, (arguments, out, error)
            outputs.append(out)
        return outputs

    return run


def messages(rsmq, queue):
    return rsmq.get_queue_attributes(queue).messages if queue in rsmq.list_queues() else -1


def bodies(rsmq, queue):
    return [message.body for message in rsmq.receive_messages(queue, 100)]


def test_from_rfq(run, raw, rsmq, place):
    old = Rfq(place.port)
    old.publish_batch("ndvi", [{"n": str(n)} for n in range(3)])
    old.consume("ndvi")
    old.close()
    looked, bridged, moved = run("From rfq", arrive=2)

    assert "rfq:ndvi -> ndvi: 2 ready, 1 in flight" in looked
    assert bridged == "2 messages moved\n"
    assert "rfq:ndvi -> ndvi: 1 in flight" in moved
    assert bodies(rsmq, "ndvi") == ['{"n": "0"}', '{"n": "1"}', '{"n": "2"}']
    assert not raw.keys("rfq:*")


def test_from_brpoplpush_lists(run, raw, rsmq):
    raw.lpush("work", "mail:1", "mail:2")
    raw.lpush("w1-queue", "mail:0")
    raw.lpush("skipped", "other:1")
    run("From BRPOPLPUSH lists", arrive=2)

    assert sorted(bodies(rsmq, "work")) == ["mail:0", "mail:1", "mail:2"]
    assert bodies(rsmq, "skipped") == ["other:1"]
    assert not raw.exists("work", "w1-queue", "skipped")


def test_from_rqueue(run, raw, rsmq):
    whole = rqueue_states.whole(rqueue_states.Rqueue(raw), "orders")
    looked, *_ = run("From Rqueue", arrive=5)

    assert "rqueue:orders -> orders: " in looked
    assert "rqueue:orders-dead -> orders-dead: 2 ready" in looked
    assert messages(rsmq, "orders") == len(whole.ready) + 4
    assert bodies(rsmq, "orders-dead") == [each.fields["message"] for each in whole.dead]
    assert bodies(rsmq, "orders_critical") == [whole.urgent.fields["message"]]
    assert not [key for key in raw.keys("__rq::*queue::*") if raw.type(key) in {b"list", b"zset"}
                and not key.startswith(b"__rq::c-queue")]  # fmt: skip


def test_from_redisrq(run, rsmq):
    old = RedisRQ()
    try:
        with redis.Redis.from_url(old.url) as client:
            client.execute_command("RQ.PUSH", "jobs", "a", "b", "c")
            client.execute_command("RQ.POP", "jobs")
        until(lambda: old.elapse("jobs", 1) is None)
        run("From RedisRQ", arrive=2, other=old.url)
        assert sorted(bodies(rsmq, "jobs")) == ["a", "b", "c"]
        assert not old.keys[b"jobs"].undelivered
        assert not old.keys[b"jobs"].delivered
    finally:
        old.close()


def test_from_other_rsmq_queues(run, raw, place, rsmq):
    with RSMQ.from_url(place.url, ns="old") as old:
        for name in ("orders", "mails"):
            old.create_queue(name, vt=7)
            old.send_messages(name, ["1", "2"])
        old.receive_message("orders")
        before = raw.hgetall("old:mails:Q")
        run("From other RSMQ queues")

        now = raw.hgetall("rsmq:mails:Q")
        assert {**now, b"modified": b""} == {**before, b"modified": b""}
        assert old.get_queue_attributes("orders").messages == 0
    assert rsmq.get_queue_attributes("orders").messages == 2
    assert rsmq.get_queue_attributes("orders").vt == 7


def test_in_a_program(raw, place):
    old = Rfq(place.port)
    old.publish("ndvi", {"n": "1"})
    old.close()
    page = MIGRATING[MIGRATING.index("## How a migration works") :]
    block = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    program = block.replace("127.0.0.1:6379", f"127.0.0.1:{place.port}")
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )

    assert ended.stdout.startswith("rfq:ndvi -> ndvi: 1 ready\n")
    assert raw.zcard("rsmq:ndvi") == 1


def test_every_system_has_its_page():
    pages = " ".join(re.findall(r"^## (.*)$", MIGRATING, re.MULTILINE)).lower()
    for kind in KINDS:
        assert kind in pages
