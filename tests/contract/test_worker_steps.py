"""The operations of workers: receive, settle, dead-letter, and the sign of life. On raw keys."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial

import pytest
import redis

from rsmq import QueueNotFound, RSMQError, WorkerReplaced
from rsmq.control.operations import list_workers
from rsmq.model import DeadLetterReason
from rsmq.wire.keys import Namespace
from rsmq.worker import operations as workers
from rsmq.worker.operations import (
    MAX_BODY_BYTES,
    Identity,
    ReceiveRequest,
    RegisteredWorker,
    Settlement,
    dead_letter_messages,
    list_in_flight,
    receive_for_worker,
    record_quarantine_run,
    register_worker,
    send_heartbeat,
    settle_messages,
    unregister_worker,
)
from tests.contract.conftest import CLUSTERS, Env

DAY = 86_400_000
REASON = {
    "queue": "q",
    "text": "its handler raised é",
    "exception": "ValueError: no number",
    "traceback": None,
    "worker": "w",
    "attempts": 1,
}


@pytest.fixture(params=["redis", "redis-6.2", *CLUSTERS, "redis-py, RESP3", "memory"])
def env(request, mode):
    env = Env(request.param, mode, request)
    yield env
    env.close()


@pytest.fixture
def me(env):
    """A registered worker."""
    me = worker(env)
    enter(env, me)
    return me


@pytest.fixture
def dead(env):
    """The name of a dead-letter queue."""
    env.rsmq.create_queue("dead")
    return "dead"


def worker(env, token="mine", name="w"):
    return Identity(Namespace(env.ns), name, token)


def keys_of(env, qname):
    return Namespace(env.ns).queue(qname)


def want(env, qname="q", *, vt_ms=60_000, size=1, ahead=0, most=10_000):
    return ReceiveRequest(keys_of(env, qname), vt_ms, size, ahead, most)


def receive(env, identity, *wants, slots=10_000, max_bytes=MAX_BODY_BYTES):
    return receive_from(env, identity, wants or [want(env)], slots, max_bytes)


def receive_from(env, identity, wants, slots, max_bytes=MAX_BODY_BYTES):
    """
    Receive from several queues, as a worker does.

    Returns:
        The state of each queue, and of its messages id, body, receive count and first receive.
    """
    return [
        (
            result.state,
            [
                (id.encode(), raw, *result.redelivered.get(place, (1, result.now_ms))[:2])
                for place, (id, raw) in enumerate(zip(result.ids, result.raws, strict=True))
            ],
        )
        for result in env.rsmq.run(receive_for_worker(identity, wants, slots, max_bytes))
    ]


def settle(env, identity, *groups):
    groups = [Settlement(keys_of(env, qname), *rest) for qname, *rest in groups]
    return env.rsmq.run(settle_messages(identity, groups))


def dead_letter(env, identity, *receipts, qname="q", target="dead", why=REASON):
    messages = [(id, count, why) for id, count in receipts]
    operation = dead_letter_messages(identity, keys_of(env, qname), keys_of(env, target), messages)
    return env.rsmq.run(operation)


def enter(env, identity, *, info=None, ttl=10, dead=""):
    return env.rsmq.run(register_worker(identity, info or {"pid": 1}, ttl=ttl, dead=dead))


def heartbeat(env, identity, *, info=None, ttl=10):
    return env.rsmq.run(send_heartbeat(identity, info or {"pid": 1}, ttl=ttl))


def leave(env, identity):
    return env.rsmq.run(unregister_worker(identity))


def in_flight(env, identity):
    """Return all fields of the hash of a worker's messages in flight, as text."""
    return {
        id.decode(): value.decode() for id, value in env.raw.hgetall(identity.in_flight_key).items()
    }


def reasons(env, qname="dead"):
    stored = env.raw.hgetall(keys_of(env, qname).reasons)
    return {id.decode(): value for id, value in stored.items()}


def ids_of(received_ids):
    """Return the state of each queue, and the ids that were received from it."""
    return [(state, [id.decode() for id, *_ in messages]) for state, messages in received_ids]


#: Backends for tests of a full server.
fillable = pytest.mark.parametrize("env", ["redis", "redis-6.2", "cluster"], indirect=True)


def test_a_receive_records_its_messages_as_in_flight(env, queue, me):
    ids = env.rsmq.send_messages(queue, ["a", "é", "c"])
    env.rsmq.receive_message(queue)
    env.raw.zadd(env.zset(queue), {ids[0]: 1})
    first = int(env.fields(queue)[f"{ids[0]}:fr"])
    before = env.now_ms()
    ((state, messages),) = receive(env, me, want(env, vt_ms=2500), slots=2)
    after = env.now_ms()

    assert state == "+"
    now = messages[1][3]
    assert before <= now <= after
    assert messages == [(ids[0].encode(), b"a", 2, first), (ids[1].encode(), "é".encode(), 1, now)]
    fields = env.fields(queue)
    assert (fields["totalrecv"], fields["totalsent"]) == ("3", "3")
    assert (fields[f"{ids[0]}:rc"], fields[f"{ids[0]}:fr"]) == ("2", str(first))
    assert (fields[f"{ids[1]}:rc"], fields[f"{ids[1]}:fr"]) == ("1", str(now))
    assert f"{ids[2]}:rc" not in fields
    scores = env.scores(queue)
    assert [scores[id] for id in ids[:2]] == [now + 2500] * 2
    assert in_flight(env, me) == {"": "mine", ids[0]: f"2:{queue}", ids[1]: f"1:{queue}"}


def test_a_worker_receives_exactly_like_the_client(env, queue, me):
    ids = env.rsmq.send_messages(queue, [str(number) for number in range(8)])
    ids.append(env.send_as_apalis(queue, "8"))
    counters = [
        {},
        {"rc": 1, "fr": 1_700_000_000_000},
        {"rc": 0},
        {"rc": 0, "fr": 1_700_000_000_000},
        {"rc": 7},
        {"rc": 9, "fr": "junk"},
        {"fr": 1_700_000_000_000},
        {"rc": 999_999_999_999_999, "fr": 5},
        {},
    ]
    for id, counter in zip(ids, counters, strict=True):
        for name, value in counter.items():
            env.raw.hset(env.hash(queue), f"{id}:{name}", value)
    later = env.rsmq.send_message(queue, "later", delay=100)
    env.raw.hset(env.hash(queue), "totalrecv", 41)
    env.rsmq.create_queue("twin")
    env.raw.hset(env.hash("twin"), mapping=env.raw.hgetall(env.hash(queue)))
    env.raw.zadd(env.zset("twin"), env.scores(queue))

    before = env.now_ms()
    received = []
    while (message := env.rsmq.receive_message("twin", vt=60)) is not None:
        received.append(message)
    ((state, messages),) = receive(env, me)
    after = env.now_ms()

    def without_times(fields):
        """Return the fields, with 'now' instead of times since the test began."""
        return {
            name: "now" if name.endswith(":fr") and value.isdigit() and int(value) >= before
            else value for name, value in fields.items()
        }  # fmt: skip

    assert state == "."
    assert without_times(env.fields(queue)) == without_times(env.fields("twin"))
    assert env.fields(queue)["totalrecv"] == "50"
    assert [(id.decode(), raw, count) for id, raw, count, _ in messages] == [
        (message.id, message.raw, message.receive_count) for message in received
    ]
    for (*_, first), message in zip(messages, received, strict=True):
        other = message.first_received_ms
        assert first == other or (first >= before and other >= before)
    for name in (queue, "twin"):
        scores = env.scores(name)
        scores.pop(later)
        assert all(before + 60_000 <= score <= after + 60_000 for score in scores.values())
    assert in_flight(env, me) == {
        "": "mine", **{m.id: f"{m.receive_count}:{queue}" for m in received},
    }  # fmt: skip


