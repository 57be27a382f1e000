"""The guard of a call that is cancelled: which requests still must be sent."""

from __future__ import annotations

import asyncio

import pytest

from rsmq.transport.asyncio_.cancellation import CancellationGuard
from rsmq.transport.asyncio_.requests import Request
from tests.scale import WAIT_SECONDS


async def cancelled_while_waiting(guard, request):
    """Cancel a task that waits for the reply to a request; return the task."""
    task = asyncio.ensure_future(guard.wait(request))
    async with asyncio.timeout(WAIT_SECONDS):
        while not request.future._callbacks:  # busy tests wait before they wait for it
            await asyncio.sleep(0)
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def _request():
    return Request(asyncio.get_running_loop(), [(b"PING",)])


@pytest.mark.parametrize("is_undo", [False, True])
def test_the_first_cancellation_withdraws_a_request_and_a_further_one_not(is_undo):
    """After the first one the guard waits for the undoing, which must be sent."""

    async def main():
        guard, request = CancellationGuard(), await _request()
        if is_undo:
            guard.note_cancellation(asyncio.CancelledError())
        task = await cancelled_while_waiting(guard, request)
        assert not task.done()
        assert request.is_cancelled is not is_undo
        assert not request.future.cancelled()
        request.add_reply(b"PONG")
        assert await task == [b"PONG"]
        assert guard.detect_cancellation()

    asyncio.run(main())
