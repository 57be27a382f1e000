"""Batches: many messages in one call, of one or several queues. The tests also check raw keys."""

from __future__ import annotations

import pytest
import redis

from rsmq import (
    BYTES,
    JSON,
    InvalidCombination,
    InvalidFormat,
    InvalidValue,
    Message,
    MessageNotString,
    MessageTooLong,
    MissingParameter,
    QueueNotFound,
)
from tests.expect import refused

MANY = 2500


@pytest.fixture
def two(env):
    """The names of two queues."""
    env.rsmq.create_queue("a", vt=10)
    env.rsmq.create_queue("b", vt=20)
    return ["a", "b"]


def test_send_messages_writes_the_same_as_many_sends(env, queue):
    before = env.now_ms()
    bodies = [f"é{n}" for n in range(20)]
    ids = env.rsmq.send_messages(queue, bodies, delay=1.5)
    after = env.now_ms()

    us = int(ids[0][:10], 36)
    assert before <= us // 1000 <= after
    assert {id[:10] for id in ids} == {ids[0][:10]}
    assert len(set(ids)) == 20
    assert ids == sorted(ids)
    assert env.scores(queue) == dict.fromkeys(ids, us // 1000 + 1500)
    fields = env.fields(queue)
    assert {id: fields[id] for id in ids} == dict(zip(ids, bodies, strict=True))
    assert fields["totalsent"] == "20"
    assert len(fields) == 26


def test_batches_are_first_in_first_out(env, queue):
    for start in (0, 30):
        env.rsmq.send_messages(queue, [str(n) for n in range(start, start + 30)])

    received = env.rsmq.receive_messages(queue, 45)
    assert [m.body for m in received] == [str(n) for n in range(45)]
    assert [m.body for m in env.rsmq.pop_messages(queue, 100)] == [str(n) for n in range(45, 60)]


def test_large_bodies_are_sent_like_small_ones(env, queue):
    env.rsmq.set_queue_attributes(queue, delay=2)
    bodies = [bytes([n]) * 9000 for n in range(5)]
    ids = env.rsmq.send_messages(queue, bodies, codec=BYTES)

    us = int(ids[0][:10], 36)
    assert ids == sorted(ids)
    assert env.scores(queue) == dict.fromkeys(ids, us // 1000 + 2000)
    assert [env.raw.hget(env.hash(queue), id) for id in ids] == bodies
    assert env.fields(queue)["totalsent"] == "5"
    assert len(env.fields(queue)) == 11
    env.elapse(queue, 3)
    assert [m.raw for m in env.rsmq.receive_messages(queue, 9)] == bodies


@pytest.mark.parametrize("size", [10, 9000])
def test_front_is_before_all_waiting_messages(env, queue, size):
    env.rsmq.set_queue_attributes(queue, delay=50)
    old = env.rsmq.send_message(queue, "old", delay=0)
    one = env.rsmq.send_message(queue, "one", front=True)
    two = env.rsmq.send_messages(queue, ["2" * size, "3" * size], front=True, delay=0)

    scores = env.scores(queue)
    assert scores[one] == scores[old] - 1
    assert [scores[id] for id in two] == [scores[old] - 2] * 2
    received = env.rsmq.receive_messages(queue, 9)
    assert [m.id for m in received] == [*two, one, old]


def test_front_of_an_empty_queue_is_visible_now(env, queue):
    id = env.rsmq.send_message(queue, "m", front=True)

    assert env.now_ms() - 10_000 < env.scores(queue)[id] <= env.now_ms()
    assert env.rsmq.receive_message(queue).id == id


@pytest.mark.refused
def test_front_with_a_delay_is_refused(env, queue):
    before = env.state()

    with refused(InvalidCombination, "Invalid delay format") as caught:
        env.rsmq.send_message(queue, "m", front=True, delay=3)
    assert "front" in str(caught.error)
    with refused(InvalidCombination, "Invalid delay format"):
        env.rsmq.send_messages(queue, ["m"], front=True, delay=0.5)
    assert env.state() == before


def test_more_than_lua_can_unpack_at_once(env, queue):
    bodies = [str(n) for n in range(MANY)]
    assert len(env.rsmq.send_messages(queue, bodies)) == MANY
    received = env.rsmq.receive_messages(queue, MANY + 1)

    assert [m.body for m in received] == bodies
    assert env.fields(queue)["totalrecv"] == str(MANY)
    assert len(env.rsmq.change_messages_visibility(received, 60)) == MANY
    assert env.rsmq.release_messages(received) == [m.id for m in received]
    assert env.rsmq.delete_messages(received) == [m.id for m in received]
    assert set(env.fields(queue)) == {
        "vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv",
    }  # fmt: skip
    assert env.scores(queue) == {}


def test_an_empty_batch_changes_nothing(env, queue):
    before = env.state()

    assert env.rsmq.delete_messages([]) == []
    assert env.rsmq.delete_messages(queue, []) == []
    assert env.rsmq.change_messages_visibility([], 5) == []
    assert env.rsmq.release_messages(queue, ids=[]) == []
    assert env.rsmq.move_messages([], queue) == []
    assert env.state() == before
    assert env.rsmq.send_messages(queue, []) == []
    assert env.scores(queue) == {}


@pytest.mark.refused
@pytest.mark.parametrize(
    ("bodies", "kind", "text"),
    [
        (["x"] * 10_001, InvalidValue, "the number of bodies must be between 0 and 10000"),
        (["x" * 65536] * 257, InvalidValue, "the bytes of bodies must be between 0 and 16777216"),
        ("text", InvalidFormat, "Invalid bodies format"),
        (None, InvalidFormat, "Invalid bodies format"),
        (5, InvalidFormat, "Invalid bodies format"),
        (["a", 5], MessageNotString, "Message must be a string"),
    ],
)
def test_invalid_bodies_are_refused(env, queue, bodies, kind, text):
    before = env.state()

    with refused(kind, text):
        env.rsmq.send_messages(queue, bodies)
    assert env.state() == before


@pytest.mark.parametrize("size", [10, 9000])
def test_nothing_is_sent_if_one_body_is_too_long(env, queue, size):
    before = env.state()

    with refused(MessageTooLong, "Message too long") as caught:
        env.rsmq.send_messages(queue, ["x" * size, "x" * size, "x" * 65537])
    assert caught.error.value == 65537
    assert env.state() == before


@pytest.mark.parametrize("size", [10, 9000])
def test_sending_many_to_a_queue_that_is_missing_or_broken(env, queue, size):
    with refused(QueueNotFound, "Queue not found") as caught:
        env.rsmq.send_messages("other", ["x" * size] * 3)
    assert caught.error.value == "other"
    env.raw.hset(env.hash(queue), "delay", "soon")
    before = env.state()
    with refused(InvalidValue, "delay must be between 0 and 9999999"):
        env.rsmq.send_messages(queue, ["x" * size] * 3)
    assert env.state() == before


@pytest.mark.parametrize("size", [10, 9000])
def test_sending_many_over_keys_of_other_types_changes_nothing(env, queue, size):
    env.raw.set(env.zset(queue), "text")
    before = env.state()
    with pytest.raises(redis.ResponseError):
        env.rsmq.send_messages(queue, ["x" * size] * 3)
    assert env.state() == before


@pytest.mark.parametrize("size", [10, 9000])
def test_many_are_notified_once_with_the_final_number(env, queue, size):
    node = env.raw
    loud = env.client(realtime=True)
    env.rsmq.send_message(queue, "before")
    with node.pubsub() as heard:
        heard.subscribe(f"{env.ns}:rt:{queue}")
        heard.get_message(timeout=5)
        loud.send_messages(queue, ["x" * size] * 4)
        loud.send_messages(queue, [])
        loud.send_message(queue, "last")
        payloads = [heard.get_message(timeout=5)["data"] for _ in range(2)]

    assert [int(payload) for payload in payloads] == [5, 6]


def test_receive_messages_writes_the_same_as_many_receives(env, queue):
    ids = env.rsmq.send_messages(queue, ["1", "2", "3"])
    before = env.now_ms()
    received = env.rsmq.receive_messages(queue, 2, vt=2.5)
    after = env.now_ms()

    assert [(m.queue, m.id, m.body, m.receive_count) for m in received] == [
        (queue, ids[0], "1", 1),
        (queue, ids[1], "2", 1),
    ]
    fields, scores = env.fields(queue), env.scores(queue)
    for message in received:
        assert before <= message.first_received_ms <= after
        assert fields[f"{message.id}:rc"] == "1"
        assert fields[f"{message.id}:fr"] == str(message.first_received_ms)
        assert before + 2500 <= scores[message.id] <= after + 2500
        assert message.sent_ms == int(message.id[:10], 36) / 1000
    assert f"{ids[2]}:rc" not in fields
    assert fields["totalrecv"] == "2"
    env.elapse(queue, 3)
    again = {m.id: m for m in env.rsmq.receive_messages(queue, 9)}
    assert again[ids[0]].receive_count == 2
    assert again[ids[0]].first_received_ms == received[0].first_received_ms
    assert again[ids[2]].receive_count == 1


def test_earlier_queues_go_first(env, two):
    env.rsmq.send_messages("a", ["a1", "a2"])
    env.rsmq.send_messages("b", ["b1", "b2"])

    assert [m.body for m in env.rsmq.receive_messages(["b", "a"], 3)] == ["b1", "b2", "a1"]
    assert [(m.queue, m.body) for m in env.rsmq.receive_messages(two, 3)] == [("a", "a2")]
    now = env.now_ms()
    assert max(env.scores("a").values()) <= now + 10_000
    assert min(env.scores("b").values()) > now + 15_000
    assert env.rsmq.receive_messages(two, 3) == []


def test_popping_from_several_queues(env, two):
    env.rsmq.send_messages("a", ["a1"])
    env.rsmq.send_messages("b", ["b1", "b2"])

    popped = env.rsmq.pop_messages(iter(two), 2)
    assert [(m.queue, m.body, m.receive_count) for m in popped] == [("a", "a1", 1), ("b", "b1", 1)]
    assert env.scores("a") == {}
    assert len(env.scores("b")) == 1
    assert {env.fields(name)["totalrecv"] for name in two} == {"1"}
    assert not any(m.id in name for m in popped for q in two for name in env.fields(q))


@pytest.mark.parametrize("name", ["receive_messages", "pop_messages"])
def test_a_batch_knows_whether_a_queue_has_another_visible_message(env, two, name):
    take = getattr(env.rsmq, name)
    env.rsmq.send_messages("a", ["1", "2"])
    env.rsmq.send_messages("b", ["3", "4"])
    env.rsmq.send_message("b", "later", delay=60)

    results = [take(two, number).has_more for number in (1, 2, 1, 1)]

    assert results == [True, True, False, False]


def test_a_repeated_name_counts_once(env, queue):
    env.rsmq.send_messages(queue, ["1", "2"])

    assert len(env.rsmq.receive_messages([queue, queue], 5)) == 2


def test_a_missing_queue_is_named_and_nothing_is_received(env, queue):
    env.rsmq.send_message(queue, "m")
    before = env.state()
    for call in (env.rsmq.receive_messages, env.rsmq.pop_messages):
        with refused(QueueNotFound, "Queue not found") as caught:
            call([queue, "other"], 5)
        assert caught.error.value == "other"
        assert env.state() == before


def test_nothing_is_received_if_the_second_queue_is_broken(env, two):
    env.rsmq.send_message("a", "m")
    env.raw.hset(env.hash("b"), "vt", "soon")
    before = env.state()
    with refused(InvalidValue, "vt must be between 0 and 9999999"):
        env.rsmq.receive_messages(two, 5)
    assert env.state() == before
    env.raw.hset(env.hash("b"), "vt", "30")
    env.raw.set(env.zset("b"), "text")
    before = env.state()
    for call in (env.rsmq.receive_messages, env.rsmq.pop_messages):
        with pytest.raises(redis.ResponseError):
            call(two, 5)
        assert env.state() == before


@pytest.mark.refused
@pytest.mark.parametrize("number", [0, -1, 10_001, 1.5, True, None, "5"])
def test_an_invalid_number_of_messages_is_refused(env, queue, number):
    with refused(InvalidValue, "max_messages must be between 1 and 10000"):
        env.rsmq.receive_messages(queue, number)
    with refused(InvalidValue, "max_messages must be between 1 and 10000"):
        env.rsmq.pop_messages(queue, number)


@pytest.mark.refused
@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ("", MissingParameter),
        (None, MissingParameter),
        ([], MissingParameter),
        (["q", ""], MissingParameter),
        (["q", "a b"], InvalidFormat),
        (["q", 5], InvalidFormat),
        (5, InvalidFormat),
    ],
)
def test_invalid_names_are_refused(env, queue, names, kind):
    with pytest.raises(kind):
        env.rsmq.receive_messages(names, 1)
    with pytest.raises(kind):
        env.rsmq.pop_messages(names, 1)


