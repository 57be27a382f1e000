"""The blocks consume and processing. The tests also check the raw keys."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta

import pytest

from rsmq import (
    JSON,
    RSMQ,
    AsyncRSMQ,
    InvalidFormat,
    InvalidValue,
    Message,
    MissingParameter,
    QueueNotFound,
)
from rsmq._sync import consuming as synchronous
from rsmq.operations import batches
from rsmq.waiting import consuming as asynchronous
from tests.expect import refused
from tests.scale import WAIT_SECONDS


class Boom(Exception):
    """An exception of a handler."""


class Clock:
    """A monotonic clock that moves only by hand."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The clock of leases."""
    clock = Clock()
    for module in (asynchronous, synchronous, batches):
        monkeypatch.setattr(module, "monotonic", clock)
    return clock


@pytest.fixture
def ids(env, queue):
    """The ids of five messages in the queue, whose bodies are a to e."""
    return env.rsmq.send_messages(queue, list("abcde"))


def sent_ms(id):
    return int(id[:10], 36) // 1000


def is_visible_at_its_place(env, queue, id):
    return env.scores(queue)[id] == sent_ms(id)


def counts(env, queue, ids):
    """Return the receive count of each message as it is stored; None before the first receive."""
    fields = env.fields(queue)
    return [fields.get(f"{id}:rc") for id in ids]


# consume: the messages of the loop.


def test_messages_are_received_one_at_a_time_and_stay_in_flight(env, queue, ids):
    before = env.now_ms()
    with env.rsmq.consume(queue, wait=0) as messages:
        first = next(iter(messages))
        assert isinstance(first, Message)
        assert (first.id, first.body, first.receive_count) == (ids[0], "a", 1)
        assert counts(env, queue, ids) == ["1", None, None, None, None]
        assert [each.body for each in messages] == ["b", "c", "d", "e"]

    assert counts(env, queue, ids) == ["1"] * 5
    assert all(before + 30_000 <= score for score in env.scores(queue).values())
    assert env.fields(queue)["totalrecv"] == "5"


def test_a_batch_is_prefetched(env, queue, ids):
    with env.rsmq.consume(queue, wait=0, batch=2) as messages:
        bodies = []
        for message in messages:
            bodies.append(message.body)
            if len(bodies) == 1:
                assert counts(env, queue, ids) == ["1", "1", None, None, None]

    assert bodies == list("abcde")


def test_a_loop_that_waits_ends_when_no_message_comes_in_time(env, queue, ids):
    with env.rsmq.consume(queue, wait=timedelta(milliseconds=30), batch=9) as messages:
        assert [each.id for each in messages] == ids
        late = env.rsmq.send_message(queue, "late")
        assert [each.id for each in messages] == [late]  # a second loop receives again


def test_several_queues_have_priority_in_their_order(env, queue):
    env.rsmq.create_queue("p", vt=7)
    env.rsmq.send_messages(queue, ["a", "b"])
    env.rsmq.send_messages("p", ["c"])
    with env.rsmq.consume(["p", queue], wait=0, batch=2, codec=JSON, vt=60) as messages:
        assert [(each.queue, each.raw) for each in messages] == [
            ("p", b"c"), (queue, b"a"), (queue, b"b"),
        ]  # fmt: skip
    now = env.now_ms()
    for name in ("p", queue):
        assert all(now + 50_000 < score <= now + 60_000 for score in env.scores(name).values())


def test_the_codec_decodes_the_bodies(env, queue):
    env.rsmq.send_message(queue, {"n": 1}, codec=JSON)
    with env.rsmq.consume(queue, wait=0, codec=JSON) as messages:
        assert [each.body for each in messages] == [{"n": 1}]


def test_more_queues_than_one_step_may_have(env, queue, monkeypatch):
    monkeypatch.setattr(batches, "QUEUES_PER_STEP", 1)
    env.rsmq.create_queue("p")
    ids = [*env.rsmq.send_messages("p", ["a", "b"]), env.rsmq.send_message(queue, "c")]
    with env.rsmq.consume(["p", queue], wait=0, batch=3) as messages:
        assert [next(messages).id, next(messages).id] == ids[:2]

    assert is_visible_at_its_place(env, queue, ids[2])
    assert counts(env, queue, ids[2:]) == ["1"]


# consume: the end of the block.


def test_break_releases_what_was_not_yielded(env, queue, ids):
    with env.rsmq.consume(queue, batch=4) as messages:
        for message in messages:
            if message.body == "b":
                break

    assert [is_visible_at_its_place(env, queue, id) for id in ids] == [False, False] + [True] * 3
    assert counts(env, queue, ids) == ["1", "1", "1", "1", None]
    assert [each.id for each in env.rsmq.receive_messages(queue, 9)] == ids[2:]


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_releases_what_was_not_yielded(env, queue, ids, error):
    with pytest.raises(error), env.rsmq.consume(queue, batch=4) as messages:
        for message in messages:
            assert message.id == ids[0]
            raise error

    assert [is_visible_at_its_place(env, queue, id) for id in ids] == [False] + [True] * 4


