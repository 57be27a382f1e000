"""Middleware of Tasks: every worker of the tasks runs it, and it sees each outcome once."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import contextmanager

import pytest

from rsmq import NotEmptyInTime
from rsmq.worker import DeadLetter, Defer, Discard, Middleware, Retry, current_message
from rsmq.worker.importing import import_worker
from rsmq.worker.middlewares import CallContext
from tests.scale import WAIT_SECONDS
from tests.tasks import process_app

customer = contextvars.ContextVar("customer", default=None)


class Outcomes(Middleware):
    """Notes outcomes, with the attempt and what the handler has left in its context."""

    def __init__(self):
        self.noted = []

    def on_success(self, message):
        self.noted.append(("success", message.attempt))

    def on_failure(self, error, message, is_final):
        assert current_message().id == message.id
        self.noted.append(("failure", str(error), message.attempt, is_final, customer.get()))

    def on_retry(self, error, message, after):
        self.noted.append(("retry", type(error).__name__, message.attempt, after))


@pytest.fixture
def outcomes(tasks):
    outcomes = Outcomes()
    tasks.middleware(outcomes)
    return outcomes


def declare(tasks, errors, *, is_async, **options):
    """Return a task that raises these errors, one at each attempt, and then returns."""
    left = iter(errors)

    def plain() -> None:
        customer.set("ann")
        error = next(left, None)
        if error is not None:
            raise error

    async def asynchronous() -> None:
        plain()

    options = {"max_retries": 2, "backoff": 0.0, **options}
    return tasks.task(queue="q", name="t", **options)(asynchronous if is_async else plain)


RETRY = ("retry", "OSError", 1, 0.0)
CASES = {
    "success": ([], [("success", 1)]),
    "retried": (
        [OSError("a")],
        [("failure", "a", 1, False, "ann"), RETRY, ("success", 2)],
    ),
    "last": (
        [OSError("a"), OSError("b"), OSError("c")],
        [
            ("failure", "a", 1, False, "ann"), RETRY,
            ("failure", "b", 2, False, "ann"), ("retry", "OSError", 2, 0.0),
            ("failure", "c", 3, True, "ann"),
        ],
    ),
    "Retry": ([Retry(after=0)], [("retry", "Retry", 1, 0.0), ("success", 2)]),
    "Retry for ever": (
        [Retry("x", after=0)] * 3,
        [
            ("retry", "Retry", 1, 0.0), ("retry", "Retry", 2, 0.0),
            ("failure", "x", 3, True, "ann"),
        ],
    ),
    "Defer": ([Defer(after=0.1)], [("success", 1)]),
    "Discard": ([Discard("old")], []),
    "DeadLetter": ([DeadLetter("wrong")], [("failure", "wrong", 1, True, "ann")]),
}  # fmt: skip


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("errors", "expected"), CASES.values(), ids=CASES)
def test_each_outcome_is_reported_once_and_only_failures_as_such(
    tasks, outcomes, errors, expected, is_async
):
    declare(tasks, errors, is_async=is_async).send()
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)

    assert outcomes.noted == expected


def test_a_failure_is_reported_that_no_handler_has_seen(tasks, outcomes):
    declare(tasks, [], is_async=False, drop=True)
    tasks.client.create_queue("q")
    tasks.client.send_message("q", '{"task":"unknown"}')
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)

    [(hook, text, attempt, is_final, _)] = outcomes.noted
    assert (hook, attempt, is_final) == ("failure", 1, True)
    assert "there is no task 'unknown'" in text


def test_a_hook_that_fails_is_logged_and_harms_nothing(tasks, caplog):
    class Broken(Middleware):
        def on_failure(self, error, message, is_final):
            raise ValueError("the hook is broken")

        def on_success(self, message):
            raise ValueError("the hook is broken")

    tasks.middleware(Broken())
    declare(tasks, [OSError("a")], is_async=False).send()
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)

    broken = [each for each in caplog.records if "Broken.on_" in each.getMessage()]
    assert len(broken) == 2
    assert tasks.client.get_queue_attributes("q").messages == 0


def test_a_failed_commit_is_reported_with_the_context_of_its_call(tasks, outcomes):
    @contextmanager
    def refuse():
        customer.set("eve")
        yield
        raise OSError("the commit was refused")

    @tasks.task(queue="q", name="t", max_retries=0)
    def task() -> None: ...

    tasks.middleware(CallContext(lambda message: refuse()))
    task.send()
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)

    assert outcomes.noted == [("failure", "the commit was refused", 1, True, "eve")]


def test_the_order_is_that_of_the_tasks_and_then_of_the_worker(tasks):
    calls = []

    def naming(name):
        class Naming(Middleware):
            def before_handle(self, message):
                calls.append(name)

        return Naming()

    @tasks.task(queue="q", name="t")
    def task() -> None: ...

    tasks.middleware(naming("a"), naming("b"))
    tasks.middleware(naming("c"))
    task.send()
    tasks.worker(middleware=[naming("d")]).run(until_empty=True, timeout=WAIT_SECONDS)
    task.send()
    tasks.run_all()

    assert "".join(calls) == "abcdabc"


def test_the_worker_of_the_program_has_it():
    outcomes = Outcomes()
    process_app.tasks.middleware(outcomes)

    assert import_worker("tests.tasks.process_app:tasks").find(Outcomes) is outcomes


def test_arun_all_runs_async_tasks_in_this_event_loop(tasks, outcomes):
    threads = []

    @tasks.task(queue="loop", name="loop", track=True)
    async def in_loop(number: int) -> int:
        threads.append(threading.get_ident())
        await asyncio.sleep(0)
        if number < 3:
            await in_loop.asend(number + 1)
        return number

    @tasks.task(queue="thread", name="thread")
    def in_thread() -> None:
        threads.append(threading.get_ident())

    async def run():
        job = await in_loop.asend(1)
        await in_thread.asend()
        await tasks.arun_all()
        result = await job.result(timeout=WAIT_SECONDS)
        await tasks.close_asyncio()
        return result, threading.get_ident()

    result, own = asyncio.run(run())
    assert result == 1
    assert threads.count(own) == 3
    assert len(threads) == 4
    assert outcomes.noted == [("success", 1)] * 4


def test_arun_all_raises_the_first_error_and_that_of_the_time(tasks):
    @tasks.task(queue="q", name="t", max_retries=1, no_retry=OSError)
    async def task(text: str) -> None:
        if text:
            raise OSError(text)
        raise Retry(after=3600)

    async def run(text, seconds):
        await task.asend(text)
        try:
            await tasks.arun_all(timeout=seconds)
        finally:
            await tasks.close_asyncio()

    with pytest.raises(OSError, match="away"):
        asyncio.run(run("away", 30))
    with pytest.raises(NotEmptyInTime):
        asyncio.run(run("", 0))


def test_a_cancelled_arun_all_ends_with_its_worker(tasks):
    begun, ended = threading.Event(), []

    @tasks.task(queue="q", name="t")
    async def task() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("task")

    async def run():
        await task.asend()
        running = asyncio.ensure_future(tasks.arun_all(timeout=None))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    tasks.client.create_queue("q", exist_ok=True)
    worker = tasks.worker
    tasks.worker = lambda: worker(grace=0)
    asyncio.run(run())

    assert ended == ["task"]
    assert tasks.client.get_queue_attributes("q").messages == 1
