"""The exact cost of each call: the round trips to the server, and the commands it receives."""

from __future__ import annotations

import asyncio
import threading
from uuid import uuid4

import pytest
import redis.asyncio

from rsmq import RSMQ, AsyncRSMQ
from rsmq.explain.failure_groups import group_dead_letters
from rsmq.explain.operations import read_message_state, read_queue_state
from rsmq.figures.operations import sample_hidden
from rsmq.history.operations import record_minute
from rsmq.jobs.operations import cancel_job
from rsmq.schedules.operations import fire_due_schedules
from tests.blocking import Blocking
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7

LARGE = ["x" * 9000] * 20
SMALL = ["x" * 100] * 20


def consume(rsmq):
    with rsmq.consume(["q", "p"], wait=0, batch=20) as messages:
        assert list(messages) == []


#: Each call, and the number of scripts that it runs one after the other.
CALLS = {
    "send": (lambda rsmq: rsmq.send_message("q", "m"), 1),
    "send large": (lambda rsmq: rsmq.send_message("q", "x" * 60_000), 1),
    "send named": (lambda rsmq: rsmq.send_message("q", "m", dedup_id="x"), 1),
    "send unique": (lambda rsmq: rsmq.send_message("q", "m", unique_key="x"), 1),
    "send limited": (lambda rsmq: rsmq.send_message("q", "m", max_retries=1, expires=9), 1),
    "send tracked": (lambda rsmq: rsmq.send_message("q", "m", track=True), 1),
    "jobs": (lambda rsmq: rsmq.jobs("q"), 1),
    "cancel a job": (lambda rsmq: rsmq.run(cancel_job(rsmq.namespace.queue("q"), "i" * 32)), 1),
    "receive": (lambda rsmq: rsmq.receive_message("q"), 1),
    "pop": (lambda rsmq: rsmq.pop_message("q"), 1),
    "delete": (lambda rsmq: rsmq.delete_message("q", "i" * 32), 1),
    "change": (lambda rsmq: rsmq.change_message_visibility("q", "i" * 32, 5), 1),
    "get": (lambda rsmq: rsmq.get_message("q", "i" * 32), 1),
    "create": (lambda rsmq: rsmq.create_queue("q", exist_ok=True), 1),
    "attributes": (lambda rsmq: rsmq.get_queue_attributes("q"), 1),
    "policy": (lambda rsmq: rsmq.set_dead_letter_policy("q", None), 1),
    "send many": (lambda rsmq: rsmq.send_messages("q", SMALL), 1),
    "send many named": (lambda rsmq: rsmq.send_messages("q", LARGE, dedup_ids=[None] * 20), 1),
    "send many large": (lambda rsmq: rsmq.send_messages("q", LARGE), 2),
    "publish": (lambda rsmq: rsmq.publish(["q", "p"], "m"), 1),
    "publish large": (lambda rsmq: rsmq.publish(["q", "p"], "x" * 60_000), 1),
    "pause": (lambda rsmq: rsmq.pause_queue("q"), 1),
    "limits": (lambda rsmq: rsmq.set_queue_limits("q", max_running=1, rate="1/s"), 1),
    "resume": (lambda rsmq: rsmq.resume_queue("q"), 1),
    "consume": (consume, 1),
    "receive many": (lambda rsmq: rsmq.receive_messages(["q", "p"], 20), 1),
    "pop many": (lambda rsmq: rsmq.pop_messages(["q", "p"], 20), 1),
    "delete many": (lambda rsmq: rsmq.delete_messages("q", ["i" * 32] * 20), 1),
    "change many": (lambda rsmq: rsmq.change_messages_visibility("q", ["i" * 32], 5), 1),
    "release many": (lambda rsmq: rsmq.release_messages("q", ["i" * 32]), 1),
    "move": (lambda rsmq: rsmq.move_messages("q", "p", ["i" * 32]), 1),
    "peek": (lambda rsmq: rsmq.peek_messages("q"), 1),
    "count": (lambda rsmq: rsmq.count_messages("q"), 1),
    "sweep": (lambda rsmq: rsmq.sweep_dead_letters("q"), 1),
    "sweep expired": (lambda rsmq: rsmq.sweep_expired("q"), 1),
    "release all": (lambda rsmq: rsmq.release_all_messages("q"), 1),
    "recover": (lambda rsmq: rsmq.recover_messages("q", 5, idle=999), 1),
    "add schedule": (
        lambda rsmq: rsmq.schedules.add("a", every=60, queue="q", body=uuid4().hex),
        2,
    ),
    "add schedule again": (lambda rsmq: rsmq.schedules.add("a", every=60, queue="q"), 1),
    "run schedule": (lambda rsmq: rsmq.schedules.run_now("s"), 2),
    "pause schedule": (lambda rsmq: rsmq.schedules.pause("s"), 1),
    "resume schedule": (lambda rsmq: rsmq.schedules.resume("s"), 2),
    "get schedule": (lambda rsmq: rsmq.schedules.get("s"), 1),
    "list schedules": (lambda rsmq: rsmq.schedules.list(), 1),
    "remove schedule": (lambda rsmq: rsmq.schedules.remove("a"), 1),
    "fire nothing": (lambda rsmq: rsmq.run_steps(fire_due_schedules(rsmq.namespace)), 1),
    "history": (lambda rsmq: rsmq.run(record_minute(rsmq.namespace, 1, ["q"], is_last=True)), 1),
    "purge with undo": (lambda rsmq: rsmq.trash.purge_queue("q"), 1),
    "delete with undo": (lambda rsmq: rsmq.trash.delete_messages("q", ["i" * 32]), 1),
    "list what can be undone": (lambda rsmq: rsmq.trash.list(), 1),
    "undo": (lambda rsmq: rsmq.trash.undo(rsmq.trash.purge_queue("q").id), 3),
    "observe message": (
        lambda rsmq: rsmq.run(read_message_state(rsmq.namespace, "q", "i" * 32)),
        1,
    ),
    "observe queue": (lambda rsmq: rsmq.run(read_queue_state(rsmq.namespace, "q")), 1),
    "sample hidden": (lambda rsmq: rsmq.run(sample_hidden(rsmq.namespace.queue("q"))), 1),
    "group dead letters": (
        lambda rsmq: rsmq.run_steps(group_dead_letters(rsmq.namespace, "q", 200)),
        1,
    ),
    "redrive nothing": (lambda rsmq: rsmq.redrive_messages("p", "q"), 1),
}