def test_a_later_receive_by_the_client_has_the_next_receipt(env, queue, me):
    env.rsmq.send_messages(queue, ["a", "b"])
    receive(env, me, want(env, vt_ms=0))
    first, second = env.rsmq.receive_messages(queue, 2)

    assert (first.receive_count, second.receive_count) == (2, 2)
    ((_, messages),) = receive(env, me)
    assert messages == []
    assert env.rsmq.delete_messages([first, second]) == [first.id, second.id]


def test_a_receive_without_visible_messages_changes_nothing(env, queue, me):
    env.rsmq.send_message(queue, "later", delay=100)
    before = env.state()

    assert receive(env, me) == [(".", [])]
    assert receive(env, me, slots=0) != []
    assert env.state() == before


#: Waiting messages of each queue; slots; size, ahead and most of each queue; then what is expected
#: of each queue: its state, and the number of messages that are received.
CASES = {
    "a slot a message": ([9], 3, [(1, 0, 99)], [("+", 3)]),
    "fewer than slots": ([2], 3, [(1, 0, 99)], [(".", 2)]),
    "as many as slots": ([3], 3, [(1, 0, 99)], [("+", 3)]),
    "jobs of several": ([20], 3, [(4, 0, 99)], [("+", 12)]),
    "a job that is not full": ([10], 3, [(4, 0, 99)], [(".", 10)]),
    "ahead": ([20], 2, [(3, 2, 99)], [("+", 8)]),
    "at most": ([20], 9, [(1, 5, 4)], [("+", 4)]),
    "at most as many as there are": ([4], 9, [(1, 0, 4)], [("+", 4)]),
    "by priority": ([2, 9, 9], 3, [(1, 0, 99)] * 3, [(".", 2), ("+", 1), ("-", 0)]),
    "the second, if the first is empty": ([0, 9], 3, [(1, 0, 99)] * 2, [(".", 0), ("+", 3)]),
    "a part of a job needs its slot": ([5, 9], 3, [(4, 0, 99), (2, 0, 99)], [(".", 5), ("+", 2)]),
    "no slot is left": ([3, 9], 3, [(1, 0, 99), (1, 5, 99)], [("+", 3), ("-", 0)]),
    "ahead takes no slot": ([9, 9], 1, [(1, 5, 99), (1, 5, 99)], [("+", 6), ("-", 0)]),
    "slots that most leaves": ([9, 9], 5, [(1, 0, 2), (1, 1, 99)], [("+", 2), ("+", 4)]),
    "no slot but ahead": ([9, 9], 0, [(1, 2, 99), (1, 3, 99)], [("+", 2), ("-", 0)]),
    "no slot, the first is empty": ([0, 9], 0, [(1, 2, 99), (1, 3, 99)], [(".", 0), ("+", 3)]),
    "no queue": ([], 3, [], []),
}


@pytest.mark.parametrize("case", CASES)
def test_slots_sizes_and_limits_decide_how_many_are_received(env, me, case):
    waiting, slots, wants, expected = CASES[case]
    sent = []
    for number, messages in enumerate(waiting):
        env.rsmq.create_queue(f"q{number}")
        sent.append(env.rsmq.send_messages(f"q{number}", ["m"] * messages))
    wants = [
        want(env, f"q{number}", size=size, ahead=ahead, most=most)
        for number, (size, ahead, most) in enumerate(wants)
    ]
    result = receive_from(env, me, wants, slots)

    assert [(state, len(messages)) for state, messages in result] == expected
    for (_, ids), of_queue in zip(ids_of(result), sent, strict=True):
        assert ids == of_queue[: len(ids)]
    for number, (_, messages) in enumerate(expected):
        assert env.fields(f"q{number}").get("totalrecv", "0") == str(messages)
    assert len(in_flight(env, me)) == 1 + sum(number for _, number in expected)


def test_without_slots_and_prefetch_nothing_is_received(env, queue, me):
    env.rsmq.send_messages(queue, ["a", "b"])
    before = env.state()

    for wants in ([want(env)], [want(env, most=0)]):
        ((state, messages),) = receive_from(env, me, wants, 0)
        assert (state in "+-", messages) == (True, [])
    assert env.state() == before


def test_bodies_of_a_receive_are_bounded_except_the_first(env, queue, me):
    env.rsmq.create_queue("empty")
    env.rsmq.create_queue("p")
    large, *ids = env.rsmq.send_messages(queue, ["x" * 2000, "y" * 500, "z" * 500, "", "w"])
    other = env.rsmq.send_message("p", "m")
    wants = [want(env, "empty"), want(env), want(env, "p")]
    receive_bounded = partial(receive, env, me, *wants, max_bytes=1000)

    assert ids_of(receive_bounded()) == [(".", []), ("+", [large]), ("-", [])]
    assert ids_of(receive_bounded()) == [(".", []), ("+", ids[:3]), ("-", [])]
    assert ids_of(receive_bounded()) == [(".", []), (".", ids[3:]), (".", [other])]
    assert in_flight(env, me).keys() == {"", large, *ids, other}


def test_only_the_first_body_of_all_may_exceed_the_bound(env, queue, me):
    env.rsmq.create_queue("p")
    small = env.rsmq.send_message(queue, "x")
    large = env.rsmq.send_message("p", "y" * 2000)
    wants = [want(env), want(env, "p")]
    receive_bounded = partial(receive, env, me, *wants, max_bytes=1000)

    assert ids_of(receive_bounded()) == [(".", [small]), ("+", [])]
    assert ids_of(receive_bounded()) == [(".", []), ("+", [large])]


def test_a_receive_of_thousands(env, queue, me):
    ids = env.rsmq.send_messages(queue, ["m"] * 4500)
    env.rsmq.receive_messages(queue, 2200, vt=0)

    ((state, messages),) = receive(env, me, slots=4499)
    assert state == "+"
    assert {id.decode() for id, *_ in messages} < set(ids)
    assert sorted({count for _, _, count, _ in messages}) == [1, 2]
    counts = {id.decode(): f"{count}:q" for id, _, count, _ in messages}
    assert in_flight(env, me) == {"": "mine", **counts}
    assert len(counts) == 4499


def test_nothing_is_received_from_paused_missing_and_incomplete_queues(env, me):
    for name in ("first", "paused", "half", "last"):
        env.rsmq.create_queue(name)
        env.rsmq.send_message(name, "m")
    env.rsmq.pause_queue("paused")
    env.raw.hdel(env.hash("half"), "delay")
    before = {
        key: value for key, value in env.state().items() if b"paused" in key or b"half" in key
    }
    names = ("paused", "first", "missing", "half", "last")
    result = receive(env, me, *(want(env, name) for name in names))

    assert [(state, len(messages)) for state, messages in result] == [
        ("p", 0), (".", 1), ("m", 0), ("m", 0), (".", 1),
    ]  # fmt: skip
    after = env.state()
    assert {key: after[key] for key in before} == before
    assert not env.raw.exists(env.zset("missing"), env.hash("missing"))
    env.rsmq.resume_queue("paused")
    assert receive(env, me, want(env, "paused"))[0][0] == "."
    assert sorted(in_flight(env, me).values()) == ["1:first", "1:last", "1:paused", "mine"]


