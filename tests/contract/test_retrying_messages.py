"""Messages that wait for a retry: what a worker stores of them, and what makes that void."""

from __future__ import annotations

import pytest

from rsmq.operations.reading import get_messages
from rsmq.wire.keys import Namespace
from rsmq.worker.operations import (
    Identity,
    ReceiveRequest,
    Settlement,
    receive_for_worker,
    register_worker,
    settle_messages,
)
from tests.contract.conftest import CLUSTERS, Env

DAY = 86_400_000


@pytest.fixture(params=["redis", "redis-6.2", *CLUSTERS, "redis-py, RESP3", "memory"])
def env(request, mode):
    env = Env(request.param, mode, request)
    env.keys = Namespace(env.ns).queue("q")
    env.me = Identity(Namespace(env.ns), "w", "mine")
    env.rsmq.create_queue("q")
    assert env.rsmq.run(register_worker(env.me, {}, ttl=10, dead="")) is None
    yield env
    env.close()


def receive(env):
    request = ReceiveRequest(env.keys, 60_000, 1, 0, 10_000)
    [result] = env.rsmq.run(receive_for_worker(env.me, [request], 10_000))
    return result.ids


def retry(env, *ids, error="ValueError: boom", ms=90_000, count=1):
    group = Settlement(env.keys, "retry", count, [(id, ms, error) for id in ids])
    return env.rsmq.run(settle_messages(env.me, [group]))


def failed(env, **options):
    """Send a message, which a worker receives and hides until its next attempt."""
    [id] = env.rsmq.send_messages("q", ["x"])
    assert receive(env) == [id]
    assert retry(env, id, **options) == b"1"
    return id


def stored(env):
    return env.raw.hgetall(env.keys.retrying)


def counts(env):
    found = env.rsmq.count_messages("q")
    return found.visible, found.in_flight, found.retrying, found.delayed


def state(env, id):
    message = env.rsmq.get_message("q", id)
    return message.state, message.last_error


def created(env):
    return env.raw.hget(env.keys.hash, "created")


def test_retry_hides_the_message_and_stores_the_error(env):
    before = env.now_ms()
    id = failed(env)

    assert stored(env) == {b"": created(env), id.encode(): b"1:ValueError: boom"}
    assert 7 * DAY - 5000 < env.raw.pttl(env.keys.retrying) <= 7 * DAY
    assert env.raw.hget(env.keys.hash, f"{id}:rc") == b"1"
    assert env.raw.zscore(env.keys.zset, id) >= before + 90_000
    assert env.raw.hgetall(env.me.in_flight_key) == {b"": b"mine"}


def test_each_read_tells_messages_that_wait_for_a_retry_from_those_in_flight(env):
    id = failed(env)
    in_flight, visible = env.rsmq.send_messages("q", ["in flight", "visible"])
    env.rsmq.receive_message("q", vt=100)
    delayed = env.rsmq.send_message("q", "later", delay=100)
    before = env.state()

    assert counts(env) == (1, 1, 1, 1)
    message = env.rsmq.get_message("q", id)
    assert (message.state, message.last_error) == ("retrying", "ValueError: boom")
    assert message.visible_at_ms == env.raw.zscore(env.keys.zset, id)
    assert (message.receive_count, message.last_received_ms) == (1, None)
    assert state(env, in_flight) == ("in_flight", None)
    for each in (0, -1):
        assert env.rsmq.peek_messages("q", each, state="retrying") == [message]
        [of_state] = env.rsmq.peek_messages("q", each, state="in_flight")
        assert of_state.id == in_flight
    found = {each.id: each.last_error for each in env.rsmq.peek_messages("q")}
    assert found == {visible: None, id: "ValueError: boom", in_flight: None, delayed: None}
    looked_up = env.rsmq.run(get_messages(env.keys, [id.encode(), b"none", in_flight.encode()]))
    assert [each and each.last_error for each in looked_up.messages] == [
        "ValueError: boom",
        None,
        None,
    ]
    assert env.state() == before


def test_message_that_is_visible_again_does_not_wait(env):
    id = failed(env, ms=0)

    assert state(env, id) == ("visible", None)
    assert counts(env) == (1, 0, 0, 0)


def test_receive_by_any_client_makes_the_error_void(env):
    id = failed(env)
    env.rsmq.change_message_visibility("q", id, 0)
    env.rsmq.receive_message("q", vt=100)

    assert stored(env)[id.encode()] == b"1:ValueError: boom"
    assert state(env, id) == ("in_flight", None)
    assert counts(env) == (0, 1, 0, 0)


def test_wait_that_an_operator_changes_stays_a_wait(env):
    id = failed(env)
    env.rsmq.change_message_visibility("q", id, 500)

    assert state(env, id) == ("retrying", "ValueError: boom")


def test_message_that_is_deleted_without_its_record_is_not_counted(env):
    id = failed(env)
    env.raw.zrem(env.keys.zset, id)
    env.raw.hdel(env.keys.hash, id, f"{id}:rc", f"{id}:fr")  # as the Node client does

    assert counts(env) == (0, 0, 0, 0)


