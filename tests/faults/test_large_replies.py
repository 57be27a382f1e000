"""Replies that are too large for the server: it closes the connection, and the reply is lost."""

from __future__ import annotations

import pytest
import redis.exceptions as redis_errors

from rsmq import ReplyLost
from rsmq.worker import Worker
from rsmq.worker.operations import receive_for_worker
from rsmq.worker.receive import prefetch
from tests.faults.conftest import Link
from tests.servers import Server, redis_7

#: Twenty of them are more than a reply may have, and ten are less.
BODY = "m" * 100_000
TOO_LARGE = "m" * 1_200_000


@pytest.fixture(scope="module")
def limiting_server():
    """A server that closes a connection whose reply has more than a mebibyte."""
    server = Server(redis_7(), "--client-output-buffer-limit", "normal 1mb 0 0")
    yield server
    server.stop()


@pytest.fixture(params=["sync", "asyncio"])
def link(request, limiting_server):
    link = Link(request.param, limiting_server)
    yield link
    link.close()


@pytest.fixture(params=["open_client", "wrap_redis_py"])
def rsmq(request, link):
    client = getattr(link, request.param)()
    client.create_queue("q", maxsize=-1)
    return client


def receive_until_there_are_some(receive):
    """Return the messages of the first receive that does not fail."""
    for _ in range(10):
        try:
            return receive()
        except redis_errors.ConnectionError:
            pass
    raise AssertionError("every receive fails")


def test_receives_ask_for_less_until_their_replies_arrive(link, rsmq):
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 5)
    sent = {rsmq.send_message("q", BODY) for _ in range(20)}

    received = set()
    while len(received) < 20:
        messages = receive_until_there_are_some(lambda: rsmq.receive_messages("q", 20, vt=0))
        received.update(rsmq.delete_messages(messages))

    assert received == sent
    assert link.scores("dead") == {}


def test_a_consumer_asks_for_less_until_its_replies_arrive(link, rsmq):
    sent = {rsmq.send_message("q", BODY) for _ in range(20)}

    def consume():
        received = set()
        with rsmq.consume("q", wait=0, batch=20, vt=0) as messages:
            for message in messages:
                received.add(message.id)
                rsmq.delete_message(message)
        return received

    assert receive_until_there_are_some(consume) <= sent
    assert link.bodies("q").keys() == set()


def test_a_pop_whose_reply_was_lost_is_followed_by_smaller_ones(link, rsmq):
    for _ in range(40):
        rsmq.send_message("q", BODY)

    with pytest.raises(redis_errors.ConnectionError):
        rsmq.pop_messages("q", 20)
    assert len(rsmq.pop_messages("q", 20)) == 10
    assert len(link.bodies("q")) == 10


def test_a_recover_whose_reply_was_lost_is_followed_by_smaller_ones(link, rsmq):
    for _ in range(20):
        rsmq.send_message("q", BODY)
    for _ in range(20):
        rsmq.receive_message("q")

    def recover():
        return rsmq.recover_messages("q", 20, idle=0, vt=30)

    assert recover() == []
    assert len(recover()) == 10
    assert len(link.scores("q")) == 20


@pytest.mark.parametrize(
    ("receive", "hidden_ms"),
    [
        (lambda rsmq: rsmq.receive_message("q"), 0),
        (lambda rsmq: rsmq.receive_messages(["q", "other"], 8), 0),
        (lambda rsmq: rsmq.recover_messages("q", 8, idle=0, vt=30), 9000),
    ],
)
def test_a_message_whose_reply_is_always_lost_is_an_error_that_names_the_limit(
    link, rsmq, receive, hidden_ms
):
    rsmq.create_queue("other")
    id = rsmq.send_message("q", TOO_LARGE)
    link.raw.hset(f"{link.ns}:q:Q", mapping={f"{id}:rc": 1, f"{id}:fr": 1})

    with pytest.raises(ReplyLost) as raised:
        for _ in range(9):
            link.raw.zadd(f"{link.ns}:q", {id: link.raw.time()[0] * 1000 + hidden_ms})
            # The repeat finds nothing: the first attempt has received the message.
            assert not receive(rsmq)

    assert "client-output-buffer-limit" in str(raised.value)
    assert list(link.scores("q")) == [id]


def test_pops_whose_replies_are_lost_name_the_limit(link, rsmq):
    for _ in range(3):
        rsmq.send_message("q", TOO_LARGE)

    for _ in range(3):
        with pytest.raises(redis_errors.ConnectionError) as raised:
            rsmq.pop_message("q")

    assert any("client-output-buffer-limit" in note for note in raised.value.__notes__)


def test_several_messages_whose_replies_are_lost_are_an_error(link, rsmq):
    for _ in range(5):
        rsmq.send_message("q", TOO_LARGE)

    for _ in range(2):
        with pytest.raises(redis_errors.ConnectionError) as raised:
            rsmq.receive_message("q")
    assert any("client-output-buffer-limit" in note for note in raised.value.__notes__)
    with pytest.raises(ReplyLost):
        rsmq.receive_message("q")


