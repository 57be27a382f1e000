"""Workers whose bodies are compressed and encrypted."""

from __future__ import annotations

import pytest

from rsmq import JSON
from rsmq.codecs import Compressed, Encrypted
from rsmq.worker import Worker
from tests.scale import WAIT_SECONDS

KEY = bytes(range(32))
CODEC = Encrypted(Compressed(JSON), keys={"k1": KEY})
BODY = ["a small thing"] * 500


def run(worker):
    worker.run(until_empty=True, timeout=WAIT_SECONDS)


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


@pytest.mark.parametrize("kind", ["thread", "task", "batch", "group"])
def test_handlers_get_what_is_inside(env, kind):
    env.create_queues("q")
    received = []

    async def handle_later(body):
        received.append(body)

    def handle_batch(bodies):
        received.extend(bodies)

    worker = Worker(env.rsmq)
    if kind == "batch":
        worker.listener("q", codec=CODEC, batch=10, retry_forever=True)(handle_batch)
    elif kind == "group":
        group = worker.handlers("q", codec=CODEC, retry_forever=True)
        for name in ("first", "second"):
            group.handler(name)(received.append)
    else:
        handler = handle_later if kind == "task" else received.append
        worker.listener("q", codec=CODEC, retry_forever=True)(handler)
    env.rsmq.send_messages("q", [BODY, 5], codec=CODEC)
    env.rsmq.send_message("q", "plain", codec=JSON)
    run(worker)

    expected = [BODY, 5, "plain"] * (2 if kind == "group" else 1)
    assert sorted(received, key=str) == sorted(expected, key=str)
    assert env.is_empty("q")


def test_a_key_that_is_away_for_the_second_of_several_handlers_is_no_attempt(env):
    env.create_queues("q")
    received, kept = [], []

    def ask(id):
        kept.append(id)
        if len(kept) == 2:
            raise OSError("away")
        return KEY

    class Forgetful(Encrypted):
        """Asks for the key of each body."""

        def undo(self, opened):
            self._keys._keys.clear()
            return super().undo(opened)

    worker = Worker(env.rsmq)
    codec = Forgetful(JSON, keys=ask)
    group = worker.handlers("q", codec=codec, max_retries=0, drop=True, backoff=[0.1])
    for name in ("first", "second"):
        group.handler(name)(lambda body, name=name: received.append((name, body)))
    env.rsmq.send_message("q", "secret", codec=CODEC)
    run(worker)

    assert sorted(received) == [("first", "secret"), ("second", "secret")]
    assert env.is_empty("q")


def test_a_body_without_its_key_becomes_a_dead_letter_and_is_readable_after_a_redrive(env):
    env.create_queues("q", "dead")
    received = []
    worker = Worker(env.rsmq)
    other = Encrypted(JSON, keys={"k9": KEY})
    options = {"max_retries": 0, "dead_letter_queue": "dead"}
    worker.listener("q", codec=other, **options)(received.append)
    env.rsmq.send_message("q", "secret", codec=CODEC)
    run(worker)

    (dead,) = env.rsmq.peek_messages("dead", codec=CODEC)
    assert received == []
    assert dead.body == "secret"
    assert dead.reason.exception == (
        "CannotDecode: The body is encrypted with the key 'k1', which the codec does not have"
    )
    assert dead.raw.decode()[40:60] not in repr(dead.reason)
    env.rsmq.redrive_messages("dead", "q")
    worker = Worker(env.rsmq)
    worker.listener("q", codec=CODEC, **options)(received.append)
    run(worker)
    assert received == ["secret"]


@pytest.mark.parametrize("batch", [None, 10])
def test_a_key_that_can_not_be_reached_is_no_attempt(env, batch):
    env.create_queues("q", "dead")
    received, asked = [], []

    def ask(id):
        asked.append(id)
        if len(asked) < 4:
            raise OSError("away")
        return KEY

    def handle(body, message):
        messages = message if batch else [message]
        received.append((body, [each.attempt for each in messages]))

    worker = Worker(env.rsmq)
    codec = Encrypted(JSON, keys=ask)
    worker.listener(
        "q", codec=codec, max_retries=0, dead_letter_queue="dead", backoff=[0.1], batch=batch
    )(handle)
    env.rsmq.send_message("q", "secret", codec=CODEC)
    run(worker)

    assert received == [(["secret"] if batch else "secret", [1])]
    assert asked == ["k1"] * 4
    assert env.is_empty("q")
    assert env.rsmq.peek_messages("dead") == []