def test_bodies_of_a_batch_are_bounded_except_the_first(env, queue):
    env.rsmq.set_queue_attributes(queue, maxsize=-1)
    body = b"x" * (6 * 1024 * 1024)
    for _ in range(3):
        env.rsmq.send_message(queue, body, codec=BYTES)
    env.rsmq.send_message(queue, b"y" * (17 * 1024 * 1024), codec=BYTES)

    assert len(env.rsmq.receive_messages(queue, 10)) == 2
    assert len(env.rsmq.receive_messages(queue, 10)) == 1
    assert len(env.rsmq.receive_messages(queue, 10)) == 1
    assert env.rsmq.receive_messages(queue, 10) == []


def test_ghosts_are_not_received_in_a_batch(env, queue):
    now = env.now_ms()
    old, fresh = "o" * 32, "f" * 32
    env.raw.zadd(env.zset(queue), {old: now - 20_000, fresh: now - 1000})
    env.raw.hset(env.hash(queue), f"{old}:rc", 1)
    ids = env.rsmq.send_messages(queue, ["1", "2"])

    assert [m.id for m in env.rsmq.receive_messages(queue, 10)] == ids
    assert set(env.scores(queue)) == {fresh, *ids}
    assert f"{old}:rc" not in env.fields(queue)


def test_a_batch_deletes_by_receipts_of_several_queues(env, two):
    env.rsmq.send_messages("a", ["1", "2"])
    env.rsmq.send_messages("b", ["3"])
    received = env.rsmq.receive_messages(two, 9, vt=0)
    again = env.rsmq.receive_messages("a", 1)
    stale, fresh = received[0], received[1:]

    assert again[0].id == stale.id
    assert env.rsmq.delete_messages(received) == [m.id for m in fresh]
    assert set(env.scores("a")) == {stale.id}
    assert env.scores("b") == {}
    assert env.fields("a")[f"{stale.id}:rc"] == "2"
    assert env.rsmq.delete_messages(again * 2) == [stale.id]
    assert env.rsmq.delete_messages(again) == []