def test_a_smaller_message_is_received_after_three_lost_replies(link, rsmq):
    for _ in range(3):
        rsmq.send_message("q", TOO_LARGE)
    rsmq.send_message("q", "small")

    with pytest.raises(redis_errors.ConnectionError):
        rsmq.receive_message("q")
    assert rsmq.receive_message("q").body == "small"


def test_broken_connections_of_receives_from_an_empty_queue_are_no_error(link, rsmq):
    """A firewall may drop every idle connection."""
    rsmq.receive_message("q")
    for _ in range(7):
        link.proxy.drop = 1
        assert rsmq.receive_message("q") is None
        assert link.proxy.drop == 0


def test_requests_grow_again_after_receives_that_succeed(link, rsmq):
    for _ in range(8):
        rsmq.send_message("q", "small")
    link.proxy.drop = 1
    before = rsmq.receive_messages("q", 8, vt=0)
    while len(messages := rsmq.receive_messages("q", 8, vt=0)) < 8:
        assert len(messages) == 4
    assert len(before) == 4


@pytest.mark.parametrize("link", ["sync"], indirect=True)
def test_a_worker_asks_for_less_and_no_attempt_is_used_up(link):
    rsmq = link.open_client()
    rsmq.create_queue("q", maxsize=-1)
    rsmq.create_queue("dead")
    too_large = rsmq.send_message("q", TOO_LARGE)
    sent = {rsmq.send_message("q", BODY) for _ in range(20)}
    attempts = {}

    worker = Worker(rsmq, concurrency=20, grace=5)

    @worker.listener("q", max_retries=0, dead_letter_queue="dead", batch=20)
    def handle(bodies, messages):
        attempts.update({message.id: message.attempt for message in messages})
        if attempts.keys() == sent:
            worker.stop()

    worker.run()

    assert set(attempts.values()) == {1}
    assert link.scores("dead") == {}
    assert list(link.scores("q")) == [too_large]
    assert link.raw.hget(f"{link.ns}:q:x:unbegun", too_large)


#: The rights of a consumer in docs/security.md.
CONSUMER = (
    "-@all +eval +evalsha +script|load +time +hmget +zadd +hset +hincrby "
    "+hget +hdel +zrem +zscore +zrangebyscore"
)


def test_broken_connections_are_no_error_beside_a_delayed_message(link, rsmq):
    rsmq.receive_message("q")
    id = rsmq.send_message("q", "later", delay=600)
    for _ in range(4):
        link.proxy.drop = 1
        assert rsmq.receive_message("q") is None
    assert list(link.scores("q")) == [id]


def test_broken_connections_are_no_error_beside_messages_of_other_consumers(link, rsmq):
    other = link.open_client()
    for _ in range(6):
        other.send_message("q", "body")
    assert len(other.receive_messages("q", 6)) == 6
    for _ in range(6):
        link.proxy.drop = 1
        assert rsmq.receive_message("q") is None


def log_in_as_consumer(link):
    rules = [f"~{link.ns}:q", f"~{link.ns}:q:Q", *CONSUMER.split()]
    link.raw.execute_command("ACL", "SETUSER", link.ns, "reset", "on", ">secret", *rules)
    return link.open_client(username=link.ns, password="secret")


def test_broken_connections_of_a_consumer_with_few_rights_are_no_error(link, rsmq):
    consumer = log_in_as_consumer(link)
    consumer.receive_message("q")
    for _ in range(4):
        link.proxy.drop = 1
        assert consumer.receive_message("q") is None


def test_a_consumer_with_few_rights_gets_the_error_too(link, rsmq):
    consumer = log_in_as_consumer(link)
    id = rsmq.send_message("q", TOO_LARGE)

    with pytest.raises(ReplyLost):
        for _ in range(3):
            link.raw.zadd(f"{link.ns}:q", {id: link.raw.time()[0] * 1000})
            assert consumer.receive_message("q") is None


@pytest.mark.parametrize("link", ["sync"], indirect=True)
def test_a_worker_hides_no_message_if_the_lost_replies_had_different_ones(
    link, monkeypatch, caplog
):
    rsmq = link.open_client()
    rsmq.create_queue("q")
    sent = {rsmq.send_message("q", "body") for _ in range(4)}
    lost, handled = [], set()

    def receive_and_lose_replies(*args):
        operation = receive_for_worker(*args)
        parse = operation.parse

        def parse_or_lose(reply):
            results = parse(reply)
            ids = [id for result in results for id in result.ids]
            if not ids or sum(len(each) == 1 for each in lost) == 3:
                return results
            lost.append(ids)
            first = next(id for id in sent if [id] not in lost)
            link.raw.zadd(f"{link.ns}:q", {first: 1})
            raise redis_errors.ConnectionError("Connection closed by server.")

        operation.parse = parse_or_lose
        return operation

    monkeypatch.setattr(prefetch, "receive_for_worker", receive_and_lose_replies)
    worker = Worker(rsmq, concurrency=1, grace=5)

    @worker.listener("q")
    def handle(body, message):
        handled.add(message.id)
        if handled == sent:
            worker.stop()

    worker.run()

    singles = [each[0] for each in lost if len(each) == 1]
    assert len(set(singles)) == 3
    assert not [each for each in caplog.messages if "is hidden for" in each]