OLD = "g000000000" + "1234567890123456789ABC"


def add_old(env, qname):
    """Add a message that was sent years ago, and received twice."""
    env.raw.hset(env.hash(qname), mapping={OLD: "old", f"{OLD}:rc": 2, f"{OLD}:fr": 1})
    env.raw.zadd(env.zset(qname), {OLD: 1})


def test_a_worker_receives_no_expired_message(env, queue, me):
    env.rsmq.set_queue_attributes(queue, keep=60)
    late = env.rsmq.send_message(queue, "late", expires=60)
    id = env.rsmq.send_message(queue, "m")
    env.raw.hset(f"{env.zset(queue)}:x:limits", late, ":1")
    add_old(env, queue)

    ((state, messages),) = receive(env, me)
    assert (state, [each[0].decode() for each in messages]) == (".", [id])
    assert list(env.scores(queue)) == [id]
    assert not [name for name in env.fields(queue) if name.startswith((OLD, late))]
    assert in_flight(env, me) == {"": "mine", id: "1:q"}
    assert env.fields(queue)["totalrecv"] == "1"


def test_a_worker_receives_the_retries_that_messages_were_sent_with(env, queue, me):
    env.rsmq.create_queue("other")
    env.rsmq.send_message("other", "m")
    env.rsmq.send_message(queue, "m")
    ids = env.rsmq.send_messages(queue, ["a", "b"], max_retries=0, dedup_ids=["a", "b"])
    last = env.rsmq.send_message(queue, "c", max_retries=7, expires=60)
    env.rsmq.send_message(queue, "d", expires=60)

    wants = [want(env, "other"), want(env)]
    plain, limited = env.rsmq.run(receive_for_worker(me, wants, 10_000))
    assert plain.max_retries == {}
    assert {limited.ids[place]: number for place, number in limited.max_retries.items()} == {
        **dict.fromkeys(ids, 0),
        last: 7,
    }


def test_a_worker_receives_what_the_limits_of_a_queue_allow(env, queue, me):
    env.rsmq.create_queue("other")
    env.rsmq.set_queue_limits(queue, max_running=2)
    env.rsmq.set_queue_limits("other", rate="1/h")
    ids = env.rsmq.send_messages(queue, ["a", "b", "c", "d"])
    others = env.rsmq.send_messages("other", ["a", "b"])
    wants = [want(env), want(env, "other")]

    first, second = env.rsmq.run(receive_for_worker(me, wants, 10_000))
    assert (first.ids, second.ids) == (ids[:2], others[:1])
    assert (first.state, second.state) == (".", ".")
    assert not first.limit.is_rate
    assert second.limit == (5.0, True)
    deferred = (queue, "defer", 1, [(ids[0], 60_000, 1)])
    settle(env, me, deferred, (queue, "retry", 1, [(ids[1], 60_000, "E")]))
    again, _ = env.rsmq.run(receive_for_worker(me, wants, 1))
    assert (again.ids, again.state) == (ids[2:3], "+")
    last, nothing = env.rsmq.run(receive_for_worker(me, wants, 10_000))
    assert (last.ids, nothing.ids) == (ids[3:], [])
    running = env.raw.zrange(f"{env.ns}:{queue}:x:running", 0, -1)
    assert {each.decode() for each in running} == {":", *ids[2:]}


def test_an_expired_message_of_a_worker_goes_to_the_dead_letter_queue(env, queue, dead, me):
    env.rsmq.create_queue("other")
    env.rsmq.set_dead_letter_policy(queue, dead, 9)
    env.rsmq.set_queue_attributes(queue, keep=60, expired="dead-letter")
    add_old(env, queue)

    assert receive(env, me, want(env, "other"), want(env)) == [(".", []), (".", [])]
    assert env.scores(queue) == {}
    assert list(env.scores(dead)) == [OLD]
    assert env.fields(dead)[f"{OLD}:rc"] == "2"
    assert in_flight(env, me) == {"": "mine"}


def test_the_keys_of_a_paused_queue_are_not_read(env, queue, me):
    env.rsmq.pause_queue(queue)
    env.raw.hset(env.hash(queue), "totalrecv", "many")
    env.raw.set(env.zset(queue), "text")
    before = env.state()

    assert receive(env, me) == [("p", [])]
    assert env.state() == before


def test_ghosts_are_removed_and_never_received(env, queue, me):
    young, old = "g" * 32, [f"ghost{number:027}" for number in range(250)]
    now = env.now_ms()
    env.raw.zadd(env.zset(queue), {young: now - 5000, **dict.fromkeys(old, now - 10_100)})
    env.raw.hset(env.hash(queue), mapping={f"{old[0]}:rc": 3, f"{young}:rc": 3})
    ids = env.rsmq.send_messages(queue, ["a", "b"])

    assert ids_of(receive(env, me)) == [(".", ids)]
    assert env.scores(queue).keys() == {young, *ids}
    assert env.scores(queue)[young] == now - 5000
    fields = env.fields(queue)
    assert (fields["totalrecv"], fields[f"{young}:rc"]) == ("2", "3")
    assert not any(name.startswith("ghost") for name in fields)
    assert in_flight(env, me).keys() == {"", *ids}


def test_a_receive_removes_a_bounded_number_of_ghosts(env, queue, me):
    env.raw.zadd(env.zset(queue), {f"ghost{number:027}": 1 for number in range(2500)})
    id = env.rsmq.send_message(queue, "m")

    assert receive(env, me) == [("+", [])]
    assert 1 < len(env.scores(queue)) <= 1501
    result = ("+", [])
    while result == ("+", []):
        (result,) = ids_of(receive(env, me))
    assert result == (".", [id])


def test_a_receive_does_not_apply_the_dead_letter_policy(env, queue, me, dead):
    env.rsmq.set_dead_letter_policy(queue, dead, 1)
    id = env.rsmq.send_message(queue, "poison")
    env.rsmq.receive_message(queue, vt=0)

    ((state, ((received_id, _, count, _),)),) = receive(env, me)
    assert (state, received_id.decode(), count) == (".", id, 2)
    assert env.scores(dead) == {}
    assert in_flight(env, me)[id] == f"2:{queue}"