def test_a_batch_deletes_by_bare_ids(env, queue):
    ids = [env.send_as_apalis(queue), *env.rsmq.send_messages(queue, ["2", "3"])]

    assert env.rsmq.delete_messages(queue, [ids[2], "n" * 32, ids[0], ids[0]]) == [ids[2], ids[0]]
    assert set(env.scores(queue)) == {ids[1]}
    assert len(env.fields(queue)) == 7
    assert env.rsmq.delete_messages("missing", ids) == []


def test_a_message_without_a_count_is_not_a_receipt(env, queue):
    id = env.rsmq.send_message(queue, "m")
    made = Message(queue, id, b"m", None, None)

    for call in (env.rsmq.delete_messages, env.rsmq.release_messages):
        with pytest.raises(TypeError):
            call([made])
    with pytest.raises(MissingParameter):
        env.rsmq.delete_messages([Message(None, id, b"m", None, None)])
    assert set(env.scores(queue)) == {id}


def test_an_id_that_names_an_attribute_is_not_deleted(env, queue):
    env.raw.hset(env.hash(queue), "t" * 20, "kept")

    assert env.rsmq.delete_messages(queue, ["t" * 20]) == []
    assert env.fields(queue)["t" * 20] == "kept"


def test_a_batch_changes_visibility(env, two):
    env.rsmq.send_messages("a", ["1", "2"])
    env.rsmq.send_messages("b", ["3"])
    received = env.rsmq.receive_messages(two, 9, vt=0)
    env.rsmq.receive_message("b")
    before = env.now_ms()

    changed = env.rsmq.change_messages_visibility(received, 77)
    assert changed == [m.id for m in received[:2]]
    for id in changed:
        assert before + 77_000 <= env.scores("a")[id] <= env.now_ms() + 77_000
    assert env.rsmq.change_messages_visibility("b", [received[2].id], 0) == [received[2].id]
    assert env.scores("b")[received[2].id] <= env.now_ms()
    assert env.rsmq.change_messages_visibility("b", ids=["n" * 32], vt=1) == []


