"""Workers whose bodies are in a store."""

from __future__ import annotations

import threading

import pytest
from obstore.store import MemoryStore

from rsmq import JSON
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Compressed, Stored
from rsmq.worker import Middleware, Worker
from tests.scale import WAIT_SECONDS

BODY = ["a small thing"] * 50


class CountingStore(ObjectStore):
    """A store that counts reads, and in which threads, and is away for the first ones."""

    def __init__(self):
        super().__init__(MemoryStore())
        self.threads = []
        self.failures = 0

    def read(self, *args):
        self.threads.append(threading.current_thread().name)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("away")
        return super().read(*args)


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


@pytest.fixture
def store():
    return CountingStore()


def run(worker):
    worker.run(until_empty=True, timeout=WAIT_SECONDS)


@pytest.mark.parametrize("inner", [JSON, Compressed(JSON, above=0)])
@pytest.mark.parametrize("kind", ["thread", "task", "batch", "group"])
def test_each_body_is_read_once_and_never_by_an_event_loop(env, store, kind, inner):
    codec = Stored(inner, store=store, above=20)
    env.create_queues("q")
    received, loops = [], []

    class ReadsBodies(Middleware):
        def before_handle(self, message):
            assert message.body in (BODY, 5)

    async def handle_later(body, message):
        loops.append(threading.current_thread().name)
        received.append(body)
        assert message.body == body

    def handle_batch(bodies):
        received.extend(bodies)

    worker = Worker(env.rsmq, middleware=[ReadsBodies()])
    if kind == "batch":
        worker.listener("q", codec=codec, batch=10, retry_forever=True)(handle_batch)
    elif kind == "group":
        group = worker.handlers("q", codec=codec, retry_forever=True)
        for name in ("first", "second"):
            group.handler(name)(received.append)
    else:
        handler = handle_later if kind == "task" else received.append
        worker.listener("q", codec=codec, retry_forever=True)(handler)
    env.rsmq.send_messages("q", [BODY, 5, BODY], codec=codec)
    run(worker)

    expected = [BODY, 5, BODY] * (2 if kind == "group" else 1)
    assert sorted(received, key=str) == sorted(expected, key=str)
    assert env.is_empty("q")
    assert len(store.threads) == 2
    assert not set(loops) & set(store.threads)


@pytest.mark.parametrize("kind", ["thread", "task", "batch"])
def test_a_store_that_is_away_is_no_attempt(env, store, kind):
    codec = Stored(JSON, store=store, above=20)
    env.create_queues("q", "dead")
    received = []

    def handle(body, message):
        messages = message if kind == "batch" else [message]
        received.append((body, [each.attempt for each in messages]))

    async def handle_later(body, message):
        handle(body, message)

    worker = Worker(env.rsmq)
    worker.listener(
        "q", codec=codec, max_retries=0, dead_letter_queue="dead", backoff=[0.1],
        batch=10 if kind == "batch" else None,
    )(handle_later if kind == "task" else handle)  # fmt: skip
    env.rsmq.send_message("q", BODY, codec=codec)
    store.failures = 3
    run(worker)

    assert received == [([BODY] if kind == "batch" else BODY, [1])]
    assert len(store.threads) == 4
    assert env.rsmq.peek_messages("dead") == []


@pytest.mark.parametrize("kind", ["thread", "task", "batch"])
def test_a_missing_object_makes_a_dead_letter(env, store, kind):
    codec = Stored(JSON, store=store, above=20)
    env.create_queues("q", "dead")
    received = []

    async def handle_later(body):
        received.append(body)

    worker = Worker(env.rsmq)
    worker.listener(
        "q", codec=codec, max_retries=0, dead_letter_queue="dead",
        batch=10 if kind == "batch" else None,
    )(handle_later if kind == "task" else received.append)  # fmt: skip
    env.rsmq.send_message("q", BODY, codec=codec)
    for place, name in store.list(env.ns.encode()):
        store.delete(place, name)
    run(worker)

    (dead,) = env.rsmq.peek_messages("dead")
    assert received == []
    assert "missing from the store" in dead.reason.exception
    assert len(store.threads) == 1


@pytest.mark.parametrize("inner", [JSON, Compressed(JSON, above=0)])
@pytest.mark.parametrize("kind", ["thread", "task", "batch", "group", "tracked"])
def test_a_handled_message_takes_its_object_along(env, store, kind, inner):
    codec = Stored(inner, store=store, above=20)
    env.create_queues("q")
    read_by_hook = []

    class ReadsBodies(Middleware):
        def on_success(self, message):
            read_by_hook.append(message.body)

    async def handle_later(body):
        pass

    worker = Worker(env.rsmq, middleware=[ReadsBodies()])
    if kind == "group":
        group = worker.handlers("q", codec=codec, retry_forever=True)
        group.handler("first")(lambda _: None)
        group.handler("second")(lambda _: None)
    else:
        worker.listener(
            "q", codec=codec, retry_forever=True, batch=10 if kind == "batch" else None,
            **({"track": True} if kind == "tracked" else {}),
        )(handle_later if kind == "task" else lambda _: None)  # fmt: skip
    env.rsmq.send_messages("q", [BODY, 5, BODY], codec=codec)
    run(worker)

    assert env.is_empty("q")
    assert list(store.list(env.ns.encode())) == []
    assert sorted(read_by_hook, key=str) == sorted([BODY, 5, BODY], key=str)


def test_a_dropped_message_takes_its_object_along_and_a_dead_letter_keeps_it(env, store):
    codec = Stored(JSON, store=store, above=20)
    env.create_queues("drops", "dies", "dead")

    def fail(body):
        raise ValueError(body[0])

    worker = Worker(env.rsmq)
    worker.listener("drops", codec=codec, max_retries=1, backoff=[0.1], drop=True)(fail)
    worker.listener("dies", codec=codec, max_retries=0, dead_letter_queue="dead")(fail)
    env.rsmq.send_message("drops", BODY, codec=codec)
    env.rsmq.send_message("dies", BODY, codec=codec)
    run(worker)

    ((place, _),) = store.list(env.ns.encode())
    assert place.endswith(b":dies")
    assert env.rsmq.peek_messages("dead", codec=codec)[0].body == BODY
