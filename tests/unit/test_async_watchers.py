"""The watchers of an asyncio client, without a server."""

from __future__ import annotations

import asyncio
import threading

import pytest

import rsmq.waiting.watcher_state
from rsmq import ClientClosed
from rsmq.waiting.asyncio_ import AsyncWatcher, AsyncWatchers
from rsmq.wire.keys import Namespace
from tests.scale import WAIT_SECONDS

NAMESPACE = Namespace("rsmq")
QUEUE = b"rsmq:q"


class CallerWithoutTracking:
    def tracking_pool(self):
        return None

    def address_of(self, key):
        return None


async def receive_nothing():
    return []


async def wait(watcher, seconds=0.01):
    return await watcher.wait(receive_nothing, lambda _: None, [], [QUEUE], seconds)


@pytest.fixture
def watchers():
    return AsyncWatchers(CallerWithoutTracking(), NAMESPACE)


def test_each_loop_has_a_watcher_and_closed_loops_are_forgotten(watchers):
    async def current():
        assert watchers.current() is watchers.current()
        return watchers.current()

    first, second = asyncio.run(current()), asyncio.run(current())
    assert first is not second
    assert list(watchers._watchers.values()) == [second]


def test_an_open_loop_keeps_its_watcher(watchers):
    async def current():
        return watchers.current()

    with asyncio.Runner() as one, asyncio.Runner() as other:
        first = one.run(current())
        other.run(current())
        assert one.run(current()) is first


def test_close_ends_waits_of_this_loop_and_of_others(watchers):
    started = threading.Event()
    errors = []

    async def wait_in_thread():
        started.set()
        try:
            await wait(watchers.current(), seconds=30)
            await wait(watchers.current(), seconds=30)
        except ClientClosed as error:
            errors.append(error)

    thread = threading.Thread(target=asyncio.run, args=(wait_in_thread(),))
    thread.start()

    async def current():
        return watchers.current()

    async def close():
        asyncio.get_running_loop()
        watchers.current()
        while not any(each._worker for each in watchers._watchers.values()):
            await asyncio.sleep(0.01)
        await watchers.close()
        with pytest.raises(ClientClosed):
            watchers.current()

    started.wait(WAIT_SECONDS)
    asyncio.run(close())
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    assert len(errors) == 1


def test_close_skips_a_closed_loop(watchers):
    async def current():
        return watchers.current()

    asyncio.run(current())
    asyncio.run(watchers.close())
    assert watchers._closed


async def test_a_closed_watcher_refuses_to_wait():
    watcher = AsyncWatcher(CallerWithoutTracking(), NAMESPACE)
    await watcher.close()
    with pytest.raises(ClientClosed):
        await wait(watcher)


def test_a_watcher_ends_after_a_time_without_waits_and_starts_again(monkeypatch):
    monkeypatch.setattr(rsmq.waiting.watcher_state, "IDLE_SECONDS", 0.02)

    async def main():
        watcher = AsyncWatcher(CallerWithoutTracking(), NAMESPACE)
        for _ in range(2):
            assert await wait(watcher) == []
            for _ in range(1000):
                if watcher._worker is None:
                    break
                await asyncio.sleep(0.01)
            assert watcher._worker is None

    asyncio.run(main())
