"""Workers with the codecs of classes, and with codecs that count as false."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from rsmq import BYTES
from rsmq.codecs import dataclass_codec, pydantic_codec
from rsmq.worker import Middleware, Worker, event_payload
from rsmq.worker.listener import ListenerOptions
from tests.hostile_errors import Broken
from tests.workers.polling import wait_until


class Invoice(BaseModel):
    number: int


@dataclass
class Order:
    number: int


class Empty:
    """A codec that counts as false, as one does that is a container without items."""

    def __len__(self):
        return 0

    def encode(self, body):
        return str(body)

    def decode(self, raw):
        return int(raw)


@pytest.mark.parametrize(
    ("codec", "cls"), [(pydantic_codec(Invoice), Invoice), (dataclass_codec(Order), Order)]
)
def test_a_handler_receives_objects_and_wrong_bodies_become_dead_letters(env, codec, cls):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    received = []
    worker.listener("q", codec=codec, max_retries=0, dead_letter_queue="dead")(received.append)
    env.rsmq.send_message("q", cls(number=5), codec=codec)
    env.rsmq.send_message("q", b'{"number":"secret"}', codec=BYTES)
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1 and worker.numbers.dead == 1)
    worker.stop()

    (dead,) = env.rsmq.peek_messages("dead", codec=BYTES)
    assert received == [cls(number=5)]
    assert type(received[0]) is cls
    assert env.is_empty("q")
    assert dead.body == b'{"number":"secret"}'
    assert dead.reason.exception.startswith("CannotDecode: ")
    assert "BodyNotDecodable" in dead.reason.traceback
    assert "number" in dead.reason.exception
    assert "secret" not in repr(dead.reason)


def test_a_batch_of_objects(env):
    env.create_queues("q")
    worker = env.create_worker()
    received = []
    codec = dataclass_codec(Order)
    worker.listener("q", codec=codec, batch=10)(received.extend)
    env.rsmq.send_messages("q", [Order(1), Order(2)], codec=codec)
    worker.start()
    wait_until(lambda: worker.numbers.handled == 2)
    worker.stop()

    assert received == [Order(1), Order(2)]


def test_a_codec_that_counts_as_false_is_used(env):
    env.create_queues("q")
    worker = env.create_worker()
    received = []
    worker.listener("q", codec=Empty())(received.append)
    env.rsmq.send_message("q", "5")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)
    worker.stop()

    assert received == [5]


def test_hooks_get_deliveries_with_the_body_of_the_codec(env):
    seen = []

    class Seeing(Middleware):
        def after_handle(self, message, error, seconds):
            seen.append((type(message).__name__, message.body, message.attempt))

    env.create_queues("q")
    worker = env.create_worker(middleware=[Seeing()])
    worker.listener("q", codec=dataclass_codec(Order))(lambda _order: None)
    env.rsmq.send_message("q", '{"number":1}')
    worker.start()
    wait_until(lambda: seen)
    worker.stop()

    assert seen == [("Delivery", Order(1), 1)]


def test_each_option_is_described_where_listeners_are_made():
    for name in ListenerOptions.__annotations__:
        assert f"            {name}: " in Worker.listener.__doc__


@pytest.mark.parametrize("method", ["listener", "router"])
def test_unknown_option_is_refused(env, method):
    worker = env.create_worker()
    by = {"by": event_payload} if method == "router" else {}
    with pytest.raises(TypeError, match="max_retry"):
        getattr(worker, method)("q", max_retry=3, **by)


class PanickingCodec:
    """A codec whose error is not an ``Exception``, as that of an extension in Rust."""

    def encode(self, value):
        return value.encode()

    def decode(self, raw):
        if raw == b"bad":
            raise Broken("panic")
        return raw.decode()


@pytest.mark.parametrize("batch", [None, 10])
def test_body_at_which_a_codec_panics_fails_alone(env, batch):
    env.create_queues("q", "dead")
    worker = env.create_worker()
    bodies = []

    @worker.listener("q", codec=PanickingCodec(), batch=batch, dead_letter_queue="dead")
    def handle(body):
        bodies.extend([body] if batch is None else body)

    ids = env.rsmq.send_messages("q", ["a", "bad", "b"])
    worker.start()
    wait_until(lambda: worker.numbers.handled == 2 and worker.numbers.dead == 1)

    assert bodies == ["a", "b"]
    assert env.scores("dead").keys() == {ids[1]}
    (letter,) = env.rsmq.peek_messages("dead")
    assert letter.reason.exception == "Broken: panic"
    assert letter.reason.attempts == 1


def test_hook_that_panics_fails_only_its_message_of_a_batch(env):
    class Panicking(Middleware):
        def before_handle(self, message):
            if message.body == "bad":
                raise Broken("panic")

    env.create_queues("q", "dead")
    worker = env.create_worker(middleware=[Panicking()])
    bodies = []
    worker.listener("q", batch=10, max_retries=0, dead_letter_queue="dead")(bodies.extend)
    ids = env.rsmq.send_messages("q", ["a", "bad", "b"])
    worker.start()
    wait_until(lambda: worker.numbers.handled == 2 and worker.numbers.dead == 1)

    assert bodies == ["a", "b"]
    assert env.scores("dead").keys() == {ids[1]}


async def _work():
    raise AssertionError("it does not run")


def _generate():
    yield


async def _generate_async():
    yield


@pytest.mark.parametrize(
    "make", [_work, _generate, _generate_async, lambda: asyncio.get_running_loop().create_future()]
)
def test_async_handler_that_returns_what_did_not_run_has_failed(env, make):
    env.create_queues("q", "dead")
    worker = env.create_worker()

    @worker.listener("q", max_retries=0, dead_letter_queue="dead")
    async def handle(body):
        return make()

    @worker.listener("other", create=True)
    async def handle_other(body):
        return body

    env.rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1)
    env.rsmq.send_message("other", "x")
    wait_until(lambda: worker.numbers.handled == 1)

    (letter,) = env.rsmq.peek_messages("dead")
    assert letter.reason.exception.startswith("TypeError: the handler returned a ")
    assert letter.reason.exception.endswith("await it in the handler")