BROKEN = {
    "another zset": lambda env, _: env.raw.set(env.zset("q"), "text"),
    "another hash": lambda env, _: (
        env.raw.delete(env.hash("q")),
        env.raw.set(env.hash("q"), "text"),
    ),
    "another type of its messages in flight": lambda env, _: (
        env.raw.delete(f"{env.ns}:x:held:w"),
        env.raw.set(f"{env.ns}:x:held:w", "text"),
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_receive_that_fails_changes_no_queue(env, queue, me, broken):
    env.rsmq.create_queue("first")
    env.rsmq.create_queue("last")
    for name in ("first", "last"):
        env.rsmq.send_messages(name, ["a", "b"])
    _, id = env.rsmq.send_messages(queue, ["a", "b"])
    BROKEN[broken](env, id)
    before = env.state()

    with pytest.raises(redis.ResponseError):
        receive(env, me, want(env, "first"), want(env), want(env, "last"))
    assert env.state() == before


def test_a_replaced_worker_receives_nothing(env, queue, me):
    env.rsmq.send_messages(queue, ["a", "b"])
    successor = worker(env, "theirs")
    enter(env, successor, dead="mine")
    before = env.state()

    with pytest.raises(WorkerReplaced) as caught:
        receive(env, me)
    assert caught.value.value == me.in_flight_key.decode()
    assert env.state() == before
    assert len(receive(env, successor)[0][1]) == 2


def test_two_workers_have_separate_messages_in_flight(env, queue, me):
    other = worker(env, "other", "v")
    enter(env, other)
    first, second = env.rsmq.send_messages(queue, ["a", "b"])

    assert ids_of(receive(env, me, slots=1)) == [("+", [first])]
    assert ids_of(receive(env, other)) == [(".", [second])]
    assert in_flight(env, me) == {"": "mine", first: "1:q"}
    assert in_flight(env, other) == {"": "other", second: "1:q"}


@pytest.mark.parametrize("step", ["receive", "settle", "dead_letter", "send_heartbeat"])
def test_a_missing_hash_of_messages_in_flight_is_created_again(env, queue, me, dead, step):
    (id,) = env.rsmq.send_messages(queue, ["a"])
    ((_, ((_, _, count, _),)),) = receive(env, me, want(env, vt_ms=0))
    env.raw.delete(me.in_flight_key)
    steps = {
        "receive": lambda: receive(env, me),
        "settle": lambda: settle(env, me, (queue, "delete", count, [id])),
        "dead_letter": lambda: dead_letter(env, me, (id, count)),
        "send_heartbeat": lambda: heartbeat(env, me),
    }
    steps[step]()

    expected = {"": "mine", id: "2:q"} if step == "receive" else {"": "mine"}
    assert in_flight(env, me) == expected
    heartbeat(env, me)
    assert DAY - 5000 < env.raw.pttl(me.in_flight_key) <= DAY


def test_settling_after_the_end_leaves_no_key_without_expiry(env, queue, me):
    (id,) = env.rsmq.send_messages(queue, ["a"])
    receive(env, me)
    env.rsmq.delete_message(queue, id)
    settle(env, me, (queue, "delete", 1, [id]))
    assert leave(env, me) == 0

    assert settle(env, me, (queue, "delete", 1, [id])) == b"0"
    assert env.raw.pttl(me.in_flight_key) != -1


@fillable
def test_a_full_server_is_drained_by_workers(env, queue, me, dead):
    ids = env.rsmq.send_messages(queue, ["x" * 100] * 50)
    with env.full():
        ((_, messages),) = receive(env, me, want(env, vt_ms=0), slots=40)
        assert len(messages) == 40
        groups = [
            (queue, "delete", 1, ids[:10]),
            (queue, "hide", 1, [(id, 90_000) for id in ids[10:20]]),
            (queue, "release", 1, ids[20:30]),
        ]
        assert settle(env, me, *groups) == b"1" * 30
        assert dead_letter(env, me, *((id, 1) for id in ids[30:40])) == b"1" * 10
        assert in_flight(env, me) == {"": "mine"}
        ((_, messages),) = receive(env, me)
        assert len(messages) == 20
        left = [id.decode() for id, *_ in messages]
        for count in (1, 2):
            group = [id.decode() for id, _, times, _ in messages if times == count]
            assert settle(env, me, (queue, "delete", count, group)) == b"1" * 10
        assert env.scores(queue).keys() == set(ids[10:20])
        assert not set(left) & set(ids[10:20])
        assert len(env.scores(dead)) == 10
        assert leave(env, me) == 0


@fillable
def test_a_full_server_is_drained_of_messages_with_large_counts(env, queue, me, dead):
    (id,) = env.rsmq.send_messages(queue, ["m"])
    env.raw.hset(env.hash(queue), mapping={"totalrecv": 10**15, f"{id}:rc": 10**15})
    env.raw.hset(env.hash(dead), "totalsent", 10**15)
    with env.full():
        ((_, ((_, _, count, _),)),) = receive(env, me)
        assert count == 10**15 + 1
        assert dead_letter(env, me, (id, count)) == b"1"
    assert env.fields(queue)["totalrecv"] == env.fields(dead)["totalsent"] == str(10**15 + 1)


@fillable
def test_a_worker_stays_alive_on_a_full_server_and_can_be_replaced(env, me):
    with env.full():
        heartbeat(env, me)
        assert enter(env, worker(env, "theirs"), dead="mine").token == "mine"


@pytest.fixture
def received_ids(env, queue, me):
    """The ids of queue q that are in flight at the worker, received once."""
    ids = env.rsmq.send_messages(queue, [str(number) for number in range(6)])
    receive(env, me)
    return ids


def test_several_messages_of_several_queues_are_settled_together(env, me, received_ids):
    env.rsmq.create_queue("p")
    others = env.rsmq.send_messages("p", ["a", "b"])
    env.rsmq.receive_messages("p", 2, vt=0)
    receive(env, me, want(env, "p"))
    fields, totals = env.fields("q"), env.fields("p")
    before = env.now_ms()
    reply = settle(
        env, me,
        ("q", "delete", 1, received_ids[:2]),
        ("p", "delete", 2, others[:1]),
        ("q", "hide", 1, [(received_ids[2], 0), (received_ids[3], 90_000)]),
        ("p", "release", 2, others[1:]),
        ("q", "release", 1, received_ids[4:5]),
    )  # fmt: skip
    after = env.now_ms()

    assert reply == b"1111111"
    scores = env.scores("q")
    assert scores.keys() == set(received_ids[2:])
    assert before <= scores[received_ids[2]] <= after
    assert before + 90_000 <= scores[received_ids[3]] <= after + 90_000
    assert scores[received_ids[4]] == int(received_ids[4][:10], 36) // 1000
    assert env.scores("p") == {others[1]: int(others[1][:10], 36) // 1000}
    gone = {f"{id}{suffix}" for id in received_ids[:2] for suffix in ("", ":rc", ":fr")}
    assert env.fields("q") == {
        name: value for name, value in fields.items() if name not in gone
    }  # fmt: skip
    assert env.fields("p") == {
        name: value for name, value in totals.items() if not name.startswith(others[0])
    }
    assert in_flight(env, me) == {"": "mine", received_ids[5]: "1:q"}


def test_a_release_is_never_later_than_now(env, queue, me):
    odd, future = "y" * 20, "z" * 32
    now = env.now_ms()
    for id in (odd, future):
        env.raw.hset(env.hash(queue), id, "m")
        env.raw.zadd(env.zset(queue), {id: now})
    receive(env, me)
    before = env.now_ms()

    assert settle(env, me, (queue, "release", 1, [odd, future])) == b"11"
    assert all(before <= score <= env.now_ms() for score in env.scores(queue).values())
    assert in_flight(env, me) == {"": "mine"}


def test_an_apalis_message_is_deleted_with_its_meta(env, queue, me):
    id = env.send_as_apalis(queue)
    receive(env, me)

    assert settle(env, me, (queue, "delete", 1, [id])) == b"1"
    assert not any(id in name for name in env.fields(queue))
    assert env.scores(queue) == {}


@pytest.mark.parametrize("action", ["delete", "hide", "release"])
def test_a_message_that_was_received_again_is_not_settled(env, queue, me, received_ids, action):
    env.raw.zadd(env.zset(queue), {received_ids[0]: 1})
    assert env.rsmq.receive_message(queue).id == received_ids[0]
    before = env.state()
    pairs = [(id, 5000) for id in received_ids[:1]] if action == "hide" else received_ids[:1]

    assert settle(env, me, (queue, action, 1, pairs)) == b"2"
    after = env.state()
    assert after.pop(me.in_flight_key).keys() == {b"", *(id.encode() for id in received_ids[1:])}
    before.pop(me.in_flight_key)
    assert after == before


@pytest.mark.parametrize("action", ["delete", "hide", "release", "dead_letter"])
def test_a_newer_receive_by_the_same_worker_stays_in_flight(
    env, queue, me, dead, received_ids, action
):
    env.raw.zadd(env.zset(queue), {received_ids[0]: 1})
    receive(env, me)
    before = env.state()
    pairs = [(id, 5000) for id in received_ids[:1]] if action == "hide" else received_ids[:1]
    if action == "dead_letter":
        assert dead_letter(env, me, (received_ids[0], 1)) == b"2"
    else:
        assert settle(env, me, (queue, action, 1, pairs)) == b"2"

    assert in_flight(env, me)[received_ids[0]] == "2:q"
    assert env.state() == before
    assert settle(env, me, (queue, "delete", 2, received_ids[:1])) == b"1"
    assert received_ids[0] not in in_flight(env, me)


@pytest.mark.parametrize("action", ["delete", "hide", "release", "dead_letter"])
def test_a_missing_message_is_reported_and_no_longer_in_flight(
    env, queue, me, dead, received_ids, action
):
    env.rsmq.delete_message(queue, received_ids[0])
    ghost = received_ids[1]
    if action == "dead_letter":
        env.raw.hdel(env.hash(queue), ghost)
        assert (
            dead_letter(env, me, (received_ids[0], 1), (ghost, 1), (received_ids[2], 1)) == b"001"
        )
        assert env.scores(dead).keys() == {received_ids[2]}
    else:
        pairs = [(received_ids[0], 5000)] if action == "hide" else received_ids[:1]
        assert settle(env, me, (queue, action, 1, pairs)) == b"0"
        assert env.scores(queue).keys() == set(received_ids[1:])
    assert received_ids[0] not in in_flight(env, me)
    assert in_flight(env, me)[received_ids[5]] == "1:q"


def test_settling_twice_has_the_same_effect_as_once(env, queue, me, received_ids):
    groups = [
        (queue, "delete", 1, received_ids[:2]),
        (queue, "hide", 1, [(received_ids[2], 90_000)]),
        (queue, "release", 1, received_ids[3:4]),
    ]
    assert settle(env, me, *groups) == b"1111"
    scores, fields = env.scores(queue), env.fields(queue)
    del scores[received_ids[2]]

    operation = settle_messages(me, [Settlement(keys_of(env, q), *rest) for q, *rest in groups])
    again = env.rsmq.run(operation)
    assert (again, operation.parse_retried(again)) == (b"0011", b"1111")
    after = env.scores(queue)
    del after[received_ids[2]]
    assert (after, env.fields(queue)) == (scores, fields)
    assert in_flight(env, me) == {"": "mine", received_ids[4]: "1:q", received_ids[5]: "1:q"}


def test_a_repeated_id_is_settled_once(env, queue, me, received_ids):
    assert settle(env, me, (queue, "delete", 1, [received_ids[0], received_ids[0]])).startswith(
        b"1"
    )
    assert env.scores(queue).keys() == set(received_ids[1:])


def test_the_reply_has_digits_in_the_order_of_the_groups(env, queue, me, received_ids):
    env.raw.zadd(env.zset(queue), {received_ids[1]: 1})
    env.rsmq.receive_message(queue)
    env.rsmq.delete_message(queue, received_ids[3])
    groups = [(queue, "delete", 1, received_ids[:3]), (queue, "release", 1, received_ids[3:5])]

    assert settle(env, me, *groups) == b"12101"


def test_settling_in_a_missing_queue_finds_no_message(env, queue, me, received_ids):
    env.rsmq.delete_queue(queue)

    assert settle(env, me, (queue, "delete", 1, received_ids[:2])) == b"00"
    assert settle(env, me, (queue, "hide", 1, [(received_ids[2], 5000)])) == b"0"
    assert not env.raw.exists(env.zset(queue), env.hash(queue))
    assert in_flight(env, me).keys() == {"", *received_ids[3:]}
    assert settle(env, me) == b""


def test_a_replaced_worker_deletes_but_does_not_hide_or_release(env, queue, me, dead, received_ids):
    successor = worker(env, "theirs")
    enter(env, successor, dead="mine")
    before = in_flight(env, me)
    assert before == {"": "theirs", **dict.fromkeys(received_ids, "1:q")}

    assert settle(env, me, (queue, "delete", 1, received_ids[:1])) == b"1"
    scores = env.scores(queue)
    assert settle(env, me, (queue, "hide", 1, [(received_ids[1], 90_000)])) == b"2"
    assert settle(env, me, (queue, "release", 1, received_ids[1:2])) == b"2"
    with pytest.raises(WorkerReplaced):
        settle(env, me, (queue, "extend", 1, [(received_ids[1], 90_000)]))
    assert env.scores(queue) == scores
    assert dead_letter(env, me, (received_ids[2], 1)) == b"1"
    assert env.scores(queue).keys() == {received_ids[1], *received_ids[3:]}
    assert in_flight(env, me) == before


def test_extended_messages_stay_in_flight(env, queue, me, received_ids):
    before = in_flight(env, me)
    now = env.now_ms()
    env.rsmq.release_messages(queue, received_ids[1:2])
    env.rsmq.receive_message(queue)

    assert settle(env, me, (queue, "extend", 1, [(id, 90_000) for id in received_ids[:2]])) == b"12"
    assert now + 90_000 <= env.scores(queue)[received_ids[0]] <= env.now_ms() + 90_000
    assert in_flight(env, me) == before


@pytest.mark.parametrize("action", ["settle", "dead_letter"])
def test_a_message_received_from_another_queue_stays_in_flight(
    env, queue, me, dead, received_ids, action
):
    env.rsmq.move_messages(queue, dead, received_ids[:1])
    env.raw.zadd(env.zset(dead), {received_ids[0]: 1})
    receive(env, me, want(env, dead))
    assert in_flight(env, me)[received_ids[0]] == "2:dead"

    if action == "settle":
        assert settle(env, me, (queue, "delete", 1, received_ids[:1])) == b"0"
    else:
        assert dead_letter(env, me, (received_ids[0], 1)) == b"0"
    assert env.scores(dead).keys() == set(received_ids[:1])
    assert in_flight(env, me)[received_ids[0]] == "2:dead"


def test_thousands_are_settled(env, queue, me):
    ids = env.rsmq.send_messages(queue, ["m"] * 4500)
    receive(env, me)
    groups = [
        (queue, "delete", 1, ids[:2200]),
        (queue, "hide", 1, [(id, 90_000) for id in ids[2200:]]),
    ]

    assert settle(env, me, *groups) == b"1" * 4500
    assert env.scores(queue).keys() == set(ids[2200:])
    assert in_flight(env, me) == {"": "mine"}


@pytest.mark.parametrize(
    "broken", ["another zset", "another hash", "another type of its messages in flight"]
)
def test_settling_that_fails_changes_nothing(env, queue, me, received_ids, broken):
    env.rsmq.create_queue("first")
    others = env.rsmq.send_messages("first", ["a"])
    receive(env, me, want(env, "first"))
    BROKEN[broken](env, None)
    before = env.state()

    with pytest.raises(redis.ResponseError):
        settle(env, me, ("first", "delete", 1, others), (queue, "delete", 1, received_ids))
    assert env.state() == before


def test_dead_lettering_moves_messages_with_counters_and_reasons(env, queue, me, dead):
    ids = env.rsmq.send_messages(queue, ["é", "b"])
    apalis = env.send_as_apalis(queue, "c")
    env.rsmq.receive_messages(queue, 9, vt=0)
    receive(env, me)
    fields = env.fields(queue)
    env.raw.hset(env.hash(dead), "maxsize", "1")
    before = env.now_ms()

    assert dead_letter(env, me, (ids[0], 2), (apalis, 2)) == b"11"
    moved = env.fields(dead)
    for id in (ids[0], apalis):
        assert before <= env.scores(dead)[id] <= env.now_ms()
        for suffix in ("", ":rc", ":fr"):
            assert moved[f"{id}{suffix}"] == fields[f"{id}{suffix}"]
    assert moved[f"{apalis}:meta"] == "apalis"
    assert moved["totalsent"] == "2"
    assert env.scores(queue).keys() == {ids[1]}
    assert env.fields(queue) == {
        name: value for name, value in fields.items()
        if not name.startswith((ids[0], apalis))
    }  # fmt: skip
    assert in_flight(env, me) == {"": "mine", ids[1]: "2:q"}
    stored = reasons(env)
    assert stored.keys() == {ids[0], apalis}
    for id, record in stored.items():
        ms, _, why = record.partition(b":")
        assert int(ms) == env.scores(dead)[id]
        assert json.loads(why) == REASON


def test_peek_and_get_return_the_reason(env, queue, me, dead):
    (id,) = env.rsmq.send_messages(queue, ["m"])
    receive(env, me)
    dead_letter(env, me, (id, 1))

    stored = env.rsmq.get_message(dead, id)
    assert stored.reason == DeadLetterReason(**REASON, died_ms=stored.visible_at_ms)
    assert env.rsmq.peek_messages(dead) == [stored]
    message = env.rsmq.receive_message(dead)
    assert (message.id, message.receive_count) == (id, 2)


def test_reasons_live_for_a_month_after_the_last(env, queue, me, dead):
    first, second = env.rsmq.send_messages(queue, ["a", "b"])
    receive(env, me)
    dead_letter(env, me, (first, 1))
    key = keys_of(env, dead).reasons
    assert 30 * DAY - 5000 < env.raw.pttl(key) <= 30 * DAY
    env.raw.pexpire(key, 1000)
    dead_letter(env, me, (second, 1))

    assert 30 * DAY - 5000 < env.raw.pttl(key) <= 30 * DAY
    assert env.raw.pttl(env.hash(dead)) == env.raw.pttl(env.zset(dead)) == -1


def test_beyond_the_limit_messages_are_moved_without_reasons(env, queue, me, dead, monkeypatch):
    monkeypatch.setattr(workers, "MAX_REASONS", 3)
    ids = env.rsmq.send_messages(queue, ["m"] * 8)
    receive(env, me)

    assert dead_letter(env, me, *((id, 1) for id in ids[:5])) == b"11111"
    assert reasons(env).keys() == set(ids[:3])
    assert dead_letter(env, me, (ids[5], 1)) == b"1"
    assert env.scores(dead).keys() == set(ids[:6])
    assert reasons(env).keys() - {""} == set(ids[:3])
    assert env.rsmq.get_message(dead, ids[5]).reason is None


def test_reasons_of_messages_that_left_make_room(env, queue, me, dead, monkeypatch):
    monkeypatch.setattr(workers, "MAX_REASONS", 3)
    ids = env.rsmq.send_messages(queue, ["m"] * 8)
    receive(env, me)
    dead_letter(env, me, *((id, 1) for id in ids[:3]))
    env.rsmq.delete_messages(dead, ids[:2])

    assert dead_letter(env, me, (ids[3], 1)) == b"1"
    assert reasons(env).keys() - {""} == {ids[2], ids[3]}
    assert len(reasons(env)) <= 3


def test_each_call_removes_some_old_reasons(env, queue, me, dead, monkeypatch):
    monkeypatch.setattr(workers, "MAX_REASONS", 100)
    key = keys_of(env, dead).reasons
    kept, (id,) = env.rsmq.send_messages(dead, ["m"] * 2500), env.rsmq.send_messages(queue, ["m"])
    old = [f"{number:032}" for number in range(500)]
    env.raw.hset(key, mapping=dict.fromkeys([*old, *kept], "5:{}"))
    receive(env, me)

    for _ in range(8):
        dead_letter(env, me, (id, 1))
    assert reasons(env).keys() - {""} == set(kept)
    assert env.scores(dead).keys() == {id, *kept}


def test_orphan_fields_are_not_dead_lettered(env, queue, me, dead, received_ids):
    env.raw.zrem(env.zset(queue), received_ids[0])  # some clients delete without MULTI
    before = env.fields(dead)

    for _ in range(2):
        assert dead_letter(env, me, (received_ids[0], 1)) == b"0"
        assert env.scores(dead) == {}
        assert env.fields(dead) == before


@pytest.mark.parametrize("action", ["hide", "release"])
def test_orphan_fields_do_not_become_a_message_again(env, queue, me, received_ids, action):
    env.raw.zrem(env.zset(queue), received_ids[0])
    pairs = [(received_ids[0], 5000)] if action == "hide" else received_ids[:1]

    assert settle(env, me, (queue, action, 1, pairs)) in (b"0", b"1")
    assert env.scores(queue).keys() == set(received_ids[1:])
    assert received_ids[0] not in in_flight(env, me)


@pytest.mark.parametrize("count", [1, 3])
def test_a_message_that_was_received_again_is_not_dead_lettered(
    env, queue, me, dead, received_ids, count
):
    env.raw.zadd(env.zset(queue), {received_ids[0]: 1})
    assert env.rsmq.receive_message(queue).receive_count == 2
    before = env.state()

    assert dead_letter(env, me, (received_ids[0], count)) == b"2"
    after = env.state()
    after.pop(me.in_flight_key)
    before.pop(me.in_flight_key)
    assert after == before
    assert (received_ids[0] in in_flight(env, me)) == (count == 3)


def test_dead_lettering_twice_moves_once(env, queue, me, dead, received_ids):
    keys, to = keys_of(env, queue), keys_of(env, dead)
    operation = dead_letter_messages(me, keys, to, [(received_ids[0], 1, REASON)])
    assert env.rsmq.run(operation) == b"1"
    before = env.state()

    again = env.rsmq.run(operation)
    assert (again, operation.parse_retried(again)) == (b"0", b"1")
    assert env.state() == before


def test_a_repeated_id_is_dead_lettered_once(env, queue, me, dead, received_ids):
    assert dead_letter(env, me, (received_ids[0], 1), (received_ids[0], 1)) == b"10"
    assert env.fields(dead)["totalsent"] == "1"


def test_dead_lettering_into_a_missing_queue_changes_nothing(env, queue, me, received_ids):
    for half_made in (False, True):
        if half_made:
            env.raw.hset(env.hash("dead"), mapping={"vt": 30, "delay": 0})
        before = env.state()
        with pytest.raises(QueueNotFound) as caught:
            dead_letter(env, me, (received_ids[0], 1))
        assert caught.value.value == "dead"
        assert env.state() == before


def test_dead_lettering_from_a_missing_queue_finds_no_message(env, queue, me, dead, received_ids):
    env.rsmq.delete_queue(queue)

    assert dead_letter(env, me, (received_ids[0], 1)) == b"0"
    assert not env.raw.exists(env.zset(queue), env.hash(queue), keys_of(env, dead).reasons)
    assert received_ids[0] not in in_flight(env, me)


BROKEN_DEAD_LETTERING = {
    "another zset": lambda env: BROKEN["another zset"](env, None),
    "another hash": lambda env: BROKEN["another hash"](env, None),
    "another target": lambda env: env.raw.set(env.zset("dead"), "text"),
    "other reasons": lambda env: env.raw.set(f"{env.zset('dead')}:x:reasons", "text"),
    "another type of its messages in flight": lambda env: BROKEN[
        "another type of its messages in flight"
    ](env, None),
}


@pytest.mark.parametrize("broken", BROKEN_DEAD_LETTERING)
def test_dead_lettering_that_fails_changes_nothing(env, queue, me, dead, received_ids, broken):
    BROKEN_DEAD_LETTERING[broken](env)
    before = env.state()

    with pytest.raises(redis.ResponseError):
        dead_letter(env, me, *((id, 1) for id in received_ids))
    assert env.state() == before


def test_dead_lettering_into_the_same_queue_loses_no_message(env, queue, me, received_ids):
    with suppress(RSMQError, redis.ResponseError):  # a refusal is as good
        dead_letter(env, me, (received_ids[0], 1), target=queue)

    assert received_ids[0] in env.scores(queue)
    assert env.fields(queue)[received_ids[0]] == "0"


def test_thousands_are_dead_lettered(env, queue, me, dead):
    ids = env.rsmq.send_messages(queue, ["m"] * 2200)
    receive(env, me)

    assert dead_letter(env, me, *((id, 1) for id in ids)) == b"1" * 2200
    assert env.scores(dead).keys() == set(ids)
    assert env.fields(dead)["totalsent"] == "2200"
    assert reasons(env).keys() == set(ids)
    assert in_flight(env, me) == {"": "mine"}


def registered(env):
    stored = env.raw.hgetall(f"{env.ns}:x:workers")
    return {name.decode(): value.decode() for name, value in stored.items()}


def test_a_free_name_can_be_registered(env):
    me = worker(env, "mine")
    before = env.now_ms()

    assert enter(env, me, info={"host": "é:1", "pid": 5}, ttl=2.5) is None
    until, token, info = registered(env)["w"].split(":", 2)
    assert before + 2500 <= int(until) <= env.now_ms() + 2500
    assert (token, json.loads(info)) == ("mine", {"host": "é:1", "pid": 5})
    assert in_flight(env, me) == {"": "mine"}
    for key in (f"{env.ns}:x:workers", me.in_flight_key):
        assert DAY - 5000 < env.raw.pttl(key) <= DAY
    assert sorted(env.state()) == sorted([f"{env.ns}:x:workers".encode(), me.in_flight_key])


def test_the_name_of_a_live_worker_cannot_be_registered(env, me):
    heartbeat(env, me, info={"pid": 7}, ttl=10)
    before = env.state()
    other = enter(env, worker(env, "theirs"), dead="unknown")

    assert 5000 < other.remaining_ms <= 10_000
    assert (other.token, json.loads(other.info)) == ("mine", {"pid": 7})
    assert env.state() == before


def expire(env, name="w", ago_ms=1):
    """Let the sign of life of a worker expire."""
    _, rest = registered(env)[name].split(":", 1)
    env.raw.hset(f"{env.ns}:x:workers", name, f"{env.now_ms() - ago_ms}:{rest}")


@pytest.mark.parametrize("how", ["it expired", "its token is reported as dead", "it left"])
def test_the_successor_of_a_dead_worker_has_its_messages_in_flight(env, queue, me, how):
    ids = env.rsmq.send_messages(queue, ["a", "b"])
    receive(env, me)
    if how == "it expired":
        expire(env)
    elif how == "it left":
        assert leave(env, me) == 2
    successor = worker(env, "theirs")

    stored = registered(env).get("w", "")
    predecessor = enter(env, successor, dead="mine" if "token" in how else "")
    if how == "it left":
        assert predecessor is None
    else:
        expired_ms, token, info = stored.split(":", 2)
        assert predecessor == RegisteredWorker(0, token, info, int(expired_ms))
    assert enter(env, successor) is None
    assert in_flight(env, me) == {"": "theirs", **dict.fromkeys(ids, "1:q")}
    assert registered(env)["w"].split(":")[1] == "theirs"
    found = env.rsmq.run_steps(list_in_flight(Namespace(env.ns), "w"))
    assert {queue: sorted(receipts) for queue, receipts in found.items()} == {
        "q": sorted((id, 1) for id in ids)
    }
    assert settle(env, successor, (queue, "release", 1, ids)) == b"11"
    assert in_flight(env, me) == {"": "theirs"}


def test_the_same_token_enters_again(env, queue, me):
    env.rsmq.send_messages(queue, ["a"])
    receive(env, me)
    before = in_flight(env, me)

    assert enter(env, me, info={"pid": 2}) is None
    assert in_flight(env, me) == before
    assert registered(env)["w"].endswith(':{"pid": 2}')


def test_a_heartbeat_stores_its_expiry_and_the_info(env, me):
    expire(env)
    for key in (f"{env.ns}:x:workers", me.in_flight_key):
        env.raw.pexpire(key, 5000)
    before = env.now_ms()
    heartbeat(env, me, info={"jobs": 3}, ttl=4)

    until, token, info = registered(env)["w"].split(":", 2)
    assert before + 4000 <= int(until) <= env.now_ms() + 4000
    assert (token, json.loads(info)) == ("mine", {"jobs": 3})
    for key in (f"{env.ns}:x:workers", me.in_flight_key):
        assert DAY - 5000 < env.raw.pttl(key) <= DAY


@pytest.mark.parametrize("step", [heartbeat, leave])
def test_a_replaced_worker_cannot_send_heartbeats_or_leave(env, me, step):
    enter(env, worker(env, "theirs"), dead="mine")
    before = env.state()

    with pytest.raises(WorkerReplaced) as caught:
        step(env, me)
    assert caught.value.value == me.in_flight_key.decode()
    assert env.state() == before


def test_leaving_without_messages_leaves_no_key(env, me):
    assert leave(env, me) == 0
    assert env.state() == {}
    assert leave(env, me) == 0
    assert env.state() == {}


def test_leaving_with_messages_keeps_them_in_flight(env, queue, me):
    ids = env.rsmq.send_messages(queue, ["a", "b", "c"])
    receive(env, me)

    assert leave(env, me) == 3
    assert registered(env) == {}
    assert in_flight(env, me) == {"": "mine", **dict.fromkeys(ids, "1:q")}
    assert 0 < env.raw.pttl(me.in_flight_key) <= DAY
    assert leave(env, me) == 3


def test_a_registration_removes_workers_that_died_long_ago(env, me):
    for name in ("lately", "long-ago"):
        enter(env, worker(env, "t", name))
    expire(env, "lately", DAY - 60_000)
    expire(env, "long-ago", DAY + 60_000)
    env.raw.hset(f"{env.ns}:x:workers", "broken", "text")
    enter(env, worker(env, "t", "new"))

    assert registered(env).keys() == {"w", "lately", "new"}


@pytest.mark.parametrize("stored", ["", "text", ":mine:{}", "9999999999999", "-1:mine:{}"])
def test_an_invalid_entry_does_not_block_its_name(env, stored):
    env.raw.hset(f"{env.ns}:x:workers", "w", stored)

    assert enter(env, worker(env)) is None
    assert registered(env)["w"].split(":")[1] == "mine"


def test_workers_are_listed_with_the_servers_time(env, me):
    enter(env, worker(env, "t", "v"), info={"pid": 2})
    before = env.now_ms()
    now, found = env.rsmq.run(list_workers(Namespace(env.ns)))

    assert before <= now <= env.now_ms()
    assert {name: value.decode() for name, value in found.items()} == registered(env)
    assert found.keys() == {"w", "v"}


def test_without_workers_the_list_is_empty(env):
    _, found = env.rsmq.run(list_workers(Namespace(env.ns)))

    assert found == {}
    assert env.rsmq.run_steps(list_in_flight(Namespace(env.ns), "w")) == {}
    assert env.state() == {}


def test_messages_in_flight_are_listed_by_queue_over_many_pages(env, queue, me):
    env.rsmq.create_queue("p")
    expected = {
        name: env.rsmq.send_messages(name, ["m"] * number)
        for name, number in ((queue, 2500), ("p", 700))
    }
    env.rsmq.receive_messages("p", 700, vt=0)
    receive(env, me, want(env), want(env, "p"))
    before = env.state()
    found = env.rsmq.run_steps(list_in_flight(Namespace(env.ns), "w"))

    assert {name: sorted(receipts) for name, receipts in found.items()} == {
        queue: sorted((id, 1) for id in expected[queue]),
        "p": sorted((id, 2) for id in expected["p"]),
    }
    assert env.state() == before


def test_quarantine_counts_runs_that_began_and_did_not_end(env, queue):
    keys = keys_of(env, queue)

    def begin(id, count):
        return env.rsmq.run(record_quarantine_run(keys, id, count))

    assert begin("a" * 32, 2) == 0
    assert env.raw.hgetall(keys.quarantined) == {b"a" * 32: b"1:2"}
    assert 7 * DAY - 5000 < env.raw.pttl(keys.quarantined) <= 7 * DAY
    assert begin("a" * 32, 2) == 0  # a repetition after a lost reply
    assert begin("b" * 32, 1) == 0
    assert begin("a" * 32, 3) == 1
    assert begin("a" * 32, 4) == 2
    assert begin("a" * 32, 4) == 2
    assert env.raw.hgetall(keys.quarantined) == {b"a" * 32: b"3:4", b"b" * 32: b"1:1"}


def begun_in_quarantine(env, ids, count=1):
    for id in ids:
        env.rsmq.run(record_quarantine_run(keys_of(env, "q"), id, count))


@pytest.mark.parametrize("action", ["release", "unbegun"])
def test_a_release_subtracts_the_last_run_in_quarantine_once(env, queue, me, received_ids, action):
    first, second = received_ids[:2]
    ids = [first, second] if action == "release" else [(first, 1), (second, 1)]
    begun_in_quarantine(env, [first, second])
    env.raw.hset(keys_of(env, queue).quarantined, second, "3:1")
    for _ in range(2):  # the second time, the script is repeated
        settle(env, me, (queue, action, 1, ids, True))

    assert env.raw.hgetall(keys_of(env, queue).quarantined) == {second.encode(): b"2:0"}
    assert env.rsmq.run(record_quarantine_run(keys_of(env, queue), second, 2)) == 2


@pytest.mark.parametrize("action", ["delete", "hide", "release"])
def test_settling_removes_the_counter_of_runs_in_quarantine_of_receipts_that_fit(
    env, queue, me, received_ids, action
):
    begun_in_quarantine(env, received_ids)
    env.rsmq.change_message_visibility(queue, received_ids[1], 0)
    env.rsmq.receive_message(queue)  # it has another receipt now
    env.rsmq.delete_message(queue, received_ids[2])
    ids = [(id, 60_000) for id in received_ids[:3]] if action == "hide" else received_ids[:3]

    assert settle(env, me, (queue, action, 1, ids, True)) == b"120"
    assert sorted(env.raw.hkeys(keys_of(env, queue).quarantined)) == sorted(
        id.encode() for id in received_ids[1:]
    )


@pytest.mark.parametrize("action", ["delete", "hide", "release", "extend"])
def test_settling_leaves_the_counter_where_the_outcome_of_the_run_is_not_known(
    env, queue, me, received_ids, action
):
    begun_in_quarantine(env, received_ids)
    ids = [(id, 60_000) for id in received_ids] if action in {"hide", "extend"} else received_ids

    assert settle(env, me, (queue, action, 1, ids)) == b"1" * len(received_ids)
    assert len(env.raw.hkeys(keys_of(env, queue).quarantined)) == len(received_ids)


@pytest.mark.parametrize("action", ["delete", "hide", "release"])
def test_a_replaced_worker_removes_the_counter_only_with_the_message(
    env, queue, me, received_ids, action
):
    begun_in_quarantine(env, received_ids)
    enter(env, worker(env, "theirs"), dead="mine")
    ids = [(id, 60_000) for id in received_ids] if action == "hide" else received_ids

    reply = settle(env, me, (queue, action, 1, ids, True))
    assert reply == (b"1" if action == "delete" else b"2") * len(received_ids)
    assert env.raw.exists(keys_of(env, queue).quarantined) == (action != "delete")


def test_dead_lettering_removes_the_counter_of_runs_in_quarantine_of_receipts_that_fit(
    env, queue, me, received_ids
):
    env.rsmq.create_queue("dead")
    begun_in_quarantine(env, received_ids)
    receipts = [(received_ids[0], 1), (received_ids[1], 2)]

    def dead_letter_all(*, quarantined):
        messages = [(id, count, REASON) for id, count in receipts]
        keys, dead = keys_of(env, queue), keys_of(env, "dead")
        return env.rsmq.run(dead_letter_messages(me, keys, dead, messages, quarantined=quarantined))

    assert dead_letter_all(quarantined=True) == b"12"
    assert sorted(env.raw.hkeys(keys_of(env, queue).quarantined)) == sorted(
        id.encode() for id in received_ids[1:]
    )
    receipts = [(received_ids[1], 1)]
    assert dead_letter_all(quarantined=False) == b"1"
    assert len(env.raw.hkeys(keys_of(env, queue).quarantined)) == len(received_ids) - 1


def test_a_counter_of_another_type_does_not_block_settling(env, queue, me, received_ids):
    env.raw.set(keys_of(env, queue).quarantined, "not ours")

    assert settle(env, me, (queue, "delete", 1, received_ids, True)) == b"1" * len(received_ids)
    assert env.raw.get(keys_of(env, queue).quarantined) == b"not ours"


def test_a_later_run_in_quarantine_extends_the_expiry_of_all(env, queue):
    keys = keys_of(env, queue)
    env.rsmq.run(record_quarantine_run(keys, "a" * 32, 1))
    env.raw.pexpire(keys.quarantined, 1000)
    env.rsmq.run(record_quarantine_run(keys, "b" * 32, 1))

    assert env.raw.pttl(keys.quarantined) > 7 * DAY - 5000