def test_a_block_without_a_loop_receives_nothing(env, queue, ids):
    state = env.state()
    with env.rsmq.consume(queue, batch=9):
        pass

    assert env.state() == state


def test_messages_of_other_queues_are_released_if_a_queue_was_deleted(env, queue, ids):
    for name in ("gone", "kept"):
        env.rsmq.create_queue(name)
    env.rsmq.send_messages("gone", ["x", "y"])
    kept = env.rsmq.send_message("kept", "z")
    with env.rsmq.consume(["gone", "kept", queue], batch=9) as messages:
        assert next(messages).body == "x"
        env.rsmq.delete_queue("gone")

    assert is_visible_at_its_place(env, "kept", kept)
    assert all(is_visible_at_its_place(env, queue, id) for id in ids)


def test_a_message_that_another_consumer_received_since_is_not_released(env, queue, ids):
    with env.rsmq.consume(queue, vt=60, batch=2) as messages:
        next(messages)
        env.elapse(queue, 61)
        assert len(env.rsmq.receive_messages(queue, 5)) == 5

    assert counts(env, queue, ids[:2]) == ["2", "2"]
    assert not is_visible_at_its_place(env, queue, ids[1])


def test_an_error_of_a_receive_ends_the_loop(env, queue, ids):
    seen = []
    with (
        refused(QueueNotFound, "Queue not found"),
        env.rsmq.consume([queue, "p"], wait=0, batch=5) as messages,
    ):
        seen += messages

    assert seen == []
    assert counts(env, queue, ids) == [None] * 5


# consume: leases.


def test_a_prefetched_message_whose_lease_has_ended_is_not_yielded(env, queue, ids, clock):
    with env.rsmq.consume(queue, wait=0, vt=10, batch=3) as messages:
        first = next(messages)
        clock.now += 10
        env.elapse(queue, 10)
        again = next(messages)
        assert (first.id, first.receive_count) == (ids[0], 1)
        # The two that have not been received yet were visible earlier.
        assert (again.id, again.receive_count) == (ids[3], 1)
        rest = [(each.id, each.receive_count) for each in messages]

    assert rest == [(ids[4], 1), (ids[0], 2), (ids[1], 2), (ids[2], 2)]
    assert counts(env, queue, ids) == ["2", "2", "2", "1", "1"]


def test_a_prefetched_message_is_yielded_until_its_lease_ends(env, queue, ids, clock):
    with env.rsmq.consume(queue, wait=0, vt=10, batch=5) as messages:
        next(messages)
        clock.now += 9.99
        assert next(messages).id == ids[1]
        clock.now += 0.01
        with pytest.raises(StopIteration):
            next(messages)

    assert counts(env, queue, ids) == ["1"] * 5
    assert not is_visible_at_its_place(env, queue, ids[4])  # hidden until its timeout ends


def test_without_vt_the_lease_lasts_for_the_vt_that_the_queue_has_then(env, queue, ids, clock):
    with env.rsmq.consume(queue, wait=0, batch=2) as messages:
        assert next(messages).id == ids[0]
        clock.now += 29
        assert next(messages).id == ids[1]
        env.rsmq.set_queue_attributes(queue, vt=5)
        assert next(messages).id == ids[2]
        clock.now += 5
        assert next(messages).id == ids[4]  # not ids[3]


def test_each_queue_has_its_own_lease(env, queue, ids, clock):
    env.rsmq.create_queue("short", vt=5)
    env.raw.hset(env.hash("short"), "vt", "2.5")  # as some clients store it
    env.rsmq.send_messages("short", ["x", "y", "z"])
    with env.rsmq.consume(["short", queue], wait=0, batch=5) as messages:
        assert next(messages).body == "x"
        clock.now += 2.4
        assert next(messages).body == "y"
        clock.now += 0.2
        assert [next(messages).id, next(messages).id] == ids[:2]


def test_a_lease_begins_before_the_receive_is_sent(env, queue, ids, monkeypatch):
    monkeypatch.setattr(batches, "monotonic", lambda: 0.0)
    for module in (asynchronous, synchronous):
        monkeypatch.setattr(module, "monotonic", lambda: 11.0)
    with env.rsmq.consume(queue, wait=0, vt=10, batch=3) as messages:
        assert [each.id for each in messages] == [ids[0], ids[3]]


