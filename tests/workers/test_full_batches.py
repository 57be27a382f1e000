"""Batches that wait until they are full, or until their first message has waited long enough."""

from __future__ import annotations

import pytest

from rsmq import InvalidFormat, InvalidValue
from rsmq.worker import Middleware
from rsmq.worker.operations import Identity, ReceiveRequest, receive_for_worker
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


class Looks(Middleware):
    """Counts the receives."""

    number = 0

    def before_receive(self, queues):
        self.number += 1


def wait_for_looks(looks, number=1):
    """Wait for further receives that begin after this call, and for the end of all but the last."""
    target = looks.number + number + 1
    wait_until(lambda: looks.number >= target)


def receive(env, *, size=5, fill_ms=1_000_000, max_messages=100, prefetch=0, slots=20):
    """Receive from queue q, as a worker does."""
    worker = Identity(env.rsmq.namespace, "w", "token")
    keys = env.rsmq.namespace.queue("q")
    request = ReceiveRequest(keys, 60_000, size, prefetch, max_messages, fill_ms)
    [result] = env.rsmq.run(receive_for_worker(worker, [request], slots))
    return result


def send(env, *ages):
    """Send messages that have been visible for so many seconds."""
    seconds, _ = env.raw.time()
    for age in ages:
        id = env.rsmq.send_message("q", "m")
        env.raw.zadd(env.queue_key("q"), {id: (seconds - age) * 1000})


@pytest.mark.parametrize(
    ("ages", "options", "received", "state"),
    [
        ([0] * 4, {}, 0, "f"),
        ([0] * 5, {}, 5, "."),
        ([0] * 12, {}, 10, "f"),
        ([5000] + [0] * 3, {}, 4, "."),  # its first message has waited long enough
        ([5000] * 5 + [0] * 3, {}, 5, "f"),  # the rest has not
        ([0] * 5 + [-5000] * 3, {}, 5, "."),  # hidden ones do not count
        ([-5000] * 9, {}, 0, "."),
        ([], {}, 0, "."),
        ([0] * 12, {"slots": 1}, 5, "+"),
        ([0] * 12, {"slots": 1, "prefetch": 4}, 5, "+"),
        ([5000] * 12, {"max_messages": 3}, 3, "+"),  # after a reply that was lost
        ([0] * 4, {"fill_ms": 0}, 4, "."),
        ([0] * 4, {"fill_ms": None}, 4, "."),
    ],
)
def test_messages_are_received_if_they_fill_a_batch_or_have_waited(
    env, ages, options, received, state
):
    env.create_queues("q")
    send(env, *ages)
    result = receive(env, **options)

    assert len(result.ids) == received
    assert len([name for name in env.fields("q") if name.endswith(":rc")]) == received
    assert result.state == state
    assert (0 < result.fill_ms <= 1_000_000) == (state == "f")


def test_a_batch_waits_in_the_queue_until_it_is_full(env, rsmq):
    env.create_queues("q")
    looks, seen = Looks(), []
    worker = env.create_worker(middleware=[looks])
    worker.listener("q", batch=(3, 1000))(seen.append)
    with worker:
        rsmq.send_messages("q", ["1", "2"])
        wait_for_looks(looks)
        assert env.raw.hkeys(f"{env.ns}:x:held:{worker.name}") == [b""]
        assert not seen
        assert not [name for name in env.fields("q") if name.endswith(":rc")]
        rsmq.send_message("q", "3")
        wait_until(lambda: env.is_empty("q"))

    assert seen == [["1", "2", "3"]]


def test_a_batch_that_is_not_full_begins_when_its_first_message_has_waited(env, rsmq):
    env.create_queues("q")
    seen = []
    worker = env.create_worker()
    worker.listener("q", batch=(100, 0.3))(seen.append)
    with worker:
        rsmq.send_messages("q", ["1", "2"])
        wait_until(lambda: env.is_empty("q"))

    assert [body for bodies in seen for body in bodies] == ["1", "2"]


def test_nothing_is_in_flight_when_a_worker_stops_whose_batch_waits(env, rsmq):
    env.create_queues("q")
    looks, seen = Looks(), []
    worker = env.create_worker(middleware=[looks])
    worker.listener("q", batch=(3, 1000))(seen.append)
    id = rsmq.send_message("q", "1")
    scores = env.scores("q")
    with worker:
        wait_for_looks(looks)

    assert not seen
    assert env.scores("q") == scores
    assert env.fields("q") == {id: b"1"}


def test_a_run_until_the_queue_is_empty_does_not_wait(env, rsmq):
    env.create_queues("q")
    seen = []
    worker = env.create_worker()
    worker.listener("q", batch=(100, 1000))(seen.append)
    rsmq.send_messages("q", ["1", "2"])
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    assert seen == [["1", "2"]]


def test_workers_that_share_a_queue_get_full_batches_only(env, rsmq):
    env.create_queues("q")
    sizes = []
    workers = [env.create_worker(concurrency=2) for _ in range(3)]
    for worker in workers:
        worker.listener("q", batch=(10, 1000))(lambda bodies: sizes.append(len(bodies)))
        worker.start()
    for number in range(200):
        rsmq.send_messages("q", ["m"] * (number % 3))
    left = sum(number % 3 for number in range(200)) % 10
    rsmq.send_messages("q", ["m"] * (10 - left))
    wait_until(lambda: env.is_empty("q"))

    assert set(sizes) == {10}


def test_a_batch_that_waits_does_not_delay_other_queues(env, rsmq):
    env.create_queues("q", "other")
    seen = []
    looks = Looks()
    worker = env.create_worker(concurrency=1, middleware=[looks])
    worker.listener("q", batch=(3, 1000), priority=10)(lambda bodies: seen.append(len(bodies)))
    worker.listener("other")(seen.append)
    with worker:
        rsmq.send_message("q", "1")
        wait_for_looks(looks)
        rsmq.send_message("other", "x")
        wait_until(lambda: seen == ["x"])
        rsmq.send_messages("q", ["2", "3"])
        wait_until(lambda: seen == ["x", 3])


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        ((100,), InvalidFormat, r"\(100, 5\)"),
        ((0, 5), InvalidValue, "batch"),
        ([100, 5], InvalidFormat, "as in \\(100, 5\\)"),
        ((100, -1), InvalidValue, "seconds of batch"),
        ((100, "soon"), InvalidValue, "seconds of batch"),
        (("many", 5), InvalidValue, "batch"),
    ],
)
def test_invalid_batches_are_refused(env, batch, error, text):
    worker = env.create_worker()

    with pytest.raises(error, match=text):
        worker.listener("q", batch=batch)(print)
