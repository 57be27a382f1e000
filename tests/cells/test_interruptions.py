"""A receive from several cells that is cancelled or interrupted hides no message."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
from collections import defaultdict
from contextlib import suppress

import pytest

import rsmq._sync.engine
import rsmq.waiting.cells.threads
import rsmq.waiting.threads
from rsmq import AsyncCells, Cells
from tests.bytecodes import signal_at
from tests.cells.conftest import Place

CELLS = 3


@pytest.fixture
def raw(server):
    with server.raw() as raw:
        yield raw


@pytest.fixture
def place(server, raw):
    """A set of cells with two messages in each."""
    place = Place("sync", server.url, raw, number=CELLS)
    client = place.open()
    client.create_queue("q", vt=1000)
    for number in range(2 * CELLS):
        client.send_message("q", str(number))
    yield place
    place.close()
    raw.unlink(*raw.keys(f"{{{place.ns}.*"))


def hidden(place):
    """Return the number of hidden messages, by the scores."""
    seconds, microseconds = place.raw.time()
    now_ms = seconds * 1000 + microseconds / 1000
    return sum(
        place.raw.zcount(f"{place.cell(cell)}:q", now_ms + 1000, "inf") for cell in range(CELLS)
    )


async def cancel_after(client, turns, turns_between):
    """Cancel a receive twice after turns of the loop; return whether it had ended before."""
    task = asyncio.ensure_future(client.receive_messages("q", 2 * CELLS))
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.done():
        await client.release_messages(await task)
        return True
    task.cancel()
    for _ in range(turns_between):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await client.release_messages(await task)
    return False


def test_two_cancellations_at_every_step_hide_no_message(place):
    async def main():
        async with AsyncCells.from_url(place.url, ns=place.ns, cells=CELLS) as client:
            await client.count_messages("q")
            for turns_between in range(16):
                turns = 0
                while not await cancel_after(client, turns, turns_between):
                    assert hidden(place) == 0, (turns, turns_between)
                    turns += 1
                assert turns > 3

    asyncio.run(main())
    assert hidden(place) == 0


class Interrupted(BaseException):
    """The exception that the signal handler raises."""


def interrupt():
    raise Interrupted


def test_a_signal_after_a_look_hides_no_message(place):
    """After each look, the watchers note its result."""
    files = rsmq.waiting.cells.threads.__file__, rsmq.waiting.threads.__file__
    with Cells.from_url(place.url, ns=place.ns, cells=CELLS) as client:
        client.count_messages("q")
        for number in itertools.count(1):
            with suppress(Interrupted), signal_at(number, *files, handler=interrupt) as raised:
                client.release_messages(client.receive_messages("q", 2 * CELLS))
            assert hidden(place) == 0, number
            if not raised:
                break
    assert number > 100


@pytest.mark.parametrize(
    ("owner", "name", "wait"),
    [
        (rsmq.waiting.cells.threads.CellWatchers, "note_look", 0),
        (rsmq.waiting.cells.threads.CellWaiter, "close", 5),
    ],
)
def test_a_signal_around_the_record_of_a_look_hides_no_message(
    place, monkeypatch, owner, name, wait
):
    original = getattr(owner, name)

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, interrupted)
    previous = signal.signal(signal.SIGINT, lambda *_: interrupt())
    try:
        with Cells.from_url(place.url, ns=place.ns, cells=CELLS) as client:
            with pytest.raises(Interrupted):
                client.receive_messages("q", 2 * CELLS, wait=wait)
            assert hidden(place) == 0
    finally:
        signal.signal(signal.SIGINT, previous)


def test_concurrent_tasks_receive_each_message_once(server, raw):
    """Some of them are cancelled all the time, and all share one connection for waits."""
    place = Place("sync", server.url, raw, number=CELLS)
    generator = random.Random(5)
    received = defaultdict(list)
    deleted = []
    total = 400

    async def consume(client):
        while True:
            wait = generator.choice([None, 1, 5])
            receive = client.receive_messages(["q", "r"], generator.choice([1, 3, 10]), wait=wait)
            try:
                found = await asyncio.wait_for(receive, generator.choice([0.01, 0.1, 20]))
            except TimeoutError:
                continue
            for message in found:
                producer, number = message.body.split()
                received[producer].append(int(number))
            ids = await client.delete_messages(found)
            assert ids == [message.id for message in found]
            deleted.extend(ids)

    async def produce(client, producer):
        for number in range(total // 4):
            key = producer if generator.random() < 0.5 else None
            delay = generator.choice([0, 0, 0.02])
            await client.send_message(
                generator.choice("qr"), f"{producer} {number}", key=key, delay=delay
            )
            await asyncio.sleep(generator.choice([0, 0.005]))

    async def main():
        async with AsyncCells.from_url(place.url, ns=place.ns, cells=CELLS) as client:
            await client.create_queue("q", vt=1000)
            await client.create_queue("r", vt=1000)
            consumers = [asyncio.ensure_future(consume(client)) for _ in range(12)]
            await asyncio.gather(*(produce(client, name) for name in "abcd"))
            async with asyncio.timeout(12):  # less than the time until a look without a reason
                while len(deleted) < total:  # a delete that is cancelled may not be sent
                    await asyncio.sleep(0.01)
            tracking = [each for each in raw.client_list() if "t" in each["flags"]]
            for task in consumers:
                task.cancel()
            ends = await asyncio.gather(*consumers, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        assert len(tracking) == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert {name: sorted(found) for name, found in received.items()} == {
        name: list(range(total // 4)) for name in "abcd"
    }
    assert place.bodies("q") == place.bodies("r") == [{}] * CELLS
    raw.unlink(*raw.keys(f"{{{place.ns}.*"))
