"""The tasks of async handlers: calls whose visibility timeouts have ended, or that never end."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import suppress
from types import SimpleNamespace

from rsmq.worker.run.tasks import EventLoopTasks
from rsmq.worker.state.message_state import EXPIRED, RUNNING


async def close_client():
    pass


def test_a_call_that_has_ended_belongs_to_the_loop_also_before_its_slot_is_free():
    def make_job(ended_at):
        lease = SimpleNamespace(state=RUNNING, expires_at=0.0)
        return SimpleNamespace(leases=[lease], ended_at=ended_at, task=None)

    ended, running = make_job(1.0), make_job(None)
    run_queue = SimpleNamespace(
        lock=threading.Lock(),
        running_calls=lambda _: [ended, running],
        async_lanes=list,
    )

    async def watch():
        tasks = EventLoopTasks(run_queue, None, lambda: None, 1, close_client)
        tasks.start(asyncio.get_running_loop())
        while running.leases[0].state is RUNNING:
            await asyncio.sleep(0)
        tasks.stop()
        await asyncio.sleep(0.01)

    asyncio.run(watch())

    assert running.leases[0].state is EXPIRED
    assert ended.leases[0].state is RUNNING


def test_a_handler_that_ignores_its_cancellation_is_not_reported_by_asyncio(monkeypatch, caplog):
    """The worker itself reports it."""
    monkeypatch.setattr("rsmq.worker.run.tasks._CLOSE_TIMEOUT_SECONDS", 0.01)
    runs = threading.Event()

    async def hang():
        while True:
            with suppress(asyncio.CancelledError):
                runs.set()
                await asyncio.sleep(3600)

    run_queue = SimpleNamespace(
        lock=threading.Lock(),
        running_calls=lambda _: [],
        async_lanes=list,
        start_next=lambda _: SimpleNamespace(task=None, call_state=None),
        count_to_wake=lambda *_: 1,
    )
    invoker = SimpleNamespace(begin_async=lambda _: hang())
    tasks = EventLoopTasks(run_queue, invoker, lambda: None, 1, close_client)
    tasks.start(None)
    tasks.wake(1)
    runs.wait()
    tasks.stop()
    tasks._thread.join()
    assert len(tasks._alive) == 1
    del tasks
    gc.collect()

    assert caplog.text == ""