def test_a_batch_over_a_missing_queue_changes_nothing(env, two):
    env.rsmq.send_messages("a", ["1"])
    env.rsmq.send_messages("b", ["2"])
    received = env.rsmq.receive_messages(two, 9)
    env.rsmq.delete_queue("b")
    before = env.state()
    for call in (
        lambda: env.rsmq.change_messages_visibility(received, 9),
        lambda: env.rsmq.release_messages(received),
    ):
        with refused(QueueNotFound, "Queue not found") as caught:
            call()
        assert caught.error.value == "b"
        assert env.state() == before


def test_released_messages_have_the_score_of_their_send(env, queue):
    first = env.rsmq.send_message(queue, "1")
    env.rsmq.send_messages(queue, ["2", "3"])
    in_flight = env.rsmq.receive_message(queue)

    assert env.rsmq.release_messages([in_flight]) == [first]
    assert env.scores(queue)[first] == int(first[:10], 36) // 1000
    again = env.rsmq.receive_message(queue)
    assert (again.id, again.receive_count) == (first, 2)
    assert env.rsmq.release_messages([in_flight]) == []
    later = env.rsmq.send_message(queue, "4", delay=500)
    assert env.rsmq.release_messages(queue, [later, "n" * 32]) == [later]
    assert env.rsmq.get_message(queue, later).state == "visible"


