"""Migration from RedisRQ, which can be accessed only through its commands."""

from __future__ import annotations

import pytest
import redis.exceptions as redis_errors

from rsmq import RSMQ
from rsmq.migrate import RedisRQ, SourceNotFound, copy, move
from tests.expect import refused
from tests.migrate.keyed_server import Server
from tests.migrate.stored import (
    StoredMessage,
    now_ms,
    predicted_figures,
    read_bodies,
    read_messages,
)

BINARY = bytes(range(256))


@pytest.fixture
def old(redisrq):
    with Server.from_url(redisrq.url) as old:
        yield old


@pytest.fixture
def push(old):
    def push(*new_bodies, key="q"):
        return old.raw.execute_command("RQ.PUSH", key, *new_bodies)

    return push


@pytest.fixture
def pop(old):
    def pop(count, key="q"):
        return [id for _, id, _ in old.raw.execute_command("RQ.POP", "COUNT", count, key)]

    return pop


def parse_ms(id):
    return int(id.split(b"-")[0])


def bodies_at_source(redisrq, key=b"q"):
    queue = redisrq.keys[key]
    return [each.body for each in queue.undelivered], [each.body for each in queue.delivered]


def test_move_moves_and_acknowledges_waiting_messages(old, local, push, pop, redisrq, raw, ns):
    ids = push("held", "a", BINARY, "", "same", "same")
    assert pop(1) == ids[:1]
    report = move(RedisRQ(old), "q", local, "to")
    messages = read_messages(raw, ns, "to")

    assert [each.body for each in messages] == [b"a", BINARY, b"", b"same", b"same"]
    assert [each.sent_us for each in messages] == [parse_ms(id) * 1000 for id in ids[1:]]
    assert {(each.count, each.first) for each in messages} == {(None, None)}
    assert bodies_at_source(redisrq) == ([], [b"held"])
    assert not raw.exists(f"{ns}:to:x:copied")
    assert report.found == {"ready": 5, "delayed": 0, "in_flight": 1}
    assert (report.arrived, report.left, report.verified) == (5, 1, True)


def test_move_with_in_flight_leaves_nothing(old, local, push, pop, redisrq, raw, ns):
    ids = push("held twice", "held", "a")
    pop(2)
    redisrq.advance_time("q", 60)
    old.raw.execute_command("RQ.RECOVER", "q", 1, 1000)
    redisrq.advance_time("q", 1)
    delivered = {each.body: each.delivered_ms for each in redisrq.keys[b"q"].delivered}
    report = move(RedisRQ(old), "q", local, "to", in_flight=True)
    messages = {each.body: each for each in read_messages(raw, ns, "to")}

    assert messages.keys() == {b"a", b"held", b"held twice"}
    for body, count, id in ((b"held twice", 2, ids[0]), (b"held", 1, ids[1])):
        each = messages[body]
        assert (each.count, each.first) == (count, delivered[body])
        assert each.score == delivered[body]
        assert each.sent_us == parse_ms(id) * 1000
    assert bodies_at_source(redisrq) == ([], [])
    assert (report.arrived, report.left, report.verified) == (3, 0, True)


def test_copy_does_not_change_the_source(old, local, push, pop, redisrq, raw, ns):
    ids = push("held", *(f"{number}" for number in range(1500)))
    pop(1)
    before = bodies_at_source(redisrq)
    for is_second_run in (False, True):
        report = copy(RedisRQ(old), "q", local, "to")
        messages = read_messages(raw, ns, "to")

        assert bodies_at_source(redisrq) == before
        assert [each.body for each in messages if each.count is None] == before[0]
        in_flight_message = next(each for each in messages if each.count)
        assert in_flight_message == StoredMessage(
            in_flight_message.id, b"held", in_flight_message.score, 1, in_flight_message.first
        )
        assert in_flight_message.score == in_flight_message.first >= parse_ms(ids[0])
        assert (report.arrived, report.before) == ((0, 1501) if is_second_run else (1501, 0))
        assert report.found == {"ready": 1500, "delayed": 0, "in_flight": 1}
        assert report.verified


