"""The properties of the BRPOPLPUSH worker on which the migration tests rely."""

from __future__ import annotations

import signal

from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until


def test_tasks_are_handled_in_order_and_skipped_without_a_handler(start_brpoplpush_worker, raw, ns):
    raw.lpush(f"{ns}:work", "mail:1", "no event at all", "mail:2:a", "other:3", "mail:")
    start_brpoplpush_worker()
    wait_until(lambda: raw.llen(f"{ns}:log") == 3 and not raw.exists(f"{ns}:w1-queue"))

    assert raw.lrange(f"{ns}:log", 0, -1) == [b"1", b"2:a", b""]
    assert raw.lrange(f"{ns}:skipped", 0, -1) == [b"other:3", b"no event at all"]
    assert not raw.exists(f"{ns}:work")


def test_task_survives_a_kill_in_the_list_of_its_worker(start_brpoplpush_worker, raw, ns):
    raw.lpush(f"{ns}:work", "mail:1", "mail:2")
    first = start_brpoplpush_worker(seconds=60)
    wait_until(lambda: raw.lrange(f"{ns}:w1-queue", 0, -1) == [b"mail:1"])
    first.kill()
    first.wait(WAIT_SECONDS)
    start_brpoplpush_worker()
    wait_until(lambda: raw.llen(f"{ns}:log") == 2 and not raw.exists(f"{ns}:w1-queue"))

    assert raw.lrange(f"{ns}:log", 0, -1) == [b"1", b"2"]


def test_interrupt_ends_the_worker_after_its_task(start_brpoplpush_worker, raw, ns):
    raw.lpush(f"{ns}:work", "mail:1", "mail:2")
    worker = start_brpoplpush_worker(seconds=0.3)
    wait_until(lambda: raw.exists(f"{ns}:log:begun"))
    worker.send_signal(signal.SIGINT)

    assert worker.wait(WAIT_SECONDS) == 0
    assert raw.lrange(f"{ns}:log", 0, -1) == [b"1"]
    assert raw.lrange(f"{ns}:work", 0, -1) == [b"mail:2"]
    assert not raw.exists(f"{ns}:w1-queue")


def test_interrupt_ends_a_waiting_worker(start_brpoplpush_worker, raw, ns):
    raw.lpush(f"{ns}:work", "mail:1")
    worker = start_brpoplpush_worker()
    wait_until(lambda: raw.llen(f"{ns}:log") and not raw.exists(f"{ns}:w1-queue"))
    worker.send_signal(signal.SIGINT)

    assert worker.wait(WAIT_SECONDS) == 0
