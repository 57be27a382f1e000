"""The simulated RedisRQ replies as RedisRQ does."""

from __future__ import annotations

import threading

import pytest
import redis

from tests.expect import refused
from tests.scale import WAIT_SECONDS


@pytest.fixture
def client(redisrq):
    retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    with redis.Redis.from_url(redisrq.url, retry=retry, decode_responses=True) as client:
        yield client


def test_ids_are_times_and_numbers_from_one(client):
    first, second = client.execute_command("RQ.PUSH", "q", "a", "b")
    (third,) = client.execute_command("RQ.PUSH", "q", "c")

    times = [tuple(map(int, id.split("-"))) for id in (first, second, third)]
    assert times == sorted(times)
    assert times[0][1] == 1
    assert times[1] == (times[0][0], 2) or times[1][1] == 1


def test_pop_empties_keys_in_order_up_to_the_count(client):
    a = client.execute_command("RQ.PUSH", "a", "1", "2")
    b = client.execute_command("RQ.PUSH", "b", "3", "4")

    popped = client.execute_command("RQ.POP", "COUNT", 3, "a", "b", "missing")
    assert popped == [["a", a[0], "1"], ["a", a[1], "2"], ["b", b[0], "3"]]
    assert client.execute_command("RQ.POP", "a", "b") == [["b", b[1], "4"]]
    assert client.execute_command("RQ.POP", "BLOCK", 0, "a", "b") == []
    assert client.execute_command("RQ.INFO", "a") == ["undelivered", 0, "delivered", 2]


def test_blocking_pop_replies_nil_on_timeout(client):
    assert client.execute_command("RQ.POP", "COUNT", 2, "BLOCK", 1, "q") is None


def test_blocking_pop_returns_up_to_its_count_from_one_key(client, redisrq):
    replies = []

    def pop():
        with redis.Redis.from_url(redisrq.url, decode_responses=True) as waiting:
            replies.append(waiting.execute_command("RQ.POP", "COUNT", 2, "BLOCK", 10_000, "a", "b"))

    waiting_thread = threading.Thread(target=pop)
    waiting_thread.start()
    ids = client.execute_command("RQ.PUSH", "b", "1", "2", "3")
    waiting_thread.join(WAIT_SECONDS)

    assert replies == [[["b", ids[0], "1"], ["b", ids[1], "2"]]]


def test_ack_replies_the_ids_that_were_delivered(client):
    assert client.execute_command("RQ.ACK", "q", "1-1") is None
    first, second = client.execute_command("RQ.PUSH", "q", "a", "b")
    client.execute_command("RQ.POP", "q")

    assert client.execute_command("RQ.ACK", "q", second, "1-1", "no id", first) == [first]
    assert client.execute_command("RQ.INFO", "q") == ["undelivered", 1, "delivered", 0]


def test_recover_returns_idle_messages_and_moves_them_to_the_tail(client, redisrq):
    assert client.execute_command("RQ.RECOVER", "q", 10, 1000) is None
    first, second = client.execute_command("RQ.PUSH", "q", "a", "b")
    client.execute_command("RQ.POP", "COUNT", 2, "q")
    assert client.execute_command("RQ.RECOVER", "q", 10, 1000) == []
    redisrq.advance_time("q", 2)
    assert client.execute_command("RQ.RECOVER", "q", 1, 1000) == [[first, "a"]]

    pending = client.execute_command("RQ.INSPECT", "q", "PENDING", 0, 10)
    assert [(id, body, count) for id, body, _, _, count in pending] == [
        (second, "b", 1),
        (first, "a", 2),
    ]
    assert [idle >= 2000 for *_, idle, _ in pending] == [True, False]
    assert client.execute_command("RQ.INFO", "q") == ["undelivered", 0, "delivered", 2]


def test_recover_with_idle_time_zero_returns_messages_repeatedly(client):
    first, second = client.execute_command("RQ.PUSH", "q", "a", "b")
    client.execute_command("RQ.POP", "COUNT", 2, "q")

    assert client.execute_command("RQ.RECOVER", "q", 5, 0) == [
        [first, "a"], [second, "b"], [first, "a"], [second, "b"], [first, "a"]
    ]  # fmt: skip


