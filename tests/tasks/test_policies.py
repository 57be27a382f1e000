"""A policy for each task: tasks of one queue differ in kind, retries, limits and records."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from functools import partial

import pytest

from rsmq import InvalidFormat
from rsmq.errors import JobNotTracked
from rsmq.operations.plain import plain_command
from rsmq.tasks import Tasks
from rsmq.worker import DeadLetter, Retry, current_message
from tests.scale import WAIT_SECONDS
from tests.tasks import process_app
from tests.workers.polling import wait_until


def run(tasks, **options):
    tasks.worker(**options).run(until_empty=True, timeout=WAIT_SECONDS)


def dead(tasks, queue):
    """Return the attempts of the dead letters of a queue, by the names of their tasks."""
    letters = tasks.client.peek_messages(queue)
    return {each.raw.decode().split('"')[3]: each.reason.attempts for each in letters}


def test_tasks_of_a_queue_run_where_they_belong():
    tasks = process_app.tasks
    for queue in tasks.client.list_queues():
        tasks.client.purge_queue(queue)
    jobs = [process_app.mixed_plain.send(), process_app.mixed_process.send()]
    loop_job = process_app.mixed_async.send()
    run(tasks)

    (thread_pid, thread), (child_pid, _) = (each.result(timeout=WAIT_SECONDS) for each in jobs)
    loop_pid, loop_thread = loop_job.result(timeout=WAIT_SECONDS)
    assert thread_pid == loop_pid == os.getpid() != child_pid
    assert (thread.rpartition("-")[0], loop_thread) == ("rsmq-handler", "rsmq-tasks")


def test_each_task_has_its_own_retries(tasks):
    def declare(name, error, **options):
        options = {"backoff": 0, **options}

        @tasks.task(queue="q", name=name, **options)
        def task() -> None:
            raise error

        return task

    class Refused(OSError):
        pass

    declared = [
        declare("two", OSError(), max_retries=2),
        declare("none", OSError(), max_retries=0),
        declare("five", OSError()),
        declare("never", Refused(), no_retry=Refused),
        declare("only", OSError(), retry_only=(ValueError, KeyError)),
        declare("only-this", Refused(), retry_only=OSError, max_retries=1),
        declare("but", Refused(), retry_only=OSError, no_retry=Refused),
        declare("asked", Retry(after=0), retry_only=(), max_retries=1),
        declare("elsewhere", OSError(), max_retries=0, dead_letter_queue="graveyard"),
        declare("dropped", OSError(), max_retries=1, drop=True),
    ]
    for task in declared:
        task.send()
    declared[0].options(max_retries=0).send()
    declared[1].options(max_retries=3).send()
    run(tasks, concurrency=1)

    letters = [
        (each.raw.decode().split('"')[3], each.reason.attempts)
        for each in tasks.client.peek_messages("q-dead", count=100)
    ]
    assert sorted(letters) == sorted([
        ("two", 3), ("two", 1), ("none", 1), ("none", 4), ("five", 6), ("never", 1), ("only", 1),
        ("only-this", 2), ("but", 1), ("asked", 2),
    ])  # fmt: skip
    assert dead(tasks, "graveyard") == {"elsewhere": 1}
    assert tasks.client.get_queue_attributes("q").messages == 0
    assert set(tasks.client.list_queues()) == {"q", "q-dead", "graveyard"}


def test_the_retries_of_a_send_come_before_those_of_its_task(tasks):
    attempts = []

    @tasks.task(queue="q", name="fails", max_retries=5, backoff=0)
    def fails(number: int) -> None:
        attempts.append(number)
        raise ValueError("no")

    fails.options(max_retries=1).send(1)
    fails.options(max_retries=0).send(2)
    tasks.worker().run(until_empty=True, timeout=30)
    assert [attempts.count(number) for number in (1, 2)] == [2, 1]
    assert tasks.client.get_queue_attributes("q-dead").messages == 2


def test_a_message_of_another_client_gets_the_policy_by_the_name_of_its_task(tasks, raw):
    @tasks.task(queue="q", name="once", max_retries=0)
    def once() -> None:
        raise OSError

    @tasks.task(queue="q", name="twice", max_retries=1, backoff=0)
    async def twice() -> None:
        raise OSError

    tasks.client.create_queue("q")
    bodies = [
        '{"args":{},"task":"twice"}', '{"task": "once"}', '{"task":"unknown"}', '["twice"]',
        '{"task":"once","task":"twice"}', "\\", "[" * 100_000,
    ]  # fmt: skip
    tasks.client.set_queue_attributes("q", maxsize=-1)
    for body in bodies:
        tasks.client.send_message("q", body)
    run(tasks)

    letters = {
        each.raw.decode(): each.reason.attempts
        for each in tasks.client.peek_messages("q-dead", count=100)
    }
    assert letters == dict(zip(bodies, (2, 1, 1, 1, 2, 1, 1), strict=True))


@pytest.mark.parametrize("is_strict", [False, True])
def test_the_calls_of_all_kinds_share_the_slots_of_the_queue(tasks, is_strict):
    running, most = [], []

    def begin(name):
        running.append(name)
        most.append(len(running))

    @tasks.task(queue="q", name="plain")
    def plain() -> None:
        begin("plain")
        time.sleep(0.01)
        running.remove("plain")

    @tasks.task(queue="q", name="async")
    async def asynchronous() -> None:
        begin("async")
        await asyncio.sleep(0.01)
        running.remove("async")

    tasks.queue("q", concurrency=3)
    tasks.send_many([(plain, asynchronous)[at % 2].signature() for at in range(60)])
    run(tasks, concurrency=8, strict_priority=is_strict)

    assert len(most) == 60
    assert max(most) <= 3
    assert tasks.client.get_queue_attributes("q").messages == 0


def test_one_kind_does_not_starve_the_other_in_one_slot(tasks):
    order = []

    @tasks.task(queue="q", name="plain")
    def plain() -> None:
        order.append("plain")

    @tasks.task(queue="q", name="async", max_retries=3)
    async def asynchronous() -> None:
        order.append("async")

    tasks.send_many([plain.signature()] * 300 + [asynchronous.signature()] * 300)
    tasks.send_many([plain.signature()] * 300)
    run(tasks, concurrency=1)

    assert (order.count("plain"), order.count("async")) == (600, 300)
    assert tasks.client.get_queue_attributes("q").messages == 0


def test_the_visibility_timeout_of_a_task_is_the_least(tasks):
    begun, release = threading.Barrier(3), threading.Event()

    def wait() -> None:
        begun.wait(WAIT_SECONDS)
        release.wait(WAIT_SECONDS)

    tasks.queue("q", vt=30)
    long = tasks.task(queue="q", name="long", vt=3000)(wait)
    short = tasks.task(queue="q", name="short", vt=1)(partial(wait))
    ids = [long.send().id, short.send().id]
    with tasks.worker():
        begun.wait(WAIT_SECONDS)

        def hidden_ms(id):
            message = tasks.client.get_message("q", id)
            return message.visible_at_ms - message.sent_ms

        wait_until(lambda: hidden_ms(ids[0]) >= 3_000_000)
        assert 30_000 <= hidden_ms(ids[1]) < 1_000_000
        release.set()
    run(tasks)
    assert tasks.client.get_queue_attributes("q").messages == 0


def test_the_time_limit_of_an_async_task_is_its_own(tasks):
    ended = []

    def declare(name, **options):
        @tasks.task(queue="q", name=name, max_retries=0, **options)
        async def task() -> None:
            try:
                await asyncio.sleep(30 if name == "short" else 0.1)
            except asyncio.CancelledError:
                ended.append(name)
                raise

        return task

    for task in (declare("short", max_runtime=0.05), declare("long")):
        task.send()
    run(tasks)

    assert ended == ["short"]
    assert dead(tasks, "q-dead") == {"short": 1}


def test_only_the_results_of_tracked_tasks_are_kept(tasks):
    @tasks.task(queue="q", name="tracked", track=True)
    def tracked(number: int) -> int:
        current_message().set_progress(1, 2)
        return number

    @tasks.task(queue="q", name="hour", result_ttl=7200)
    async def two_hours(number: int) -> int:
        return number

    @tasks.task(queue="q", name="untracked")
    def untracked(number: int) -> object:
        return object()  # no JSON

    jobs = [task.send(each) for each, task in enumerate((tracked, two_hours, untracked))]
    run(tasks)

    def ttl(job):
        return tasks.client.run(plain_command("PTTL", f"rsmq:q:x:job:{job.id}".encode()))

    assert [job.result(timeout=WAIT_SECONDS) for job in jobs[:2]] == [0, 1]
    assert 3_500_000 < ttl(jobs[0]) <= 3_600_000
    assert 7_100_000 < ttl(jobs[1]) <= 7_200_000
    assert ttl(jobs[2]) <= 1000
    with pytest.raises(JobNotTracked):
        jobs[2].result(timeout=WAIT_SECONDS)
    assert tasks.client.get_queue_attributes("q-dead").messages == 0


def test_policies_hold_at_the_levels_of_a_queue(tasks):
    tasks.queue("q", levels={"high": 6}, max_retries=0)

    @tasks.task(queue="q", name="plain")
    def plain() -> None:
        raise OSError

    @tasks.task(queue="q", name="async", max_retries=2, backoff=0)
    async def asynchronous() -> None:
        raise OSError

    for task in (plain, asynchronous):
        task.send()
        task.options(level="high").send()
    run(tasks)

    letters = [
        (each.raw.decode().split('"')[3], each.reason.queue, each.reason.attempts)
        for each in tasks.client.peek_messages("q-dead")
    ]
    assert sorted(letters) == [
        ("async", "q", 3), ("async", "q_high", 3), ("plain", "q", 1), ("plain", "q_high", 1),
    ]  # fmt: skip


def test_a_running_async_task_beside_plain_ones_can_be_cancelled(tasks):
    begun = threading.Event()

    @tasks.task(queue="q", name="plain")
    def plain() -> None: ...

    @tasks.task(queue="q", name="async", track=True)
    async def asynchronous() -> None:
        begun.set()
        await asyncio.sleep(60)

    plain.send()
    job = asynchronous.send()
    with tasks.worker():
        assert begun.wait(WAIT_SECONDS)
        assert job.cancel() == "requested"
        wait_until(lambda: job.status().is_ended)

    assert job.status().state == "cancelled"


def test_waiting_calls_of_all_kinds_are_released_at_the_stop(tasks):
    begun, release = threading.Event(), threading.Event()

    @tasks.task(queue="q", name="plain")
    def plain() -> None:
        begun.set()
        release.wait(WAIT_SECONDS)

    @tasks.task(queue="q", name="async", max_retries=1)
    async def asynchronous() -> None: ...

    plain.send()
    worker = tasks.worker(concurrency=1)
    with worker:
        assert begun.wait(WAIT_SECONDS)
        tasks.send_many([each.signature() for each in (asynchronous, plain) for _ in range(5)])
        worker.stop_listener("q")
        release.set()
    run(tasks)

    assert tasks.client.get_queue_attributes("q").messages == 0


def test_what_belongs_to_a_queue_is_passed_once_or_the_same_at_each_task(tasks):
    tasks.queue("q", concurrency=8, max_retries=1)
    first = tasks.task(queue="q", name="first", levels={"high": 6}, max_retries=3)(lambda: None)
    tasks.task(queue="q", name="second", levels={"high": 6}, concurrency=8)(lambda: 1)
    text = r"concurrency belongs to queue 'q', and tasks.queue\('q'\) has another one than third"
    with pytest.raises(InvalidFormat, match=text):
        tasks.task(queue="q", name="third", concurrency=9)(lambda: 2)
    with pytest.raises(InvalidFormat, match=r"levels belongs to queue 'q', and .* than first"):
        tasks.queue("q", levels={"low": 1})
    with pytest.raises(TypeError, match=r"has no option 'concurency'\. Did you mean 'concurrency'"):
        tasks.queue("q", concurency=1)

    assert first.options(level="high").send().queue == "q_high"
    tasks.queue("q")  # as when its module is loaded again
    tasks.queue("q", concurrency=8, track=True)
    assert first.is_tracked
    tasks.queue("another", concurrency=1)
    assert tasks.worker().queues == ["q", "q_high"]


def test_a_queue_without_tasks_has_no_listener():
    with Tasks.from_url("memory://no-tasks") as tasks:
        tasks.queue("q", concurrency=8)
        with pytest.raises(InvalidFormat, match="There is no task"):
            tasks.worker()


def test_tasks_with_the_same_options_need_no_parts(tasks):
    for name in ("first", "second"):
        tasks.task(queue="q", name=name, max_retries=2)(lambda: None)
    [listener] = tasks.worker()._listeners.values()
    assert listener.parts == ()

    tasks.task(queue="q", name="third", max_retries=3)(lambda: None)
    [listener] = tasks.worker()._listeners.values()
    assert len(listener.parts) == 2


def test_a_dead_letter_that_a_task_asks_for_has_the_queue_of_its_task(tasks):
    @tasks.task(queue="q", name="first", dead_letter_queue="other")
    def first() -> None:
        raise DeadLetter("wrong")

    @tasks.task(queue="q", name="second")
    def second() -> None:
        raise DeadLetter("wrong")

    first.send()
    second.send()
    run(tasks)

    assert dead(tasks, "other") == {"first": 1}
    assert dead(tasks, "q-dead") == {"second": 1}
