"""Calls of tasks at their sends: they end as a worker would end them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from rsmq import RSMQ, AsyncRSMQ, InvalidFormat
from rsmq.errors import JobFailed, JobNotEnded, JobNotFound
from rsmq.jobs.status import ReportedProgress
from rsmq.metrics import Metrics
from rsmq.sqlalchemy import send_on_commit
from rsmq.tasks.deferred_send import prepare_call
from rsmq.worker import DeadLetter, Defer, Discard, Middleware, Retry, current_message
from rsmq.worker.middlewares import RateLimit
from tests.scale import WAIT_SECONDS


class StopForNow(Retry):
    """A class of an application."""


OUTCOMES = [
    (Retry("busy", after=20), "retrying", "Retry: busy", JobNotEnded),
    (StopForNow(), "retrying", "StopForNow", JobNotEnded),
    (Defer(after=20), "waiting", "Defer", JobNotEnded),
    (Discard("old"), "failed", "Discard: old", JobFailed),
    (DeadLetter("wrong"), "failed", "DeadLetter: wrong", JobFailed),
]


def declare(tasks, error, ran, *, is_async):
    @tasks.task(queue="next", name="next")
    def follow() -> None:
        ran.append("next")

    def plain() -> None:
        ran.append("first")
        raise error

    async def asynchronous() -> None:
        plain()

    function = asynchronous if is_async else plain
    return tasks.task(queue="q", name="t", track=True)(function).options(then=follow.signature())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("error", "state", "shown", "raised"), OUTCOMES)
def test_an_outcome_that_a_task_asks_for_is_the_state_of_its_job(
    tasks, error, state, shown, raised, is_async
):
    ran = []
    task = declare(tasks, error, ran, is_async=is_async)

    async def send():
        return await task.asend()

    with tasks.immediate():
        for job in (task.send(), tasks.send_many([task.signature()])[0]):
            status = job.status()
            assert (status.state, status.error) == (state, shown)
            assert (status.ended_at is None) is (raised is JobNotEnded)
            with pytest.raises(raised):
                job.result()
            assert tasks.client.wait_for_jobs([job], timeout=WAIT_SECONDS) == [status]
            assert job.cancel() == "ended"
        job = asyncio.run(send())
        assert job.ended.state == state
    assert ran == ["first"] * 3
    assert tasks.client.list_queues() == []


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [each[0] for each in OUTCOMES])
def test_an_outcome_that_a_task_asks_for_is_raised_if_the_test_wants_it(tasks, error, is_async):
    ran = []
    task = declare(tasks, error, ran, is_async=is_async)

    with tasks.immediate(raise_=True), pytest.raises(type(error)) as raised:
        task.send()
    with tasks.immediate():
        task.send()

    assert raised.value is error
    assert ran == ["first"] * 2


def test_jobs_are_read_by_other_clients_of_the_program(tasks):
    @tasks.task(queue="q", name="t", track=True)
    def double(number: int) -> int:
        current_message().set_progress(number, 9)
        if number > 5:
            raise Discard("too large")
        return 2 * number

    @tasks.task(queue="untracked", name="u")
    def ignore() -> None: ...

    async def read(job):
        async with AsyncRSMQ.from_url("memory://another") as client:
            return await client.job(job.queue, job.id).status()

    with tasks.immediate():
        done, failed, ignored = double.send(4), double.send(6), ignore.send()
    client = RSMQ.from_url("memory://another")
    with client:
        assert client.job("q", done.id).result() == 8
        assert client.job("q", done.id).progress() == ReportedProgress(4, 9)
        with pytest.raises(JobFailed, match="Discard: too large"):
            client.job("q", failed.id).result(timeout=WAIT_SECONDS)
        assert client.wait_for_jobs([client.job("q", done.id)])[0].state == "succeeded"
        for queue, id in (
            ("other", done.id),
            ("untracked", ignored.id),
            ("q", "immediate-0123456789"),
        ):
            with pytest.raises(JobNotFound):
                client.job(queue, id).status()
    assert asyncio.run(read(done)).state == "succeeded"
    assert tasks.client.list_queues() == []


class Recorder(Middleware):
    """Notes the calls of hooks, with the message that is current then."""

    def __init__(self, calls, name=""):
        self.calls, self.name = calls, name

    def _note(self, hook, *values):
        current = current_message()
        self.calls.append((f"{self.name}{hook}", *values, current and current.queue))

    def before_handle(self, message):
        self._note("before", message.body["args"])

    def after_handle(self, message, error, seconds):
        self._note("after", type(error).__name__)

    def on_success(self, message):
        self._note("success", message.queue)

    def on_failure(self, error, message, is_final):
        self._note("failure", type(error).__name__, is_final)

    def on_retry(self, error, message, after):
        self._note("retry", type(error).__name__, after)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, [("success", "q", "q")]),
        (OSError("away"), [("failure", "OSError", True, "q")]),
        (DeadLetter("wrong"), [("failure", "DeadLetter", True, "q")]),
        (Retry(after=3), [("retry", "Retry", 3.0, "q")]),
        (Defer(), []),
        (Discard(), []),
    ],
)
def test_hooks_run_around_each_call_and_for_its_outcome(tasks, error, expected, is_async):
    def plain(number: int) -> None:
        if error is not None:
            raise error

    async def asynchronous(number: int) -> None:
        plain(number)

    calls = []
    task = tasks.task(queue="q", name="t")(asynchronous if is_async else plain)
    tasks.middleware(Recorder(calls))
    tasks.middleware(RateLimit(1, 60), Metrics(registry=CollectorRegistry()))  # these need a worker
    with tasks.immediate(), suppress(OSError):
        task.send(1)

    around = [("before", {"number": 1}, "q"), ("after", type(error).__name__, "q")]
    assert calls == around + expected


def test_hooks_run_in_their_order_and_may_refuse_a_call_or_fail_it(tasks):
    calls, ran = [], []

    class Commit(Middleware):
        def before_handle(self, message):
            if message.body["args"]["number"] == 1:
                raise Discard("refused")

        def after_handle(self, message, error, seconds):
            if error is None:
                message.fail(OSError("the commit was refused"))

    @tasks.task(queue="next", name="next")
    def follow() -> None:
        ran.append("next")

    @tasks.task(queue="q", name="t", track=True)
    def count(number: int) -> None:
        ran.append(number)

    tasks.middleware(Recorder(calls, "first "), Commit())
    tasks.middleware(Recorder(calls, "last "))
    task = count.options(then=follow.signature())
    with tasks.immediate():
        assert task.send(1).status().error == "Discard: refused"
        with pytest.raises(OSError, match="the commit was refused"):
            task.send(2)

    assert ran == [2]
    assert [each[0] for each in calls] == [
        "first before", "last after", "first after",
        "first before", "last before", "last after", "first after", "last failure", "first failure",
    ]  # fmt: skip
    assert calls[6][1] == "OSError"


def test_only_middleware_can_be_added(tasks):
    with pytest.raises(InvalidFormat, match="It is an object of a subclass of Middleware"):
        tasks.middleware(Recorder)


@pytest.fixture
def counted(tasks):
    ran = []

    @tasks.task(queue="q", name="t")
    def count(number: int) -> None:
        ran.append(number)

    return count, ran


def test_a_send_on_commit_is_immediate_also_if_the_commit_comes_later(tasks, counted):
    count, ran = counted
    engine = create_engine("sqlite://")
    with Session(engine) as session:
        with tasks.immediate():
            session.execute(text("SELECT 1"))
            send_on_commit(session, count.signature(1))
        assert ran == []
        session.commit()
        assert ran == [1]
        assert tasks.client.list_queues() == []
        send_on_commit(session, count.signature(2))
        session.commit()
    engine.dispose()
    assert ran == [1]
    assert tasks.client.list_queues() == ["q"]


def test_a_later_send_of_asyncio_is_immediate_too(tasks, counted):
    count, ran = counted
    with tasks.immediate():
        send = prepare_call(count.signature(1), is_async=True)
    asyncio.run(send())

    assert ran == [1]
    assert tasks.client.list_queues() == []
