"""What the tasks of async handlers do with calls whose visibility timeouts have ended."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

from rsmq.worker.run.tasks import EventLoopTasks
from rsmq.worker.state.message_state import EXPIRED, RUNNING


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

    async def close_client():
        pass

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