def test_dry_run_changes_nothing_and_predicts_the_figures(old, local, push, pop, redisrq, raw, ns):
    push("held", "a", "b")
    pop(1)
    redisrq.advance_time("q", 1)
    for way, options in ((copy, {}), (move, {}), (move, {"in_flight": True})):
        before = bodies_at_source(redisrq), raw.keys(f"{ns}:*")
        dry = predicted_figures(
            way(RedisRQ(old), "q", local, way.__name__, dry_run=True, **options)
        )
        assert (bodies_at_source(redisrq), raw.keys(f"{ns}:*")) == before
        real = predicted_figures(way(RedisRQ(old), "q", local, way.__name__, **options))
        assert dry == real


def test_queues_lists_only_keys_of_redisrq(old, push, redisrq):
    push("a")
    push("b", key="ü")
    redisrq.keys[b"text"] = b"x"
    source = RedisRQ(old)

    assert source.queues() == ["q", "ü"]
    with refused(SourceNotFound, "There is no RedisRQ queue 'none'"):
        source.look("none")
    with pytest.raises(redis_errors.ResponseError, match="WRONGTYPE"):
        source.look("text")
    assert source.look("q").counts == {"ready": 1, "delayed": 0, "in_flight": 0}


def test_server_without_the_module_is_reported(local, raw, ns):
    assert RedisRQ(local).queues() == []
    with pytest.raises(redis_errors.ResponseError, match=r"unknown command .RQ\.INFO"):
        move(RedisRQ(local), "q", local, "to")
    assert not raw.exists(f"{ns}:to:Q")


@pytest.mark.parametrize("executed", [False, True])
def test_move_interrupted_at_the_acknowledgement_can_be_repeated(
    old, local, push, redisrq, raw, ns, executed
):
    """The messages have arrived; messages delivered at the source are only acknowledged then."""
    push(*(f"{number}" for number in range(5)))
    redisrq.drop_next("RQ.ACK", executed=executed)
    unretried = Server(RSMQ.from_url(redisrq.url, retry_deadline=0))
    with unretried, pytest.raises(redis_errors.ConnectionError):
        move(RedisRQ(unretried), "q", local, "to")
    assert len(read_bodies(raw, ns, "to")) == 5
    assert local.rsmq.pop_message("to").body == "0"  # consumed in the meantime

    push("later")
    report = move(RedisRQ(old), "q", local, "to")
    assert read_bodies(raw, ns, "to") == [b"1", b"2", b"3", b"4", b"later"]
    assert bodies_at_source(redisrq) == ([], [])
    assert report.verified


@pytest.mark.parametrize("executed", [False, True])
def test_messages_of_a_lost_pop_reply_are_in_flight(old, local, push, redisrq, raw, ns, executed):
    push(*(f"{number}" for number in range(5)))
    redisrq.drop_next("RQ.POP", executed=executed)
    report = move(RedisRQ(old), "q", local, "to")
    lost_count = 5 if executed else 0

    assert (report.left, len(read_bodies(raw, ns, "to"))) == (lost_count, 5 - lost_count)
    redisrq.advance_time("q", 1)
    report = move(RedisRQ(old), "q", local, "to", in_flight=True)
    assert sorted(read_bodies(raw, ns, "to")) == [b"0", b"1", b"2", b"3", b"4"]
    assert bodies_at_source(redisrq) == ([], [])


def test_message_acknowledged_in_the_meantime_is_not_reported_missing(
    old, local, push, pop, redisrq, raw, ns
):
    """Its consumer was faster: delivery is at least once."""
    push("a", "b")
    (id,) = pop(1)
    source = RedisRQ(old)
    old.raw.execute_command("RQ.ACK", "q", id)
    report = move(source, "q", local, "to", in_flight=True)

    assert read_bodies(raw, ns, "to") == [b"b"]
    assert report.verified
    assert all(each.score <= now_ms(raw) for each in read_messages(raw, ns, "to"))


def test_equal_ids_of_two_keys_are_copied_to_one_queue(old, local, push, redisrq, raw, ns):
    """Ids are tracked for each key separately."""
    push("one", key="k1")
    push("two", key="k2")
    redisrq.keys[b"k2"].undelivered[0].id = redisrq.keys[b"k1"].undelivered[0].id
    copy(RedisRQ(old), "k1", local, "to")
    local.rsmq.pop_message("to")

    assert copy(RedisRQ(old), "k2", local, "to").arrived == 1
    assert read_bodies(raw, ns, "to") == [b"two"]
