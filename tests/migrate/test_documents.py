"""The pages of compat/MIGRATING.md on migrations: each command is run exactly as written."""

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
from tests.workers.polling import wait_until

pytestmark = pytest.mark.foreign

ROOT = Path(__file__).parents[2]
MIGRATING = (ROOT / "compat" / "MIGRATING.md").read_text()


def read_commands(heading):
    """Return the commands of a page."""
    page = MIGRATING[MIGRATING.index(f"## {heading}\n") :]
    block = re.search(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    return [shlex.split(line) for line in block.splitlines()]


@pytest.fixture(scope="module")
def own_server():
    """Start a server for this module: the pages' queue names are used as they are."""
    server = Server(redis_7())
    yield server
    server.stop()


@pytest.fixture
def raw(own_server):
    with own_server.raw() as raw:
        yield raw
        raw.flushall()


@pytest.fixture
def rsmq(own_server, raw):
    with RSMQ.from_url(own_server.url) as rsmq:
        yield rsmq


@pytest.fixture
def run_page(own_server, rsmq):
    """
    Return a function that runs the commands of a page; a bridge runs until its queue is filled.
    """

    def run_page(heading, *, expected_messages=None, source_url=None):
        outputs = []
        for name, *arguments in read_commands(heading):
            assert name == "rsmq"
            is_bridge = arguments[0] == "bridge"
            if source_url is not None:
                arguments += ["--other-url" if is_bridge else "--from-url", source_url]
            process = subprocess.Popen(
                [sys.executable, "-c", "from rsmq.cli import main; raise SystemExit(main())",
                 *arguments],
                env={**os.environ, "RSMQ_URL": own_server.url}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            if is_bridge:
                queue = arguments[arguments.index("--to") + 1]
                wait_until(lambda queue=queue: count_messages(rsmq, queue) >= expected_messages)
                process.send_signal(signal.SIGTERM)
            out, error = process.communicate()
            assert process.returncode == 0, (arguments, out, error)
            outputs.append(out)
        return outputs

    return run_page


def count_messages(rsmq, queue):
    return rsmq.get_queue_attributes(queue).messages if queue in rsmq.list_queues() else -1


def receive_bodies(rsmq, queue):
    return [message.body for message in rsmq.receive_messages(queue, 100)]


def test_from_rfq(run_page, raw, rsmq, own_server):
    old = Rfq(own_server.port)
    old.publish_batch("ndvi", [{"n": str(n)} for n in range(3)])
    old.consume("ndvi")
    old.close()
    dry_run_output, bridge_output, move_output = run_page("From rfq", expected_messages=2)

    assert "rfq:ndvi -> ndvi: 2 ready, 1 in flight" in dry_run_output
    assert bridge_output == "2 messages moved\n"
    assert "rfq:ndvi -> ndvi: 1 in flight" in move_output
    assert receive_bodies(rsmq, "ndvi") == ['{"n": "0"}', '{"n": "1"}', '{"n": "2"}']
    assert not raw.keys("rfq:*")


def test_from_brpoplpush_lists(run_page, raw, rsmq):
    raw.lpush("work", "mail:1", "mail:2")
    raw.lpush("w1-queue", "mail:0")
    raw.lpush("skipped", "other:1")
    run_page("From BRPOPLPUSH lists", expected_messages=2)

    assert sorted(receive_bodies(rsmq, "work")) == ["mail:0", "mail:1", "mail:2"]
    assert receive_bodies(rsmq, "skipped") == ["other:1"]
    assert not raw.exists("work", "w1-queue", "skipped")


def test_from_rqueue(run_page, raw, rsmq):
    filled = rqueue_states.fill_queue(rqueue_states.Rqueue(raw), "orders")
    dry_run_output, *_ = run_page("From Rqueue", expected_messages=5)

    assert "rqueue:orders -> orders: " in dry_run_output
    assert "rqueue:orders-dead -> orders-dead: 2 ready" in dry_run_output
    assert count_messages(rsmq, "orders") == len(filled.ready) + 4
    assert receive_bodies(rsmq, "orders-dead") == [each.fields["message"] for each in filled.dead]
    assert receive_bodies(rsmq, "orders_critical") == [filled.urgent.fields["message"]]
    assert not [key for key in raw.keys("__rq::*queue::*") if raw.type(key) in {b"list", b"zset"}
                and not key.startswith(b"__rq::c-queue")]  # fmt: skip


def test_periodic_messages_of_rqueue(run_page, raw, rsmq):
    old = rqueue_states.Rqueue(raw)
    message = old.message("reports", "m", id="nightly", period=86_400_000, processAt=10**14)
    raw.zadd(old.scheduled("reports"), {message.raw: 10**14})
    dry_run_output, move_output, _ = run_page("Periodic messages of Rqueue")

    assert "  schedule reports.nightly, every 86400 s: would be added" in dry_run_output
    assert "  schedule reports.nightly, every 86400 s: added" in move_output
    assert rsmq.schedules.get("reports.nightly").definition.every == 86_400
    assert count_messages(rsmq, "reports") == 1


def test_unique_messages_of_rqueue(run_page, raw, rsmq):
    rqueue_states.Rqueue(raw).enqueue("orders", "order 7", id="order-7")
    run_page("Unique messages of Rqueue")

    assert count_messages(rsmq, "orders") == 1
    assert raw.hkeys("rsmq:orders:x:unique") == [b"order-7"]


def test_from_redisrq(run_page, rsmq):
    old = RedisRQ()
    try:
        with redis.Redis.from_url(old.url) as client:
            client.execute_command("RQ.PUSH", "jobs", "a", "b", "c")
            client.execute_command("RQ.POP", "jobs")
        wait_until(lambda: old.advance_time("jobs", 1) is None)
        run_page("From RedisRQ", expected_messages=2, source_url=old.url)
        assert sorted(receive_bodies(rsmq, "jobs")) == ["a", "b", "c"]
        assert not old.keys[b"jobs"].undelivered
        assert not old.keys[b"jobs"].delivered
    finally:
        old.close()


def test_from_other_rsmq_queues(run_page, raw, own_server, rsmq):
    with RSMQ.from_url(own_server.url, ns="old") as old:
        for name in ("orders", "mails"):
            old.create_queue(name, vt=7)
            old.send_messages(name, ["1", "2"])
        old.receive_message("orders")
        before = raw.hgetall("old:mails:Q")
        run_page("From other RSMQ queues")

        current = raw.hgetall("rsmq:mails:Q")
        assert {**current, b"modified": b""} == {**before, b"modified": b""}
        assert old.get_queue_attributes("orders").messages == 0
    assert rsmq.get_queue_attributes("orders").messages == 2
    assert rsmq.get_queue_attributes("orders").vt == 7


def test_in_a_program(raw, own_server):
    old = Rfq(own_server.port)
    old.publish("ndvi", {"n": "1"})
    old.close()
    page = MIGRATING[MIGRATING.index("## How a migration works") :]
    block = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    program = block.replace("127.0.0.1:6379", f"127.0.0.1:{own_server.port}")
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )

    assert completed.stdout.startswith("rfq:ndvi -> ndvi: 1 ready\n")
    assert raw.zcard("rsmq:ndvi") == 1


def test_every_system_has_a_page():
    pages = " ".join(re.findall(r"^## (.*)$", MIGRATING, re.MULTILINE)).lower()
    for kind in KINDS:
        assert kind in pages