def test_without_a_visibility_timeout_the_first_of_each_batch_is_yielded(env, queue, clock):
    id = env.rsmq.send_message(queue, "a")
    with env.rsmq.consume(queue, vt=0, batch=3) as messages:
        for message, count in zip(messages, (1, 2, 3), strict=False):
            assert (message.id, message.receive_count) == (id, count)
            if count == 3:
                break


class TestOneServer:
    @pytest.fixture
    def backend(self):
        return "redis"

    def test_a_block_whose_release_fails_ends_without_an_error(self, env, queue, ids):
        client = env.client()
        with client.consume(queue, batch=3) as messages:
            next(messages)
            client.close()

        assert not any(is_visible_at_its_place(env, queue, id) for id in ids[:3])

    def test_the_lease_begins_after_the_wait(self, env, queue, monkeypatch):
        times = iter([0.0])
        monkeypatch.setattr(batches, "monotonic", lambda: next(times, 100.0))
        for module in (asynchronous, synchronous):
            monkeypatch.setattr(module, "monotonic", lambda: 101.0)

        def send():
            with RSMQ.from_url(env.url, ns=env.ns) as producer:
                producer.send_messages(queue, ["a", "b"])

        timer = threading.Timer(0.1, send)
        timer.start()
        with env.rsmq.consume(queue, vt=10, batch=2) as messages:
            bodies = [next(messages).body, next(messages).body]
        timer.join()

        assert bodies == ["a", "b"]


# consume: wrong arguments and wrong use.


@pytest.mark.refused
@pytest.mark.parametrize(
    ("args", "options", "kind", "text"),
    [
        ((None,), {}, MissingParameter, "No qname supplied"),
        (([],), {}, MissingParameter, "No qname supplied"),
        (("a b",), {}, InvalidFormat, "Invalid qname format"),
        (("q",), {"batch": 0}, InvalidValue, "batch must be between 1 and 10000"),
        (("q",), {"batch": 10_001}, InvalidValue, "batch must be between 1 and 10000"),
        (("q",), {"wait": -1}, InvalidValue, "wait must be between 0 and 9999999"),
        (("q",), {"vt": "30"}, InvalidValue, "vt must be between 0 and 9999999"),
        (("q",), {"codec": "json"}, InvalidFormat, "Invalid codec format"),
    ],
)
def test_wrong_arguments_are_refused_by_the_call(env, args, options, kind, text):
    with refused(kind, text):
        env.rsmq.consume(*args, **options)


def test_a_loop_outside_of_the_block_is_refused(env, queue, ids):
    state = env.state()
    consumer = env.rsmq.consume(queue, wait=0)
    with pytest.raises(
        TypeError, match=r"consume\(\) receives only inside its block: (async )?with"
    ):
        iter(consumer)
    with consumer as messages:
        pass
    with pytest.raises(TypeError, match="only inside its block"):
        next(messages)
    assert env.state() == state


# processing.


def test_processing_deletes_the_message(env, queue, ids):
    message = env.rsmq.receive_message(queue)
    with env.rsmq.processing(message) as same:
        assert same is message
        assert ids[0] in env.scores(queue)

    assert ids[0] not in env.scores(queue)
    assert not any(name.startswith(ids[0]) for name in env.fields(queue))


def test_leaving_the_block_early_is_success(env, queue, ids):
    def process():
        for message in env.rsmq.receive_messages(queue, 3):
            with env.rsmq.processing(message):
                if message.body == "a":
                    continue
                if message.body == "b":
                    return

    process()

    assert list(env.scores(queue)) == [ids[3], ids[4], ids[2]]


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt, SystemExit])
def test_processing_releases_the_message_on_an_exception(env, queue, ids, error):
    message = env.rsmq.receive_message(queue)
    with pytest.raises(error), env.rsmq.processing(message):
        raise error

    assert is_visible_at_its_place(env, queue, ids[0])
    assert counts(env, queue, ids[:1]) == ["1"]
    assert env.rsmq.receive_message(queue).id == ids[0]


@pytest.mark.parametrize("fails", [False, True])
def test_processing_of_a_message_that_was_received_again(env, queue, ids, caplog, fails):
    def finish():
        if fails:
            raise Boom

    message = env.rsmq.receive_message(queue, vt=60)
    with caplog.at_level(logging.WARNING, "rsmq.consuming"):
        try:
            with env.rsmq.processing(message):
                env.elapse(queue, 61)
                others = env.rsmq.receive_messages(queue, 5)
                state = env.state()
                finish()
        except Boom:
            assert fails

    assert ids[0] in [each.id for each in others]
    assert env.state() == state
    texts = [each.getMessage() for each in caplog.records]
    if fails:
        assert texts == []
    else:
        (text,) = texts
        assert text.startswith(f"queue q: message {ids[0]} was not deleted after its processing")
        assert "Use a longer vt" in text


