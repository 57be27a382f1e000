"""Calls of tasks at their sends: what a task asks its worker to do is no error of the sender."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from rsmq.deferred_send import prepare_call
from rsmq.errors import JobFailed, JobNotEnded
from rsmq.sqlalchemy import send_on_commit
from rsmq.worker import DeadLetter, Defer, Discard, Retry


class StopForNow(Retry):
    """A class of an application."""


OUTCOMES = [
    (Retry("busy", after=20), "retrying", "Retry: busy", JobNotEnded),
    (StopForNow(), "retrying", "StopForNow", JobNotEnded),
    (Defer(after=20), "waiting", "Defer", JobNotEnded),
    (Discard("old"), "failed", "Discard: old", JobFailed),
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
            assert tasks.client.wait_for_jobs([job], timeout=5) == [status]
            assert job.cancel() == "ended"
        job = asyncio.run(send())
        assert job.ended.state == state
    assert ran == ["first"] * 3
    assert tasks.client.list_queues() == []


def test_a_dead_letter_is_a_failure_that_the_send_raises(tasks):
    task = declare(tasks, DeadLetter("wrong"), [], is_async=False)

    with tasks.immediate(), pytest.raises(DeadLetter, match="wrong"):
        task.send()


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