def test_message_that_is_handled_after_a_retry_leaves_no_record(env):
    id = failed(env, ms=0)
    assert receive(env) == [id]
    assert env.rsmq.run(settle_messages(env.me, [Settlement(env.keys, "delete", 2, [id])])) == b"1"

    assert stored(env) == {b"": created(env)}


def test_last_error_is_that_of_the_last_attempt(env):
    id = failed(env, ms=0)
    receive(env)
    retry(env, id, error="KeyError: 'b'", count=2)

    assert stored(env)[id.encode()] == b"2:KeyError: 'b'"
    assert state(env, id) == ("retrying", "KeyError: 'b'")


def test_repeated_retry_stores_the_same(env):
    id = failed(env)
    before = stored(env)
    assert retry(env, id) == b"1"
    assert retry(env, id, error="late", count=7) == b"2"

    assert stored(env) == before


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("E: " + "é" * 600, "E: " + "é" * 497),
        ("E: a\nb\0c", "E: a\nb\0c"),
        ("E: \udc80 \ud800", "E: \\udc80 \\ud800"),
        ("", ""),
    ],
)
def test_error_of_any_text_is_stored_up_to_a_bound(env, error, expected):
    id = failed(env, error=error)

    assert state(env, id) == ("retrying", expected)


@pytest.mark.parametrize("value", [b"x", b"1", b"01:x", b"-1:x", b"2:x", b"", b"9" * 30])
def test_record_that_is_not_valid_counts_as_none(env, value):
    id = failed(env)
    env.raw.hset(env.keys.retrying, id, value)

    assert state(env, id) == ("in_flight", None)
    assert counts(env) == (0, 1, 0, 0)


def test_bytes_that_are_not_utf_8_are_replaced(env):
    id = failed(env)
    env.raw.hset(env.keys.retrying, id, b"1:\xff")

    assert state(env, id) == ("retrying", "\ufffd")


def test_hash_of_another_type_changes_nothing_else(env):
    env.raw.set(env.keys.retrying, "not ours")
    id = failed(env)

    assert env.raw.get(env.keys.retrying) == b"not ours"
    assert state(env, id) == ("in_flight", None)
    assert counts(env) == (0, 1, 0, 0)
    assert [each.state for each in env.rsmq.peek_messages("q")] == ["in_flight"]


def test_records_of_a_queue_that_was_created_again_are_void(env):
    id = failed(env)
    env.raw.hset(env.keys.retrying, "", "1")

    assert state(env, id) == ("in_flight", None)
    assert counts(env) == (0, 1, 0, 0)


def test_queue_takes_its_errors_along(env):
    failed(env)
    env.rsmq.purge_queue("q")
    assert not env.raw.exists(env.keys.retrying)
    failed(env)
    env.rsmq.delete_queue("q")

    assert not env.raw.exists(env.keys.retrying)


@pytest.mark.parametrize("env", ["redis", "redis-6.2"], indirect=True)
def test_errors_are_bounded(env):
    ids = env.rsmq.send_messages("q", ["x"] * 2)
    receive(env)
    for begin in range(0, 100_000, 10_000):
        stale = {f"{number:032d}": "1:E" for number in range(begin, begin + 10_000)}
        env.raw.hset(env.keys.retrying, mapping={"": created(env)} | stale)
    for id in ids:
        retry(env, id)
        assert env.raw.hlen(env.keys.retrying) <= 100_001

    # Messages that have left the queue make room.
    assert all(env.raw.hexists(env.keys.retrying, id) for id in ids)
    assert env.raw.hlen(env.keys.retrying) < 99_900


def test_long_queue_is_counted_and_peeked_in_steps(env):
    ids = env.rsmq.send_messages("q", ["m"] * 2500)
    receive(env)
    retry(env, *ids[::2], ms=900_000)

    def peek(start, count, state):
        return [m.id for m in env.rsmq.peek_messages("q", start, count, state=state)]

    assert counts(env) == (0, 1250, 1250, 0)
    assert sorted(peek(0, 3000, "retrying")) == sorted(ids[::2])
    assert sorted(peek(0, 3000, "in_flight")) == sorted(ids[1::2])
    assert len(peek(-7, 10, "retrying")) == 7


@pytest.mark.parametrize("env", ["redis"], indirect=True)
def test_queue_without_failures_costs_no_command(env):
    """Neither when a message is handled, nor when a queue without hidden messages is counted."""
    [id] = env.rsmq.send_messages("q", ["x"])
    receive(env)
    delete = settle_messages(env.me, [Settlement(env.keys, "delete", 1, [id])])
    with env.raw.monitor() as monitor:
        env.rsmq.run(delete)
        env.rsmq.count_messages("q")
        env.raw.ping()
        lines = []
        for line in monitor.listen():
            lines.append(line["command"])
            if line["command"] == "PING":
                break

    assert not [line for line in lines if ":x:retrying" in line]
    assert not env.raw.exists(env.keys.retrying)