@pytest.fixture(scope="module")
def private_server():
    """A server that no other test uses."""
    server = Server(redis_7())
    yield server
    server.stop()


@pytest.fixture(params=["sync", "asyncio", "sync, redis-py", "asyncio, redis-py"])
def rsmq(request, private_server):
    with private_server.raw() as raw:
        raw.flushall()
    runner = asyncio.Runner() if request.param.startswith("asyncio") else None
    inner = None
    if runner is None:
        if request.param.endswith("redis-py"):
            inner = redis.Redis(port=private_server.port)
        client = RSMQ(inner) if inner else RSMQ.from_url(private_server.url)
    elif request.param.endswith("redis-py"):
        inner = redis.asyncio.Redis(port=private_server.port)
        client = Blocking(runner, AsyncRSMQ(inner))
    else:
        client = Blocking(runner, AsyncRSMQ.from_url(private_server.url))
    for name in ("q", "p"):
        client.create_queue(name)
    client.schedules.add("s", every=3600, queue="q")
    yield client
    client.close()
    if inner is not None and runner is not None:
        runner.run(inner.aclose())
    elif inner is not None:
        inner.close()
    if runner is not None:
        runner.close()


def scripts(raw):
    stats = raw.info("commandstats")
    return sum(stats.get(f"cmdstat_{n}", {"calls": 0})["calls"] for n in ("evalsha", "eval"))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_needs_its_number_of_round_trips(private_server, rsmq, name):
    call, trips = CALLS[name]
    call(rsmq)  # loads the script, and opens the connection
    rsmq.purge_queue("q")
    with private_server.raw() as raw:
        raw.info("commandstats")
        before = scripts(raw)
        call(rsmq)
        assert scripts(raw) - before == trips


def test_a_tick_needs_two_round_trips(private_server, rsmq):
    """The look at what is due, and the send with the change of the schedule."""
    with private_server.raw() as raw:
        for _ in range(2):  # the first loads the scripts
            raw.hset("rsmq:x:schedules", "s:tick", 3_600_000)
            raw.zadd("rsmq:x:due", {"s": 3_600_000})
            before = scripts(raw)
            assert list(rsmq.run_steps(fire_due_schedules(rsmq.namespace)).fired) == ["s"]
        assert scripts(raw) - before == 2


@pytest.mark.parametrize(
    "name", ["send", "receive", "pop", "delete", "send many", "receive many", "publish"]
)
def test_a_call_sends_only_its_script(private_server, rsmq, name):
    call, _ = CALLS[name]
    call(rsmq)
    commands = []
    with private_server.raw() as raw, raw.monitor() as monitor:
        done = threading.Event()

        def listen():
            for command in monitor.listen():
                if command["client_type"] != "lua":
                    commands.append(command["command"].split()[0])
                if commands[-1:] == ["PING"]:
                    done.set()
                    return

        thread = threading.Thread(target=listen)
        thread.start()
        call(rsmq)
        with private_server.raw() as other:
            other.ping()
        done.wait(WAIT_SECONDS)
        thread.join()

    assert [command for command in commands if command not in ("PING", "CLIENT", "HELLO")] == [
        "EVALSHA"
    ]
