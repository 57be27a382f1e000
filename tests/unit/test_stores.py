"""Stores of bodies, and the asyncio client, whose loop must not wait for them."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest
from obstore.store import LocalStore, MemoryStore

from rsmq import JSON, AsyncRSMQ, MissingExtra
from rsmq.body_stores import ObjectStore, RedisStore
from rsmq.codecs import BodyStore, EnvelopeCodec, Stored, written
from rsmq.headers import use_headers
from rsmq.vocabulary.sends import BATCH, SEND, SEND_OPTIONS

PLACE, NAME = b"rsmq:orders", "0" * 32
ROWS = ["x" * 100] * 10


@pytest.fixture(params=["memory", "folder", "redis"])
def store(request, tmp_path):
    if request.param == "redis":
        store = RedisStore(request.getfixturevalue("server").url)
        yield store
        store.close()
    else:
        yield ObjectStore(MemoryStore() if request.param == "memory" else LocalStore(tmp_path))


def test_a_store_writes_reads_lists_and_deletes(store):
    large = bytes(range(256)) * 10_000  # several parts in Redis
    other, strange = b"rsmq:other", "rsmq:é/../=%".encode()
    for place, body in ((PLACE, large), (other, b"5"), (strange, b"6"), (b"rsmqs:orders", b"7")):
        store.write(place, NAME, body)
        assert store.read(place, NAME, len(body)) == body
    assert isinstance(store, BodyStore)
    assert store.read(PLACE, NAME, 5) != large
    assert set(store.list(b"rsmq")) == {(PLACE, NAME), (other, NAME), (strange, NAME)}

    for place in (PLACE, other, strange, b"rsmqs:orders"):
        store.delete(place, NAME)
        store.delete(place, NAME)
    assert not list(store.list(b"rsmq"))
    with pytest.raises(FileNotFoundError):
        store.read(PLACE, NAME, 5)


def test_redis_has_one_key_of_each_body(server, raw):
    store = RedisStore(server.url)
    store.write(b"{a}:orders", NAME, b"text")
    assert raw.get(f"{{a}}:orders:x:body:{NAME}") == b"text"
    copy = pickle.loads(pickle.dumps(store))
    assert copy.read(b"{a}:orders", NAME, 4) == b"text"
    assert "redis://" not in repr(store)
    store.delete(b"{a}:orders", NAME)
    for each in (store, copy):
        each.close()


def test_a_store_of_objects_needs_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(MissingExtra, match="'stores'"):
        ObjectStore(MemoryStore())


class SlowStore(ObjectStore):
    """A store that answers when the event loop has run on."""

    def __init__(self):
        super().__init__(MemoryStore())
        self.has_run_on = threading.Event()
        self.waits = []

    def write(self, *args):
        self._wait()
        super().write(*args)

    def read(self, *args):
        self._wait()
        return super().read(*args)

    def _wait(self):
        self.waits.append(self.has_run_on.wait(30))


@pytest.mark.parametrize("headers", [{}, {"customer": "17"}])
def test_the_event_loop_runs_on_while_a_store_answers(headers, ns):
    store = SlowStore()
    codec = Stored(EnvelopeCodec(JSON), store=store, above=100)

    async def run_on(call):
        store.has_run_on.clear()
        task = asyncio.create_task(call)
        count = len(store.waits)
        while not store.has_run_on.is_set():
            await asyncio.sleep(0.01)
            store.has_run_on.set()
        result = await task
        assert all(store.waits[count:])
        return result

    async def main():
        async with AsyncRSMQ.from_url(f"memory://{ns}", codec=codec) as queues:
            await queues.create_queue("q")
            with use_headers(headers):
                await run_on(queues.send_message("q", ROWS))
                await run_on(queues.send_messages("q", [ROWS, ROWS]))
                await run_on(queues.publish(["q"], ROWS))
                await run_on(queues.schedules.add("s", every=3600, queue="q", body=ROWS))
            for call in (
                queues.peek_messages("q"),
                queues.receive_messages("q", 2),
                queues.recover_messages("q", 1, idle=0),
                queues.pop_messages("q", 1, wait=1),
            ):
                messages = await run_on(call)
                reads = len(store.waits)
                assert [each.body for each in messages] == [ROWS] * len(messages)
                assert [each.headers for each in messages] == [headers] * len(messages)
                assert messages
                assert len(store.waits) == reads  # nothing more was read
            assert (await run_on(queues.get_message("q", messages[0].id))) is None

    asyncio.run(main())


def test_a_receive_that_is_cancelled_while_it_loads_releases_its_message(ns):
    store = SlowStore()
    codec = Stored(JSON, store=store, above=100)

    async def main():
        async with AsyncRSMQ.from_url(f"memory://{ns}", codec=codec) as queues:
            await queues.create_queue("q", vt=600)
            store.has_run_on.set()
            await queues.send_message("q", ROWS)
            store.has_run_on.clear()
            task = asyncio.create_task(queues.receive_message("q"))
            while len(store.waits) < 1 or not (await queues.count_messages("q")).in_flight:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            store.has_run_on.set()
            assert (await queues.count_messages("q")).visible == 1

    asyncio.run(main())


def test_the_options_that_lead_to_an_earlier_message_are_those_of_the_table():
    names = {
        each.name_in(call) for each in SEND_OPTIONS if each.is_unique for call in (SEND, BATCH)
    }

    assert names == written._LEAD_TO_EARLIER