def test_a_message_whose_id_has_no_time_is_released_to_now(env, queue):
    id = "0123456789abcdef" * 2
    env.raw.hset(env.hash(queue), id, "m")
    env.raw.zadd(env.zset(queue), {id: env.now_ms() + 50_000})
    before = env.now_ms()

    assert env.rsmq.release_messages(queue, [id]) == [id]
    assert before <= env.scores(queue)[id] <= env.now_ms()


@pytest.mark.refused
@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("q", None), InvalidFormat),
        (("q", "i" * 32), InvalidFormat),
        (("q", ["short"]), InvalidFormat),
        (("q", [None]), MissingParameter),
        (("", ["i" * 32]), MissingParameter),
        ((None, ["i" * 32]), InvalidFormat),
        (([5],), InvalidFormat),
        ((["i" * 32],), InvalidFormat),
        (([None],), InvalidFormat),
        (("q", ["i" * 32] * 10_001), InvalidValue),
    ],
)
def test_invalid_receipts_are_refused(env, queue, arguments, kind):
    with pytest.raises(kind):
        env.rsmq.delete_messages(*arguments)
    with pytest.raises(kind):
        env.rsmq.release_messages(*arguments)


def test_stored_messages_are_not_receipts(env, queue):
    id = env.rsmq.send_message(queue, "m")

    with refused(InvalidFormat, "Invalid messages format") as caught:
        env.rsmq.delete_messages([env.rsmq.get_message(queue, id)])
    assert "(qname, ids)" in str(caught.error)
    with refused(InvalidFormat, "Invalid ids format"):
        env.rsmq.delete_messages([env.rsmq.receive_message(queue)], [id])


def test_codecs_of_a_batch(env, queue):
    env.rsmq.send_messages(queue, [{"n": 1}, [2]], codec=JSON)

    assert [m.body for m in env.rsmq.receive_messages(queue, 1, codec=JSON)] == [{"n": 1}]
    assert [m.body for m in env.rsmq.pop_messages(queue, 1, codec=JSON)] == [[2]]


def test_a_count_without_its_time_gets_one_in_a_batch(env, queue):
    id = env.rsmq.send_message(queue, "m")
    env.raw.hset(env.hash(queue), f"{id}:fr", "5")

    message = env.rsmq.receive_messages(queue, 1)[0]
    assert message.first_received_ms > 10**12
    assert env.fields(queue)[f"{id}:fr"] == str(message.first_received_ms)


def test_a_pop_removes_all_fields_of_a_message(env, queue):
    id = env.send_as_apalis(queue)
    env.raw.hset(env.hash(queue), f"{id}:fr", "5")

    assert len(env.rsmq.pop_messages(queue, 1)) == 1
    assert not any(id in name for name in env.fields(queue))


def test_bodies_are_bounded_over_several_queues(env, two):
    body = b"x" * (9 * 1024 * 1024)
    for name in two:
        env.rsmq.set_queue_attributes(name, maxsize=-1)
        env.rsmq.send_message(name, body, codec=BYTES)
        env.rsmq.send_message(name, b"small", codec=BYTES)

    received = env.rsmq.receive_messages(two, 9)
    assert [(m.queue, len(m.raw)) for m in received] == [("a", len(body)), ("a", 5)]
    assert len(env.rsmq.pop_messages(two, 9)) == 2


def test_front_and_release_never_score_in_the_future(env, queue):
    env.rsmq.send_message(queue, "later", delay=500)
    front = env.rsmq.send_message(queue, "m", front=True)
    assert env.scores(queue)[front] <= env.now_ms()
    future = f"{'hzzzzzzzzz'}{'0' * 22}"  # an id of the year 2051
    env.raw.hset(env.hash(queue), future, "m")
    env.raw.zadd(env.zset(queue), {future: env.now_ms() + 9000})

    assert env.rsmq.release_messages(queue, [future]) == [future]
    assert env.scores(queue)[future] <= env.now_ms()
