"""Who fires schedules: workers, and ``rsmq scheduler``; and what they cost without one."""

from __future__ import annotations

import json
import logging
import math
import signal
import subprocess
import sys
import threading
import time

import pytest

from rsmq import JSON, RSMQ, InvalidFormat
from rsmq.schedules import scheduler
from rsmq.schedules.scheduler import Scheduler, SchedulerThread
from rsmq.worker import Worker
from tests.ports import free_port
from tests.schedules.conftest import wait_until


@pytest.fixture
def looks(monkeypatch):
    """The namespaces at whose schedules somebody in this process has looked, in order."""
    seen = []

    def look(namespace):
        seen.append(namespace.name)
        return original(namespace)

    original = scheduler.fire_due_schedules
    monkeypatch.setattr(scheduler, "fire_due_schedules", look)
    return seen


@pytest.fixture
def worker(rsmq):
    """A worker of queue q, and the deliveries that it has handled."""
    rsmq.create_queue("q")
    worker = Worker(rsmq)
    worker.handled = []

    @worker.listener("q", codec=JSON, retry_forever=True)
    def handle(body, message):
        worker.handled.append((body, message))

    yield worker
    worker.stop()


@pytest.fixture
def program(server, ns):
    """Start ``rsmq scheduler`` with these arguments in a process of its own."""
    processes = []

    def start(*arguments):
        command = [sys.executable, "-c", "from rsmq.cli import main; main()", "scheduler"]
        processes.append(
            subprocess.Popen(
                [*command, *arguments, "--url", server.url, "--ns", ns],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
        return processes[-1]

    yield start
    for process in processes:
        with process:  # closes its pipes, and waits
            process.kill()


def test_a_worker_declares_schedules_and_fires_them(rsmq, raw, ns, worker):
    worker.schedule("a", every=0.1, queue="q", body={"n": 1}, codec=JSON, tick_field="tick")
    worker.start()
    wait_until(lambda: len(worker.handled) >= 3)

    definition = json.loads(raw.hget(f"{ns}:x:schedules", "a"))
    assert (definition["every"], definition["source"]) == (0.1, "code")
    ticks = [message.scheduled_at for _, message in worker.handled]
    assert len(ticks) == len(set(ticks))
    for body, message in worker.handled:
        assert body["n"] == 1
        tick = message.scheduled_at
        assert round(tick.timestamp() * 1000) % 100 == 0
        assert body["tick"].rstrip("Z").ljust(23, "0")[:19] == tick.isoformat()[:19]


def test_a_worker_learns_of_a_schedule_while_it_runs(rsmq, worker, looks):
    worker.start()
    wait_until(lambda: looks or worker.health().heartbeat_age_seconds)
    rsmq.schedules.add("a", every=0.2, queue="q", body="1")
    wait_until(lambda: len(worker.handled) >= 2)

    rsmq.schedules.remove("a")
    assert all(body == 1 for body, _ in worker.handled)


def test_without_schedules_a_worker_looks_once_at_most(rsmq, worker, looks):
    worker.start()
    rsmq.send_messages("q", ["1"] * 50)
    wait_until(lambda: len(worker.handled) == 50)
    heartbeats = set()
    wait_until(lambda: heartbeats.add(worker._worker_loop._heartbeat_at) or len(heartbeats) > 2)

    assert len(looks) <= 1


def test_a_worker_stops_while_a_schedule_is_far_away(rsmq, worker):
    rsmq.schedules.add("a", every=9_999_999, queue="q")
    worker.start()
    worker.stop()

    assert not [each for each in threading.enumerate() if each.name == "rsmq-scheduler"]


def test_code_with_an_older_version_leaves_what_is_stored(rsmq, worker):
    worker.schedule("a", every=3600, queue="q", version=2)
    worker.start()
    worker.stop()
    older = Worker(rsmq)
    older.listener("q", retry_forever=True)(lambda body: None)
    older.schedule("a", every=60, queue="q", version=1)
    older.start()
    older.stop()

    assert rsmq.schedules.get("a").definition.every == 3600


def test_a_declaration_is_checked_at_once(worker):
    worker.schedule("a", every=60, queue="q")
    for arguments in (
        {"name": "a", "every": 1, "queue": "q"},
        {"name": "b", "queue": "q"},
        {"name": "b", "cron": "x", "queue": "q"},
        {"name": "b", "every": 1, "queue": "a b"},
    ):
        with pytest.raises(InvalidFormat):
            worker.schedule(**arguments)
    worker.start()
    with pytest.raises(InvalidFormat, match="It is running"):
        worker.schedule("c", every=60, queue="q")


def test_a_user_without_the_right_only_fires_nothing(server, raw, rsmq, ns, caplog):
    rsmq.create_queue("q")
    raw.execute_command(
        "ACL", "SETUSER", f"{ns}-user", "on", ">secret", "+@all",
        f"~{ns}:q*", f"~{ns}:QUEUES", f"~{ns}:x:workers", f"~{ns}:x:held:*",
    )  # fmt: skip
    handled = []
    with (
        caplog.at_level(logging.INFO, "rsmq.schedules"),
        RSMQ.from_url(f"redis://{ns}-user:secret@127.0.0.1:{server.port}/0", ns=ns) as limited,
    ):
        worker = Worker(limited)
        worker.listener("q", retry_forever=True)(handled.append)
        worker.start()
        wait_until(lambda: "this process fires none" in caplog.text)
        rsmq.send_message("q", "x")
        wait_until(lambda: handled)
        worker.stop()

    (record,) = [each for each in caplog.records if each.name == "rsmq.schedules"]
    assert record.levelname == "INFO"  # no warning for a user whose rights end at its queues
    assert f"no right to {ns}:x:schedules and {ns}:x:due" in record.message


def test_a_failure_is_logged_and_stored_and_tried_again(rsmq, worker, caplog):
    rsmq.schedules.add("a", every=0.2, queue="later", body="1")
    with caplog.at_level(logging.WARNING, "rsmq.schedules"):
        worker.start()
        wait_until(lambda: (found := rsmq.schedules.get("a")).failure and found.failures)
        # It is logged after it was stored.
        text = "schedule a: not sent, and tried again: Queue not found: 'later'"
        wait_until(lambda: text in caplog.text)
    rsmq.create_queue("later")
    wait_until(lambda: rsmq.get_queue_attributes("later").messages)


def test_in_memory_a_worker_fires_too():
    with RSMQ.from_url("memory://schedules") as queues:
        queues.create_queue("q")
        worker = Worker(queues)
        handled = []
        worker.listener("q", retry_forever=True)(handled.append)
        worker.schedule("a", every=0.1, queue="q", body="hi")
        worker.start()
        wait_until(lambda: len(handled) >= 2)
        worker.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_program_fires_until_a_signal(rsmq, program, number):
    rsmq.create_queue("q")
    rsmq.schedules.add("a", every=0.1, queue="q")
    process = program()
    wait_until(lambda: rsmq.get_queue_attributes("q").total_sent >= 3)
    process.send_signal(number)
    output, errors = process.communicate()

    assert process.returncode == 0, errors
    assert output == f"sent {rsmq.get_queue_attributes('q').total_sent} messages\n"


def test_the_program_fires_what_is_due_once(rsmq, raw, ns, program):
    rsmq.create_queue("q")
    rsmq.schedules.add("a", every=3600, queue="q", missed="all")
    tick = int(raw.hget(f"{ns}:x:schedules", "a:tick")) - 3 * 3_600_000
    raw.hset(f"{ns}:x:schedules", "a:tick", tick)
    raw.zadd(f"{ns}:x:due", {"a": tick})
    output, errors = program("--once", "--json").communicate()

    assert json.loads(output) == {"sent": 3}, errors
    assert rsmq.get_queue_attributes("q").messages == 3


def test_one_without_cronsim_leaves_expressions_to_others(rsmq, raw, ns, monkeypatch, caplog):
    rsmq.create_queue("q")
    rsmq.schedules.add("cron", cron="* * * * *", queue="q")
    rsmq.schedules.add("every", every=3600, queue="q")
    for name in ("cron", "every"):
        raw.hset(f"{ns}:x:schedules", f"{name}:tick", 3_600_000)
        raw.zadd(f"{ns}:x:due", {name: 3_600_000})
    monkeypatch.setitem(sys.modules, "cronsim", None)
    firing = Scheduler(rsmq, looks_at_once=True)
    with caplog.at_level(logging.WARNING, "rsmq.schedules"):
        assert firing.fire_due() == 1

    assert "schedule cron: this process can't fire it: " in caplog.text
    assert rsmq.schedules.get("cron").failure is None
    monkeypatch.undo()
    assert Scheduler(rsmq, looks_at_once=True).fire_due() == 1


def test_a_schedule_that_a_process_cannot_compute_does_not_hold_up_its_others(
    rsmq, monkeypatch, raw, ns
):
    rsmq.create_queue("q")
    rsmq.schedules.add("able", every=0.1, queue="q")
    rsmq.schedules.add("unable", cron="* * * * *", queue="q")
    raw.zadd(f"{ns}:x:due", {"unable": 1})
    monkeypatch.setitem(sys.modules, "cronsim", None)
    thread = SchedulerThread(rsmq)
    thread.start()
    try:
        wait_until(lambda: rsmq.get_queue_attributes("q").messages >= 3)
    finally:
        thread.stop()
        thread.join()
    assert raw.zscore(f"{ns}:x:due", "unable") == 1


def test_a_process_without_data_of_the_zone_leaves_the_schedule_to_others(rsmq, raw, ns):
    rsmq.create_queue("q")
    rsmq.schedules.add("a", cron="* * * * *", timezone="Europe/Berlin", queue="q")
    stored = raw.hget(f"{ns}:x:schedules", "a")
    text = stored if isinstance(stored, str) else stored.decode()
    raw.hset(f"{ns}:x:schedules", "a", text.replace("Europe/Berlin", "Mars/Base"))
    raw.zadd(f"{ns}:x:due", {"a": 1})

    Scheduler(rsmq, looks_at_once=True).fire_due(raises=True)

    assert raw.zscore(f"{ns}:x:due", "a") == 1
    assert not raw.hexists(f"{ns}:x:schedules", "a:failure")


def test_a_tick_that_joins_an_earlier_message_is_logged_and_not_counted(rsmq, raw, ns, caplog):
    rsmq.create_queue("q")
    rsmq.schedules.add("a", every=3600, queue="q", unique_key="k")
    sent = []
    for _ in range(3):
        raw.hset(f"{ns}:x:schedules", "a:tick", 3_600_000)
        raw.zadd(f"{ns}:x:due", {"a": 3_600_000})
        with caplog.at_level(logging.INFO, "rsmq.schedules"):
            sent.append(Scheduler(rsmq, looks_at_once=True).fire_due(raises=True))
    assert sent == [1, 0, 0]
    (id,) = raw.zrange(f"{ns}:q", 0, -1)
    expected = f"schedule a: not sent, as message {id.decode()} with its unique_key is in the queue"
    assert caplog.messages == [expected] * 2


def test_workers_of_a_client_share_one_thread(rsmq, worker):
    def count_threads():
        return sum(each.name == "rsmq-scheduler" for each in threading.enumerate())

    before = count_threads()
    others = [Worker(rsmq) for _ in range(3)]
    for number, each in enumerate(others):
        rsmq.create_queue(f"other{number}")
        each.listener(f"other{number}", retry_forever=True)(lambda body: None)
    try:
        for each in (*others, worker):
            each.start()
        wait_until(lambda: count_threads() == before + 1)
        for each in others:  # also the one that has started the thread
            each.stop()
        rsmq.schedules.add("a", every=0.1, queue="q", body={}, codec=JSON)
        wait_until(lambda: worker.handled)
        assert count_threads() == before + 1
        worker.stop()
        wait_until(lambda: count_threads() == before)
        worker.handled.clear()
        worker.start()
        wait_until(lambda: worker.handled)
    finally:
        for each in others:
            each.stop()


def test_a_scheduler_sleeps_between_its_attempts_while_redis_is_away(monkeypatch):
    url = f"redis://127.0.0.1:{free_port()}/0"
    with RSMQ.from_url(url, retry_deadline=0.01) as away:
        firing = Scheduler(away, looks_at_once=True)
        firing._next_at = -math.inf  # as long after the last look
        firing.fire_due()
        assert firing._failures == 1
        sleeps = []

        class WakeUp:
            def clear(self):
                pass

            def set(self):
                pass

            def wait(self, seconds):
                sleeps.append(seconds)
                firing._is_stopping = True

        monkeypatch.setattr(firing, "_wake_up", WakeUp())
        firing._retry_at = time.monotonic() + 3600
        firing._wait()

    assert sleeps[0] > 60  # it sleeps until the next attempt


def test_a_wake_up_during_a_look_is_noted_after_it(rsmq):
    """As when the connection that reports changes is open again while a look is on its way."""
    added = []

    class Watcher:
        is_tracking = False

        def add(self, waiter):
            waiter.is_awake = False
            added.append(waiter)

        def note_receive(self, waiter):
            waiter.is_awake = False

    rsmq.create_queue("q")
    rsmq.schedules.add("often", every=0.1, queue="q")
    firing, watcher = Scheduler(rsmq), Watcher()
    firing._join(watcher)
    (waiter,) = added

    def look():
        firing._is_due = True
        if firing.fired == 0:
            waiter.reason = rsmq.namespace.due_schedules
            waiter.wake()
        return firing.fire_due()

    wait_until(look)
    firing._collect(watcher)
    firing._join(watcher)

    assert added == [waiter, waiter]  # it waits again
