"""The time limit of pushes: one timer for all tasks of an event loop."""

from __future__ import annotations

import asyncio

import pytest

from rsmq.webhooks.exchange import ExchangeTimeLimit
from tests.scale import WAIT_SECONDS

SECONDS = 0.05


async def push(limit, *, is_ended=False):
    """Wait forever, or until the limit; return whether only the limit has ended it."""
    exchange = limit.begin()
    if is_ended:
        limit.end(exchange)
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        if not exchange.was_only_cancelled_by_limit():
            raise
        return asyncio.current_task().cancelling()


def test_each_push_expires_and_its_task_is_not_cancelled_afterwards():
    async def main():
        limit = ExchangeTimeLimit(SECONDS)
        tasks = []
        for _ in range(3):  # not at the same time, so the timer is set again
            tasks.append(asyncio.create_task(push(limit)))
            await asyncio.sleep(SECONDS / 3)
        return await asyncio.wait_for(asyncio.gather(*tasks), WAIT_SECONDS)

    assert asyncio.run(main()) == [0, 0, 0]


def test_the_limit_is_counted_from_the_beginning_of_a_push(monkeypatch):
    async def main():
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 1000.0)
        limit = ExchangeTimeLimit(10.0)
        deadline = limit.begin().deadline
        limit.close()
        return deadline

    assert asyncio.run(main()) == 1010.0


def test_a_push_that_has_ended_is_not_cancelled():
    async def main():
        limit = ExchangeTimeLimit(SECONDS)
        ended = asyncio.create_task(push(limit, is_ended=True))
        await asyncio.wait_for(push(limit), WAIT_SECONDS)  # it began later, and has expired
        is_done = ended.done()
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)
        return is_done

    assert asyncio.run(main()) is False


def test_a_cancellation_by_others_is_not_taken_for_the_limit():
    async def main():
        limit = ExchangeTimeLimit(SECONDS)
        task = asyncio.create_task(push(limit))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_a_cancellation_at_the_same_moment_as_the_limit_is_kept():
    async def main():
        limit = ExchangeTimeLimit(0.0)
        task = asyncio.create_task(push(limit))
        await asyncio.sleep(0)
        # Runs after the timer of the limit, in the same turn of the loop.
        asyncio.get_running_loop().call_later(0.0, task.cancel)
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
