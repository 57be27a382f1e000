"""Workers in the event loop of a program that ends them in its own way, as web servers do."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rsmq.worker import list_workers
from tests.workers.polling import wait_until

ROOT = Path(__file__).parents[2]

#: A program with the signal handling of uvicorn: a signal ends its server, and is raised again with
#: the earlier handlers when the lifespan has ended.
SERVER = """
import asyncio, signal, sys
from contextlib import asynccontextmanager, suppress
from rsmq import RSMQ
from rsmq.worker import Worker

worker = Worker(RSMQ.from_url({url!r}, ns={ns!r}), name="w", grace=float(sys.argv[1]))


@worker.listener("q", vt=60, max_retries=0, drop=True)
async def handle(body):
    print("begun", flush=True)
    await asyncio.sleep(float(body))


@asynccontextmanager
async def lifespan(app):
    running = asyncio.create_task(worker.run_async())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def serve():
    captured = []
    must_end = asyncio.Event()

    def handle_signal(number, frame):
        captured.append(number)
        loop.call_soon_threadsafe(must_end.set)

    loop = asyncio.get_running_loop()
    numbers = signal.SIGINT, signal.SIGTERM
    before = {{each: signal.signal(each, handle_signal) for each in numbers}}
    async with lifespan(None):
        await must_end.wait()
    for number, handler in before.items():
        signal.signal(number, handler)
    for number in captured:
        signal.raise_signal(number)


asyncio.run(serve())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("grace", "seconds"), [(30, 0.3), (0, 60)])
def test_a_worker_in_the_lifespan_of_a_server_stops_before_its_process(
    env, rsmq, number, grace, seconds
):
    env.create_queues("q")
    id = rsmq.send_message("q", str(seconds))
    program = subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", SERVER.format(url=env.url, ns=env.ns), str(grace)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert program.stdout.readline() == "begun\n"
        program.send_signal(number)
        _, errors = program.communicate()
    finally:
        program.kill()

    assert program.returncode == -number
    assert "never retrieved" not in errors
    assert "was destroyed" not in errors
    assert env.in_flight("w") == {}
    assert list_workers(rsmq) == []
    if grace:
        assert env.is_empty("q")
    else:
        assert rsmq.get_queue_attributes("q").visible_messages == 1
        assert env.raw.hget(f"{env.ns}:q:x:unbegun", id) == b"1"


def add_long_handler(worker):
    begun = asyncio.Event()

    @worker.listener("q", vt=60, max_retries=0, drop=True)
    async def handle(body):
        begun.set()
        await asyncio.sleep(60)

    return begun


def test_a_program_that_cancels_all_tasks_uses_up_no_attempt(env, rsmq, caplog):
    """asyncio.run does so at its end."""
    env.create_queues("q")
    id = rsmq.send_message("q", "x")
    worker = env.create_worker(name="w")
    problems = []

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: problems.append(context))
        begun = add_long_handler(worker)
        running = asyncio.create_task(worker.run_async())
        await begun.wait()
        return running

    running = asyncio.run(main())

    assert running.cancelled()
    assert not worker.health().is_running
    assert problems == []
    numbers = worker.numbers
    assert (numbers.deferred + numbers.released, numbers.failed, numbers.dropped) == (1, 0, 0)
    assert env.raw.hget(f"{env.ns}:q:x:unbegun", id) == b"1"
    assert env.in_flight("w") == {}
    assert not any(record.levelno >= logging.ERROR for record in caplog.records)


@pytest.mark.parametrize("times", [2, 5])
def test_run_async_that_is_cancelled_repeatedly_ends_when_the_worker_has_stopped(env, rsmq, times):
    env.create_queues("q")
    worker = env.create_worker(name="w", grace=0.3)
    id = rsmq.send_message("q", "x")

    async def main():
        begun = add_long_handler(worker)
        running = asyncio.create_task(worker.run_async())
        await begun.wait()
        for _ in range(times):
            running.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not worker.health().is_running
        assert env.in_flight("w") == {}
        assert env.raw.hget(f"{env.ns}:q:x:unbegun", id) == b"1"

    asyncio.run(main())


def test_a_handler_whose_task_is_cancelled_is_called_again(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()
    calls = []

    @worker.listener("q", backoff=0, max_retries=0, drop=True)
    async def handle(body, message):
        calls.append((message.receive_count, message.attempt))
        if len(calls) < 3:
            asyncio.current_task().cancel()
            await asyncio.sleep(60)

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)

    assert calls == [(1, 1), (2, 1), (3, 1)]
    assert worker.numbers.deferred == 2


@pytest.mark.parametrize("batch", [None, 1], ids=["message", "batch"])
def test_a_handler_that_always_cancels_its_task_uses_up_its_attempts(env, rsmq, batch):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    options = {"backoff": 0, "max_retries": 1, "dead_letter_queue": "dead"}
    attempts = []

    @worker.listener("q", batch=batch, **options)
    async def handle(body, message):
        attempts.append((message if batch is None else message[0]).attempt)
        asyncio.current_task().cancel()
        await asyncio.sleep(60)

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1 or len(attempts) > 10)

    assert attempts == [1, 1, 1, 2]
    assert worker.numbers.deferred == 2
    assert env.scores("dead").keys() == {id}
    assert rsmq.peek_messages("dead")[0].reason.exception.startswith("CancelledError")


def test_a_cancelled_error_that_a_handler_raises_is_a_failure(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", backoff=500)
    async def handle(body):
        raise asyncio.CancelledError

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.retried == 1)

    assert worker.numbers.failed == 1