def test_processing_of_a_message_whose_lease_ended_and_that_nobody_received(env, queue, ids):
    message = env.rsmq.receive_message(queue, vt=0)
    with env.rsmq.processing(message):
        pass

    assert ids[0] not in env.scores(queue)


def test_processing_of_a_message_that_left_the_queue(env, queue, ids, caplog):
    env.rsmq.create_queue("p")
    with caplog.at_level(logging.INFO, "rsmq.consuming"):
        with env.rsmq.processing(env.rsmq.receive_message(queue)) as message:
            env.rsmq.move_messages([message], "p")
        with env.rsmq.processing(env.rsmq.receive_message(queue)) as message:
            env.rsmq.delete_message(message)
        with pytest.raises(Boom), env.rsmq.processing(env.rsmq.receive_message(queue)) as message:
            env.rsmq.delete_queue(queue)
            raise Boom

    assert list(env.scores("p")) == [ids[0]]
    assert caplog.records == []


@pytest.mark.refused
@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        (None, MissingParameter, "No qname supplied"),
        ("q", InvalidFormat, "Invalid message format"),
        (b"q", InvalidFormat, "Invalid message format"),
        (["m"], InvalidFormat, "Invalid message format"),
    ],
)
def test_processing_of_other_values_is_refused_by_the_call(env, queue, message, kind, text):
    with refused(kind, text) as caught:
        env.rsmq.processing(message)
    assert caught.error.hint


def test_processing_of_a_stored_message_is_refused(env, queue, ids):
    stored = env.rsmq.get_message(queue, ids[0])
    with refused(InvalidFormat, "Invalid id format") as caught:
        env.rsmq.processing(stored)
    assert "not a receipt" in str(caught.error)


# Both.


def test_a_loop_with_processing_that_fails_leaves_nothing_in_flight(env, queue, ids):
    with pytest.raises(Boom), env.rsmq.consume(queue, batch=4) as messages:
        for message in messages:
            with env.rsmq.processing(message):
                if message.body == "c":
                    raise Boom

    assert list(env.scores(queue)) == ids[2:]
    assert all(is_visible_at_its_place(env, queue, id) for id in ids[2:])
    assert counts(env, queue, ids) == [None, None, "1", "1", None]


class TestCancellation:
    """A task that is cancelled at any moment: nothing is lost, and nothing stays in flight."""

    @pytest.fixture
    def mode(self):
        return "sync"

    @pytest.fixture(params=["redis", "memory"])
    def backend(self, request):
        return request.param

    def test_a_cancelled_loop_releases_its_messages(self, env, queue):
        async def work(client, processed):
            async with client.consume(queue, batch=3) as messages:
                async for message in messages:
                    async with client.processing(message):
                        await asyncio.sleep(0)
                        processed.append(message.id)

        async def main():
            async with AsyncRSMQ.from_url(env.url, ns=env.ns) as client:
                ends = set()
                for steps in range(60):
                    ids = env.rsmq.send_messages(queue, list("abcde"))
                    processed = []
                    task = asyncio.create_task(work(client, processed))
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    left = env.scores(queue)
                    # A message whose block was cancelled while it was deleted may be in flight.
                    in_flight = {id for id in left if left[id] != sent_ms(id)}
                    assert in_flight <= set(processed[-1:]), steps
                    assert set(ids) - set(left) <= set(processed)
                    assert len(set(processed) & set(left)) <= 1
                    ends.add(len(left))
                    env.rsmq.purge_queue(queue)
                return ends

        assert len(asyncio.run(main())) > 1

    def test_a_loop_that_waits_can_be_cancelled(self, env, queue):
        async def main():
            async with AsyncRSMQ.from_url(env.url, ns=env.ns) as client:
                seen = asyncio.Event()

                async def work():
                    async with client.consume(queue, batch=2) as messages:
                        async for _ in messages:
                            seen.set()

                task = asyncio.create_task(work())
                id = env.rsmq.send_message(queue, "a")
                await asyncio.wait_for(seen.wait(), WAIT_SECONDS)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                return id

        id = asyncio.run(main())
        assert counts(env, queue, [id]) == ["1"]


@pytest.mark.parametrize("block", ["consume", "processing"])
def test_with_and_async_with_are_not_interchangeable(block):
    message = Message("q", "a" * 32, b"m", 1, 5)
    argument = "q" if block == "consume" else message
    plain = getattr(RSMQ.from_url("memory://"), block)(argument)
    with (
        pytest.raises(TypeError, match=r"needs 'async with'. For 'with', use RSMQ"),
        getattr(AsyncRSMQ.from_url("memory://"), block)(argument),
    ):
        pass

    async def enter():
        async with plain:
            pass

    with pytest.raises(TypeError, match=r"needs 'with'. For 'async with', use AsyncRSMQ"):
        asyncio.run(enter())