def test_inspect_starts_at_an_index_from_head_or_tail(client):
    ids = client.execute_command("RQ.PUSH", "q", "a", "b", "c")

    assert client.execute_command("RQ.INSPECT", "q", 1, 10) == [[ids[1], "b"], [ids[2], "c"]]
    assert client.execute_command("RQ.INSPECT", "q", -2, 1) == [[ids[1], "b"]]
    assert client.execute_command("RQ.INSPECT", "q", 3, 1) == []
    assert client.execute_command("RQ.INSPECT", "q", -4, 1) == []
    assert client.execute_command("RQ.INSPECT", "q", "PENDING", 0, 1) == []
    with pytest.raises(redis.ResponseError, match="usage"):
        client.execute_command("RQ.INSPECT", "q", 0, 0)


def test_info_and_inspect_of_a_missing_key_are_errors(client):
    for command in (("RQ.INFO", "q"), ("RQ.INSPECT", "q", 0, 1)):
        with refused(redis.ResponseError, "the key does not exist"):
            client.execute_command(*command)


def test_keys_of_wrong_type_are_errors(client):
    client.set("text", "x")
    client.execute_command("RQ.PUSH", "q", "a")

    for command in (("RQ.PUSH", "text", "x"), ("RQ.POP", "text", "q"), ("RQ.INFO", "text")):
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            client.execute_command(*command)
    assert len(client.execute_command("RQ.POP", "COUNT", 5, "q", "text")) == 1
    assert (client.type("q"), client.type("text"), client.type("none")) == (
        "RELIABLEQ", "string", "none"
    )  # fmt: skip
    assert list(client.scan_iter(match="q*", _type="RELIABLEQ")) == ["q"]
    assert client.info("server")["run_id"]


def test_emptied_queue_still_exists(client):
    (id,) = client.execute_command("RQ.PUSH", "q", "a")
    client.execute_command("RQ.POP", "q")
    client.execute_command("RQ.ACK", "q", id)

    assert client.exists("q") == 1
    assert client.execute_command("RQ.INFO", "q") == ["undelivered", 0, "delivered", 0]


def test_bodies_are_bytes(redisrq):
    body = bytes(range(256)) + b"\r\n$-1\r\n"
    with redis.Redis.from_url(redisrq.url) as client:
        client.execute_command("RQ.PUSH", "q", body, b"")

        assert [each[1] for each in client.execute_command("RQ.INSPECT", "q", 0, 9)] == [body, b""]


def test_inspect_works_in_a_transaction(client):
    client.execute_command("RQ.PUSH", "q", "a", "b")
    client.execute_command("RQ.POP", "q")
    with client.pipeline(transaction=True) as together:
        together.execute_command("RQ.INSPECT", "q", 0, 9)
        together.execute_command("RQ.INSPECT", "q", "PENDING", 0, 9)
        waiting, pending = together.execute()

    assert [each[1] for each in waiting] == ["b"]
    assert [each[1] for each in pending] == ["a"]


def test_client_can_be_disconnected_before_its_command_or_before_the_reply(client, redisrq):
    for executed in (False, True):
        redisrq.drop_next("RQ.PUSH", executed=executed)
        with pytest.raises(redis.ConnectionError):
            client.execute_command("RQ.PUSH", "q", "a")
        assert client.exists("q") == executed


def test_client_disconnected_while_it_waits_receives_nothing(client, redisrq):
    errors = []

    def pop():
        retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        with redis.Redis.from_url(redisrq.url, retry=retry) as waiting:
            try:
                waiting.execute_command("RQ.POP", "BLOCK", -1, "q")
            except redis.ConnectionError as error:
                errors.append(error)

    waiting_thread = threading.Thread(target=pop)
    waiting_thread.start()
    while not errors:
        redisrq.kill_connections()
        waiting_thread.join(0.01)
    client.connection_pool.disconnect()
    client.execute_command("RQ.PUSH", "q", "a")

    assert client.execute_command("RQ.INFO", "q") == ["undelivered", 1, "delivered", 0]
