"""Tasks with ``track=True``: their handles, their results, and the records in Redis."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import itertools
import threading

import pydantic
import pytest

from rsmq import InvalidFormat
from rsmq.errors import JobFailed, JobNotTracked, NotTracked
from rsmq.headers import current_headers, use_headers
from rsmq.jobs import AsyncJobHandle, JobHandle, ReportedProgress
from rsmq.operations.plain import plain_command
from rsmq.tasks import RESULT
from rsmq.tasks import converters as converters_module
from rsmq.worker import Middleware, current_message
from tests.scale import WAIT_SECONDS

_numbers = itertools.count()


class Page(pydantic.BaseModel):
    title: str
    at: dt.date = dt.date(2026, 1, 1)


def record(tasks, job):
    """Return the fields of the record of a job, as other clients see them."""
    key = f"rsmq:{job.queue}:x:job:{job.id}".encode()
    fields = tasks.client.run(plain_command("HGETALL", key))
    stored = {name.decode(): value.decode() for name, value in fields.items()}
    return stored, tasks.client.run(plain_command("PTTL", key))


def test_a_job_has_the_result_of_the_function(tasks):
    @tasks.task(queue="q", name="t", track=True, result_ttl=60)
    def title(page: Page, days: int) -> Page:
        return Page(title=page.title.upper(), at=page.at + dt.timedelta(days))

    job = title.send(Page(title="a"), 1)
    assert isinstance(job, JobHandle)
    assert record(tasks, job)[0] == {"state": "waiting"}
    assert job.status().state == "waiting"
    tasks.run_all()

    stored, ttl = record(tasks, job)
    assert (stored["state"], stored["result"]) == (
        "succeeded", '{"title": "A", "at": "2026-01-02"}',
    )  # fmt: skip
    assert 0 < ttl <= 60_000
    assert job.result(timeout=WAIT_SECONDS) == Page(title="A", at=dt.date(2026, 1, 2))
    assert job.status().result() == job.result(timeout=WAIT_SECONDS)
    # Other programs get the JSON.
    assert tasks.client.job("q", job.id).result() == {"title": "A", "at": "2026-01-02"}


def test_async_tasks_and_many_of_them_have_results_too(tasks):
    @tasks.task(queue="q", name="t", track=True, levels={"high": 2})
    async def double(number: int) -> int:
        return 2 * number

    async def run():
        jobs = [await double.asend(1), *await tasks.asend_many([double.signature(2)])]
        jobs.append(await double.options(level="high").asend(3))
        await asyncio.to_thread(tasks.run_all)
        assert isinstance(jobs[0], AsyncJobHandle)
        results = [await jobs[0], *[await each.result(WAIT_SECONDS) for each in jobs[1:]]]
        await tasks.aclose()
        return results

    assert asyncio.run(run()) == [2, 4, 6]


def test_the_result_of_an_untracked_task_is_an_error_at_once(tasks):
    @tasks.task(queue="q", name="t")
    def untracked() -> int:
        return 1

    job = untracked.send()
    with pytest.raises(JobNotTracked, match="track=True"):
        job.result()
    with pytest.raises(JobNotTracked):
        tasks.client.wait_for_jobs([job])
    assert job.status().state == "waiting"
    tasks.run_all()
    with pytest.raises(JobNotTracked):
        job.status()
    assert job.cancel() == "ended"
    assert record(tasks, job)[0] == {}


def test_the_cancel_of_an_untracked_task_that_runs_is_refused_and_changes_nothing(tasks):
    running, go_on = threading.Event(), threading.Event()

    @tasks.task(queue="q", name="t")
    def untracked() -> None:
        running.set()
        go_on.wait(WAIT_SECONDS)

    async def cancel():
        handle = AsyncJobHandle(tasks.aio, "q", job.id, is_tracked=False)
        try:
            await handle.cancel()
        finally:
            await tasks.close_asyncio()

    job = untracked.send()
    assert untracked.send().cancel() == "cancelled"  # it waits
    worker = tasks.worker(concurrency=1)
    worker.start()
    assert running.wait(WAIT_SECONDS)
    with pytest.raises(JobNotTracked, match="no worker cancels it while it runs"):
        job.cancel()
    with pytest.raises(JobNotTracked):
        asyncio.run(cancel())
    assert record(tasks, job)[0] == {}
    go_on.set()
    worker.stop()
    assert job.cancel() == "ended"


def test_a_task_is_tracked_if_its_queue_is(tasks):
    @tasks.task(queue="q", name="first")
    def first() -> int:
        return 1

    @tasks.task(queue="q", name="second", result_ttl=5)
    def second() -> int:
        return 2

    tasks.queue("q", track=True)
    jobs = tasks.send_many([first.signature(), second.signature()])
    tasks.run_all()
    assert [each.result(WAIT_SECONDS) for each in jobs] == [1, 2]


@pytest.mark.parametrize("has_pydantic", [True, False])
def test_a_result_that_is_not_of_its_type_is_a_failure_without_a_retry(
    tasks, monkeypatch, has_pydantic
):
    @dataclasses.dataclass
    class Sum:
        total: int

    if not has_pydantic:
        monkeypatch.setattr(
            "rsmq.tasks.pydantic_arguments.PydanticArgument", converters_module.PlainArgument
        )
    calls = []

    @tasks.task(queue="q", name="t", track=True)
    def add(total: int, is_wrong: bool) -> Sum:
        calls.append(total)
        return "no sum" if is_wrong else Sum(total)

    add.arguments._types = {"total": int, "is_wrong": bool, "return": Sum}  # a local class
    good, wrong = add.send(1, False), add.send(2, True)
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)
    assert good.result(WAIT_SECONDS) == Sum(1)
    with pytest.raises(JobFailed, match="the result of task t can't be stored"):
        wrong.result(WAIT_SECONDS)
    assert sorted(calls) == [1, 2]
    # A type that has changed since.
    add.arguments._types["return"] = int
    del add.arguments._result_converter
    with pytest.raises(InvalidFormat, match="Invalid result format: t"):
        good.result(WAIT_SECONDS)


def test_an_annotation_of_a_result_that_no_json_has_is_refused_if_it_is_stored(tasks):
    @tasks.task(queue="q", name="untracked")
    def untracked() -> threading.Lock: ...

    tasks.worker()

    @tasks.task(queue="tracked", name="tracked", track=True)
    def tracked() -> threading.Thread: ...

    with pytest.raises(InvalidFormat, match="result: Thread, of task tracked"):
        tasks.worker()


def test_the_record_says_succeeded_when_the_next_task_is_sent(tasks):
    ran, states = [], []

    @tasks.task(queue="a", name="first", track=True, result_ttl=60)
    def first(number: int) -> Page:
        current_message().set_progress(3, 3, "all")
        return Page(title=str(number))

    @tasks.task(queue="b", name="second", track=True)
    def second(page: Page) -> None:
        ran.append(page)

    class Ends(Middleware):
        def after_handle(self, message, error, seconds):
            note(message)

        def after_delete(self, messages):
            note(messages[0])

    def note(message):
        if message.queue == "a":
            left = len(tasks.client.peek_messages("a"))
            total = tasks.client.get_queue_attributes("b").total_sent
            states.append((record(tasks, job)[0]["state"], left, total))

    tasks.client.create_queue("b")
    job = first.options(then=second.signature(RESULT)).send(1)
    tasks.worker(middleware=[Ends()]).run(until_empty=True, timeout=WAIT_SECONDS)

    assert states == [("running", 1, 0), ("succeeded", 0, 1)]
    assert 0 < record(tasks, job)[1] <= 60_000
    assert job.result(WAIT_SECONDS) == Page(title="1")
    assert job.progress() == ReportedProgress(3, 3, "all")
    assert ran == [Page(title="1")]


def test_items_of_a_map_have_results(tasks):
    @tasks.task(queue="items", name="item", track=True)
    def item(number: int) -> int:
        return number * number

    @tasks.task(queue="ends", name="end")
    def end() -> None: ...

    jobs = tasks.map(item, range(5), then=end.signature())
    tasks.run_all()
    statuses = tasks.client.wait_for_jobs(jobs, timeout=WAIT_SECONDS)
    assert [each.result() for each in statuses] == [0, 1, 4, 9, 16]
    assert tasks.client.get_queue_attributes("ends").total_sent == 1


def test_an_immediate_job_has_its_result_at_once(tasks):
    @tasks.task(queue="q", name="t", track=True)
    def page(title: str) -> Page:
        return Page(title=title)

    @tasks.task(queue="a", name="async", track=True)
    async def double(number: int) -> int:
        return 2 * number

    @tasks.task(queue="u", name="u")
    def untracked() -> None: ...

    async def run():
        return await (await double.asend(2))

    with tasks.immediate():
        job = page.send("a")
        assert job.result() == Page(title="a")
        assert job.status().state == "succeeded"
        assert double.send(1).result() == 2
        assert asyncio.run(run()) == 4
        jobs = tasks.send_many([page.signature("b")])
        [status] = tasks.client.wait_for_jobs(jobs)
        assert status.result() == Page(title="b")
        with pytest.raises(JobNotTracked):
            untracked.send().result()
    assert tasks.client.list_queues() == []


def test_an_immediate_call_has_a_message_with_progress(tasks):
    seen = []

    @tasks.task(queue="q", track=True)
    def measure(number: int) -> int:
        message = current_message()
        seen.append((message.queue, message.id, message.attempt, message.lease_lost))
        message.set_progress(number, 10, "measured")
        assert current_headers() == {"tenant": "a"}
        return number

    @tasks.task(queue="a")
    async def report(number: int, total: int) -> None:
        message = current_message()
        seen.append((message.queue, number, total, message.body["task"]))
        with pytest.raises(NotTracked):
            message.set_progress(1)
        await asyncio.to_thread(measure.send, 7)
        seen.append(current_message() is message)

    with tasks.immediate(), use_headers({"tenant": "a"}):
        job = measure.options(then=report.signature(RESULT, total=5)).send(3)
    assert job.status().progress == ReportedProgress(3, 10, "measured")
    assert seen[0] == ("q", job.id, 1, False)
    assert seen[1] == ("a", 3, 5, report.name)
    assert seen[2][0] == "q"
    assert seen[2][1] not in {job.id, ""}
    assert seen[3] is True
    assert current_message() is None
