"""What the tests of moving over rely on, of our worker of the BRPOPLPUSH pattern."""

from __future__ import annotations

import signal

from tests.workers.until import until


def test_tasks_are_done_in_order_and_skipped_without_a_handler(brpoplpush, raw, ns):
    raw.lpush(f"{ns}:work", "mail:1", "no event at all", "mail:2:a", "other:3", "mail:")
    brpoplpush()
    until(lambda: raw.llen(f"{ns}:log") == 3 and not raw.exists(f"{ns}:w1-queue"))

    assert raw.lrange(f"{ns}:log", 0, -1) == [b"1", b"2:a", b""]
    assert raw.lrange(f"{ns}:skipped", 0, -1) == [b"other:3", b"no event at all"]
    assert not raw.exists(f"{ns}:work")


def test_a_task_outlives_a_kill_in_the_list_of_its_worker(brpoplpush, raw, ns):
    raw.lpush(f"{ns}:work", "mail:1", "mail:2")
    first = brpoplpush(seconds=60)
    until(lambda: raw.lrange(f"{ns}:w1-queue", 0, -1) == [b"mail:1"])
    first.kill()
    first.wait(10)
    brpoplpush()
    until(lambda: raw.llen(f"{ns}:log") == 2 and not raw.exists(f"{ns}:w1-queue"))

    assert raw.lrange(f"{ns}:log", 0, -1) == [b"1", b"2"]


def test_an_interrupt_ends_it_when_its_task_is_done(brpoplpush, raw, ns):
    raw.lpush(f"{ns}:work", "mail:1", "mail:2")
    worker = brpoplpush(seconds=0.3)
    until(lambda: raw.exists(f"{ns}:log:begun"))
    worker.send_signal(signal.SIGINT)

    assert worker.wait(10) == 0
    assert raw.lrange(f"{ns}:log", 0, -1) == [b"1"]
    assert raw.lrange(f"{ns}:work", 0, -1) == [b"mail:2"]
    assert not raw.exists(f"{ns}:w1-queue")


def test_an_interrupt_ends_one_that_waits(brpoplpush, raw, ns):
    raw.lpush(f"{ns}:work", "mail:1")
    worker = brpoplpush()
    until(lambda: raw.llen(f"{ns}:log") and not raw.exists(f"{ns}:w1-queue"))
    worker.send_signal(signal.SIGINT)

    assert worker.wait(10) == 0
