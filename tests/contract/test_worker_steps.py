"""The steps that workers are made of: take, settle, bury, and being alive. On raw keys."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
import redis

from rsmq import QueueNotFound, RSMQError, WorkerReplaced
from rsmq.model import DeadLetterReason
from rsmq.operations import worker as workers
from rsmq.operations.worker import (
    Group,
    Identity,
    ReceiveRequest,
    dead_letter_messages,
    list_in_flight,
    list_workers,
    receive_for_worker,
    record_quarantine_run,
    register_worker,
    send_heartbeat,
    settle_messages,
    unregister_worker,
)
from rsmq.wire.keys import Namespace
from tests.contract.conftest import Env

DAY = 86_400_000
WHY = {
    "queue": "q",
    "text": "its handler raised é",
    "exception": "ValueError: no number",
    "traceback": None,
    "worker": "w",
    "attempts": 1,
}


@pytest.fixture
def face():
    return "sync"


@pytest.fixture(params=["redis", "redis-6.2", "cluster", "given, RESP3", "memory"])
def env(request, face):
    env = Env(request.param, face, request)
    yield env
    env.close()


@pytest.fixture
def me(env):
    """A worker that has its name."""
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


def take(env, who, *wants, slots=10_000):
    return take_all(env, who, wants or [want(env)], slots)


def take_all(env, who, wants, slots):
    """Of each queue its state, and of each message id, body, receive count and first receive."""
    return [
        (
            taken.state,
            [
                (id.encode(), raw, *taken.redelivered.get(place, (1, taken.now_ms)))
                for place, (id, raw) in enumerate(zip(taken.ids, taken.raws, strict=True))
            ],
        )
        for taken in env.rsmq.run(receive_for_worker(who, wants, slots))
    ]


def settle(env, who, *groups):
    groups = [Group(keys_of(env, qname), *rest) for qname, *rest in groups]
    return env.rsmq.run(settle_messages(who, groups))


def bury(env, who, *receipts, qname="q", target="dead", why=WHY):
    messages = [(id, count, why) for id, count in receipts]
    operation = dead_letter_messages(who, keys_of(env, qname), keys_of(env, target), messages)
    return env.rsmq.run(operation)


def enter(env, who, *, info=None, ttl=10, dead=""):
    return env.rsmq.run(register_worker(who, info or {"pid": 1}, ttl=ttl, dead=dead))


def beat(env, who, *, info=None, ttl=10):
    return env.rsmq.run(send_heartbeat(who, info or {"pid": 1}, ttl=ttl))


def leave(env, who):
    return env.rsmq.run(unregister_worker(who))


def held(env, who):
    """The whole hash of what a worker holds, as text."""
    return {id.decode(): value.decode() for id, value in env.raw.hgetall(who.in_flight_key).items()}


def reasons(env, qname="dead"):
    stored = env.raw.hgetall(keys_of(env, qname).reasons)
    return {id.decode(): value for id, value in stored.items()}


def ids_of(taken):
    """Of each queue its state and the ids that were taken."""
    return [(state, [id.decode() for id, *_ in messages]) for state, messages in taken]


#: For tests of a full server.
fillable = pytest.mark.parametrize("env", ["redis", "redis-6.2", "cluster"], indirect=True)


def test_a_take_receives_and_notes_what_it_took(env, queue, me):
    ids = env.rsmq.send_messages(queue, ["a", "é", "c"])
    env.rsmq.receive_message(queue)
    env.raw.zadd(env.zset(queue), {ids[0]: 1})
    first = int(env.fields(queue)[f"{ids[0]}:fr"])
    before = env.now_ms()
    ((state, messages),) = take(env, me, want(env, vt_ms=2500), slots=2)
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
    assert held(env, me) == {"": "mine", ids[0]: f"2:{queue}", ids[1]: f"1:{queue}"}


def test_a_take_writes_exactly_what_receives_write(env, queue, me):
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
    ((state, messages),) = take(env, me)
    after = env.now_ms()

    def told(fields):
        """The fields, with 'now' for what is of just now."""
        return {
            name: "now" if name.endswith(":fr") and value.isdigit() and int(value) >= before
            else value for name, value in fields.items()
        }  # fmt: skip

    assert state == "."
    assert told(env.fields(queue)) == told(env.fields("twin"))
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
    assert held(env, me) == {
        "": "mine", **{m.id: f"{m.receive_count}:{queue}" for m in received},
    }  # fmt: skip


def test_what_was_taken_is_a_receipt_as_that_of_a_receive(env, queue, me):
    env.rsmq.send_messages(queue, ["a", "b"])
    take(env, me, want(env, vt_ms=0))
    first, second = env.rsmq.receive_messages(queue, 2)

    assert (first.receive_count, second.receive_count) == (2, 2)
    ((_, messages),) = take(env, me)
    assert messages == []
    assert env.rsmq.delete_messages([first, second]) == [first.id, second.id]


def test_nothing_due_changes_nothing(env, queue, me):
    env.rsmq.send_message(queue, "later", delay=100)
    before = env.state()

    assert take(env, me) == [(".", [])]
    assert take(env, me, slots=0) != []
    assert env.state() == before


#: Messages that wait, of each queue; slots; of each queue size, ahead and most; state and number.
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
def test_slots_sizes_and_limits_say_how_many_are_taken(env, me, case):
    waiting, slots, wants, expected = CASES[case]
    sent = []
    for number, messages in enumerate(waiting):
        env.rsmq.create_queue(f"q{number}")
        sent.append(env.rsmq.send_messages(f"q{number}", ["m"] * messages))
    wants = [
        want(env, f"q{number}", size=size, ahead=ahead, most=most)
        for number, (size, ahead, most) in enumerate(wants)
    ]
    taken = take_all(env, me, wants, slots)

    assert [(state, len(messages)) for state, messages in taken] == expected
    for (_, ids), of_queue in zip(ids_of(taken), sent, strict=True):
        assert ids == of_queue[: len(ids)]
    for number, (_, messages) in enumerate(expected):
        assert env.fields(f"q{number}").get("totalrecv", "0") == str(messages)
    assert len(held(env, me)) == 1 + sum(number for _, number in expected)


def test_without_a_slot_and_ahead_nothing_is_taken(env, queue, me):
    env.rsmq.send_messages(queue, ["a", "b"])
    before = env.state()

    for wants in ([want(env)], [want(env, most=0)]):
        ((state, messages),) = take_all(env, me, wants, 0)
        assert (state in "+-", messages) == (True, [])
    assert env.state() == before


def test_bodies_of_a_take_have_room_but_for_the_first(env, queue, me, monkeypatch):
    monkeypatch.setattr(workers, "_MAX_BODY_BYTES", b"1000")
    env.rsmq.create_queue("empty")
    env.rsmq.create_queue("p")
    large, *ids = env.rsmq.send_messages(queue, ["x" * 2000, "y" * 500, "z" * 500, "", "w"])
    other = env.rsmq.send_message("p", "m")
    wants = [want(env, "empty"), want(env), want(env, "p")]

    assert ids_of(take(env, me, *wants)) == [(".", []), ("+", [large]), ("-", [])]
    assert ids_of(take(env, me, *wants)) == [(".", []), ("+", ids[:3]), ("-", [])]
    assert ids_of(take(env, me, *wants)) == [(".", []), (".", ids[3:]), (".", [other])]
    assert held(env, me).keys() == {"", large, *ids, other}


def test_only_the_first_body_of_all_may_be_larger_than_the_room(env, queue, me, monkeypatch):
    monkeypatch.setattr(workers, "_MAX_BODY_BYTES", b"1000")
    env.rsmq.create_queue("p")
    small = env.rsmq.send_message(queue, "x")
    large = env.rsmq.send_message("p", "y" * 2000)
    wants = [want(env), want(env, "p")]

    assert ids_of(take(env, me, *wants)) == [(".", [small]), ("+", [])]
    assert ids_of(take(env, me, *wants)) == [(".", []), ("+", [large])]


def test_a_take_of_thousands(env, queue, me):
    ids = env.rsmq.send_messages(queue, ["m"] * 4500)
    env.rsmq.receive_messages(queue, 2200, vt=0)

    ((state, messages),) = take(env, me, slots=4499)
    assert state == "+"
    assert {id.decode() for id, *_ in messages} < set(ids)
    assert sorted({count for _, _, count, _ in messages}) == [1, 2]
    counts = {id.decode(): f"{count}:q" for id, _, count, _ in messages}
    assert held(env, me) == {"": "mine", **counts}
    assert len(counts) == 4499


def test_paused_missing_and_half_made_queues_are_left_alone(env, me):
    for name in ("first", "paused", "half", "last"):
        env.rsmq.create_queue(name)
        env.rsmq.send_message(name, "m")
    env.rsmq.pause_queue("paused")
    env.raw.hdel(env.hash("half"), "delay")
    before = {
        key: value for key, value in env.state().items() if b"paused" in key or b"half" in key
    }
    names = ("paused", "first", "missing", "half", "last")
    taken = take(env, me, *(want(env, name) for name in names))

    assert [(state, len(messages)) for state, messages in taken] == [
        ("p", 0), (".", 1), ("m", 0), ("m", 0), (".", 1),
    ]  # fmt: skip
    after = env.state()
    assert {key: after[key] for key in before} == before
    assert not env.raw.exists(env.zset("missing"), env.hash("missing"))
    env.rsmq.resume_queue("paused")
    assert take(env, me, want(env, "paused"))[0][0] == "."
    assert sorted(held(env, me).values()) == ["1:first", "1:last", "1:paused", "mine"]


def test_a_paused_queue_is_not_even_looked_at(env, queue, me):
    env.rsmq.pause_queue(queue)
    env.raw.hset(env.hash(queue), "totalrecv", "many")
    env.raw.set(env.zset(queue), "text")
    before = env.state()

    assert take(env, me) == [("p", [])]
    assert env.state() == before


def test_ghosts_are_healed_and_never_taken(env, queue, me):
    young, old = "g" * 32, [f"ghost{number:027}" for number in range(250)]
    now = env.now_ms()
    env.raw.zadd(env.zset(queue), {young: now - 5000, **dict.fromkeys(old, now - 10_100)})
    env.raw.hset(env.hash(queue), mapping={f"{old[0]}:rc": 3, f"{young}:rc": 3})
    ids = env.rsmq.send_messages(queue, ["a", "b"])

    assert ids_of(take(env, me)) == [(".", ids)]
    assert env.scores(queue).keys() == {young, *ids}
    assert env.scores(queue)[young] == now - 5000
    fields = env.fields(queue)
    assert (fields["totalrecv"], fields[f"{young}:rc"]) == ("2", "3")
    assert not any(name.startswith("ghost") for name in fields)
    assert held(env, me).keys() == {"", *ids}


def test_a_take_removes_so_many_ghosts_and_says_there_may_be_more(env, queue, me):
    env.raw.zadd(env.zset(queue), {f"ghost{number:027}": 1 for number in range(2500)})
    id = env.rsmq.send_message(queue, "m")

    assert take(env, me) == [("+", [])]
    assert 1 < len(env.scores(queue)) <= 1501
    taken = ("+", [])
    while taken == ("+", []):
        (taken,) = ids_of(take(env, me))
    assert taken == (".", [id])


def test_a_policy_stored_on_the_queue_is_the_workers_to_obey(env, queue, me, dead):
    env.rsmq.set_dead_letter_policy(queue, dead, 1)
    id = env.rsmq.send_message(queue, "poison")
    env.rsmq.receive_message(queue, vt=0)

    ((state, ((taken, _, count, _),)),) = take(env, me)
    assert (state, taken.decode(), count) == (".", id, 2)
    assert env.scores(dead) == {}
    assert held(env, me)[id] == f"2:{queue}"


UNRAISED = {
    "another zset": lambda env, _: env.raw.set(env.zset("q"), "text"),
    "another hash": lambda env, _: (
        env.raw.delete(env.hash("q")),
        env.raw.set(env.hash("q"), "text"),
    ),
    "another key of what it holds": lambda env, _: (
        env.raw.delete(f"{env.ns}:x:held:w"),
        env.raw.set(f"{env.ns}:x:held:w", "text"),
    ),
}


@pytest.mark.parametrize("broken", UNRAISED)
def test_what_cannot_be_taken_changes_nothing_in_any_queue(env, queue, me, broken):
    env.rsmq.create_queue("first")
    env.rsmq.create_queue("last")
    for name in ("first", "last"):
        env.rsmq.send_messages(name, ["a", "b"])
    _, id = env.rsmq.send_messages(queue, ["a", "b"])
    UNRAISED[broken](env, id)
    before = env.state()

    with pytest.raises(redis.ResponseError):
        take(env, me, want(env, "first"), want(env), want(env, "last"))
    assert env.state() == before


def test_who_lost_its_name_takes_nothing(env, queue, me):
    env.rsmq.send_messages(queue, ["a", "b"])
    successor = worker(env, "theirs")
    enter(env, successor, dead="mine")
    before = env.state()

    with pytest.raises(WorkerReplaced) as caught:
        take(env, me)
    assert caught.value.value == me.in_flight_key.decode()
    assert env.state() == before
    assert len(take(env, successor)[0][1]) == 2


def test_two_workers_hold_apart(env, queue, me):
    other = worker(env, "other", "v")
    enter(env, other)
    first, second = env.rsmq.send_messages(queue, ["a", "b"])

    assert ids_of(take(env, me, slots=1)) == [("+", [first])]
    assert ids_of(take(env, other)) == [(".", [second])]
    assert held(env, me) == {"": "mine", first: "1:q"}
    assert held(env, other) == {"": "other", second: "1:q"}


@pytest.mark.parametrize("step", ["take", "settle", "bury", "beat"])
def test_a_lost_key_of_what_is_held_is_made_anew(env, queue, me, dead, step):
    (id,) = env.rsmq.send_messages(queue, ["a"])
    ((_, ((_, _, count, _),)),) = take(env, me, want(env, vt_ms=0))
    env.raw.delete(me.in_flight_key)
    steps = {
        "take": lambda: take(env, me),
        "settle": lambda: settle(env, me, (queue, "delete", count, [id])),
        "bury": lambda: bury(env, me, (id, count)),
        "beat": lambda: beat(env, me),
    }
    steps[step]()

    expected = {"": "mine", id: "2:q"} if step == "take" else {"": "mine"}
    assert held(env, me) == expected
    beat(env, me)
    assert DAY - 5000 < env.raw.pttl(me.in_flight_key) <= DAY


def test_what_is_settled_after_the_end_leaves_no_key_for_ever(env, queue, me):
    (id,) = env.rsmq.send_messages(queue, ["a"])
    take(env, me)
    env.rsmq.delete_message(queue, id)
    settle(env, me, (queue, "delete", 1, [id]))
    assert leave(env, me) == 0

    assert settle(env, me, (queue, "delete", 1, [id])) == b"0"
    assert env.raw.pttl(me.in_flight_key) != -1


@fillable
def test_a_full_server_is_drained_by_workers(env, queue, me, dead):
    ids = env.rsmq.send_messages(queue, ["x" * 100] * 50)
    with env.full():
        ((_, messages),) = take(env, me, want(env, vt_ms=0), slots=40)
        assert len(messages) == 40
        groups = [
            (queue, "delete", 1, ids[:10]),
            (queue, "hide", 1, [(id, 90_000) for id in ids[10:20]]),
            (queue, "release", 1, ids[20:30]),
        ]
        assert settle(env, me, *groups) == b"1" * 30
        assert bury(env, me, *((id, 1) for id in ids[30:40])) == b"1" * 10
        assert held(env, me) == {"": "mine"}
        ((_, messages),) = take(env, me)
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
def test_a_full_server_is_drained_of_what_was_counted_very_often(env, queue, me, dead):
    (id,) = env.rsmq.send_messages(queue, ["m"])
    env.raw.hset(env.hash(queue), mapping={"totalrecv": 10**15, f"{id}:rc": 10**15})
    env.raw.hset(env.hash(dead), "totalsent", 10**15)
    with env.full():
        ((_, ((_, _, count, _),)),) = take(env, me)
        assert count == 10**15 + 1
        assert bury(env, me, (id, count)) == b"1"
    assert env.fields(queue)["totalrecv"] == env.fields(dead)["totalsent"] == str(10**15 + 1)


@fillable
def test_a_worker_stays_alive_on_a_full_server_and_can_be_replaced(env, me):
    with env.full():
        beat(env, me)
        assert enter(env, worker(env, "theirs"), dead="mine") is None


@pytest.fixture
def taken(env, queue, me):
    """Ids of queue q that the worker holds, received once."""
    ids = env.rsmq.send_messages(queue, [str(number) for number in range(6)])
    take(env, me)
    return ids


def test_a_settling_ends_several_messages_of_several_queues(env, me, taken):
    env.rsmq.create_queue("p")
    others = env.rsmq.send_messages("p", ["a", "b"])
    env.rsmq.receive_messages("p", 2, vt=0)
    take(env, me, want(env, "p"))
    fields, totals = env.fields("q"), env.fields("p")
    before = env.now_ms()
    reply = settle(
        env, me,
        ("q", "delete", 1, taken[:2]),
        ("p", "delete", 2, others[:1]),
        ("q", "hide", 1, [(taken[2], 0), (taken[3], 90_000)]),
        ("p", "release", 2, others[1:]),
        ("q", "release", 1, taken[4:5]),
    )  # fmt: skip
    after = env.now_ms()

    assert reply == b"1111111"
    scores = env.scores("q")
    assert scores.keys() == set(taken[2:])
    assert before <= scores[taken[2]] <= after
    assert before + 90_000 <= scores[taken[3]] <= after + 90_000
    assert scores[taken[4]] == int(taken[4][:10], 36) // 1000
    assert env.scores("p") == {others[1]: int(others[1][:10], 36) // 1000}
    gone = {f"{id}{suffix}" for id in taken[:2] for suffix in ("", ":rc", ":fr")}
    assert env.fields("q") == {
        name: value for name, value in fields.items() if name not in gone
    }  # fmt: skip
    assert env.fields("p") == {
        name: value for name, value in totals.items() if not name.startswith(others[0])
    }
    assert held(env, me) == {"": "mine", taken[5]: "1:q"}


def test_a_release_is_never_later_than_now(env, queue, me):
    odd, future = "y" * 20, "z" * 32
    now = env.now_ms()
    for id in (odd, future):
        env.raw.hset(env.hash(queue), id, "m")
        env.raw.zadd(env.zset(queue), {id: now})
    take(env, me)
    before = env.now_ms()

    assert settle(env, me, (queue, "release", 1, [odd, future])) == b"11"
    assert all(before <= score <= env.now_ms() for score in env.scores(queue).values())
    assert held(env, me) == {"": "mine"}


def test_an_apalis_message_goes_with_its_meta(env, queue, me):
    id = env.send_as_apalis(queue)
    take(env, me)

    assert settle(env, me, (queue, "delete", 1, [id])) == b"1"
    assert not any(id in name for name in env.fields(queue))
    assert env.scores(queue) == {}


@pytest.mark.parametrize("done", ["delete", "hide", "release"])
def test_what_was_received_since_is_left_alone(env, queue, me, taken, done):
    env.raw.zadd(env.zset(queue), {taken[0]: 1})
    assert env.rsmq.receive_message(queue).id == taken[0]
    before = env.state()
    pairs = [(id, 5000) for id in taken[:1]] if done == "hide" else taken[:1]

    assert settle(env, me, (queue, done, 1, pairs)) == b"2"
    after = env.state()
    assert after.pop(me.in_flight_key).keys() == {b"", *(id.encode() for id in taken[1:])}
    before.pop(me.in_flight_key)
    assert after == before


@pytest.mark.parametrize("done", ["delete", "hide", "release", "bury"])
def test_a_newer_receive_by_the_same_name_stays_noted(env, queue, me, dead, taken, done):
    env.raw.zadd(env.zset(queue), {taken[0]: 1})
    take(env, me)
    before = env.state()
    pairs = [(id, 5000) for id in taken[:1]] if done == "hide" else taken[:1]
    if done == "bury":
        assert bury(env, me, (taken[0], 1)) == b"2"
    else:
        assert settle(env, me, (queue, done, 1, pairs)) == b"2"

    assert held(env, me)[taken[0]] == "2:q"
    assert env.state() == before
    assert settle(env, me, (queue, "delete", 2, taken[:1])) == b"1"
    assert taken[0] not in held(env, me)


@pytest.mark.parametrize("done", ["delete", "hide", "release", "bury"])
def test_what_is_gone_is_told_and_forgotten(env, queue, me, dead, taken, done):
    env.rsmq.delete_message(queue, taken[0])
    ghost = taken[1]
    if done == "bury":
        env.raw.hdel(env.hash(queue), ghost)
        assert bury(env, me, (taken[0], 1), (ghost, 1), (taken[2], 1)) == b"001"
        assert env.scores(dead).keys() == {taken[2]}
    else:
        pairs = [(taken[0], 5000)] if done == "hide" else taken[:1]
        assert settle(env, me, (queue, done, 1, pairs)) == b"0"
        assert env.scores(queue).keys() == set(taken[1:])
    assert taken[0] not in held(env, me)
    assert held(env, me)[taken[5]] == "1:q"


def test_a_settling_that_is_run_twice_changes_nothing_more(env, queue, me, taken):
    groups = [
        (queue, "delete", 1, taken[:2]),
        (queue, "hide", 1, [(taken[2], 90_000)]),
        (queue, "release", 1, taken[3:4]),
    ]
    assert settle(env, me, *groups) == b"1111"
    scores, fields = env.scores(queue), env.fields(queue)
    del scores[taken[2]]

    operation = settle_messages(me, [Group(keys_of(env, q), *rest) for q, *rest in groups])
    again = env.rsmq.run(operation)
    assert (again, operation.parse_retried(again)) == (b"0011", b"1111")
    after = env.scores(queue)
    del after[taken[2]]
    assert (after, env.fields(queue)) == (scores, fields)
    assert held(env, me) == {"": "mine", taken[4]: "1:q", taken[5]: "1:q"}


def test_a_message_named_twice_is_ended_once(env, queue, me, taken):
    assert settle(env, me, (queue, "delete", 1, [taken[0], taken[0]])).startswith(b"1")
    assert env.scores(queue).keys() == set(taken[1:])


def test_digits_stand_in_the_order_of_the_groups(env, queue, me, taken):
    env.raw.zadd(env.zset(queue), {taken[1]: 1})
    env.rsmq.receive_message(queue)
    env.rsmq.delete_message(queue, taken[3])
    groups = [(queue, "delete", 1, taken[:3]), (queue, "release", 1, taken[3:5])]

    assert settle(env, me, *groups) == b"12101"


def test_a_settling_of_a_missing_queue_finds_nothing(env, queue, me, taken):
    env.rsmq.delete_queue(queue)

    assert settle(env, me, (queue, "delete", 1, taken[:2])) == b"00"
    assert settle(env, me, (queue, "hide", 1, [(taken[2], 5000)])) == b"0"
    assert not env.raw.exists(env.zset(queue), env.hash(queue))
    assert held(env, me).keys() == {"", *taken[3:]}
    assert settle(env, me) == b""


def test_who_lost_its_name_deletes_and_hides_and_forgets_nothing(env, queue, me, dead, taken):
    successor = worker(env, "theirs")
    enter(env, successor, dead="mine")
    before = held(env, me)
    assert before == {"": "theirs", **dict.fromkeys(taken, "1:q")}

    assert settle(env, me, (queue, "delete", 1, taken[:1])) == b"1"
    scores = env.scores(queue)
    assert settle(env, me, (queue, "hide", 1, [(taken[1], 90_000)])) == b"2"
    assert settle(env, me, (queue, "release", 1, taken[1:2])) == b"2"
    with pytest.raises(WorkerReplaced):
        settle(env, me, (queue, "extend", 1, [(taken[1], 90_000)]))
    assert env.scores(queue) == scores
    assert bury(env, me, (taken[2], 1)) == b"1"
    assert env.scores(queue).keys() == {taken[1], *taken[3:]}
    assert held(env, me) == before


def test_what_is_extended_stays_held(env, queue, me, taken):
    before = held(env, me)
    now = env.now_ms()
    env.rsmq.release_messages(queue, taken[1:2])
    env.rsmq.receive_message(queue)

    assert settle(env, me, (queue, "extend", 1, [(id, 90_000) for id in taken[:2]])) == b"12"
    assert now + 90_000 <= env.scores(queue)[taken[0]] <= env.now_ms() + 90_000
    assert held(env, me) == before


@pytest.mark.parametrize("done", ["settle", "bury"])
def test_a_message_that_is_held_from_another_queue_stays_noted(env, queue, me, dead, taken, done):
    env.rsmq.move_messages(queue, dead, taken[:1])
    env.raw.zadd(env.zset(dead), {taken[0]: 1})
    take(env, me, want(env, dead))
    assert held(env, me)[taken[0]] == "2:dead"

    if done == "settle":
        assert settle(env, me, (queue, "delete", 1, taken[:1])) == b"0"
    else:
        assert bury(env, me, (taken[0], 1)) == b"0"
    assert env.scores(dead).keys() == set(taken[:1])
    assert held(env, me)[taken[0]] == "2:dead"


def test_a_settling_of_thousands(env, queue, me):
    ids = env.rsmq.send_messages(queue, ["m"] * 4500)
    take(env, me)
    groups = [
        (queue, "delete", 1, ids[:2200]),
        (queue, "hide", 1, [(id, 90_000) for id in ids[2200:]]),
    ]

    assert settle(env, me, *groups) == b"1" * 4500
    assert env.scores(queue).keys() == set(ids[2200:])
    assert held(env, me) == {"": "mine"}


@pytest.mark.parametrize("broken", ["another zset", "another hash", "another key of what it holds"])
def test_a_settling_that_fails_changes_nothing(env, queue, me, taken, broken):
    env.rsmq.create_queue("first")
    others = env.rsmq.send_messages("first", ["a"])
    take(env, me, want(env, "first"))
    UNRAISED[broken](env, None)
    before = env.state()

    with pytest.raises(redis.ResponseError):
        settle(env, me, ("first", "delete", 1, others), (queue, "delete", 1, taken))
    assert env.state() == before


def test_a_burial_moves_messages_with_counters_and_reasons(env, queue, me, dead):
    ids = env.rsmq.send_messages(queue, ["é", "b"])
    apalis = env.send_as_apalis(queue, "c")
    env.rsmq.receive_messages(queue, 9, vt=0)
    take(env, me)
    fields = env.fields(queue)
    env.raw.hset(env.hash(dead), "maxsize", "1")
    before = env.now_ms()

    assert bury(env, me, (ids[0], 2), (apalis, 2)) == b"11"
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
    assert held(env, me) == {"": "mine", ids[1]: "2:q"}
    stored = reasons(env)
    assert stored.keys() == {ids[0], apalis}
    for id, record in stored.items():
        ms, _, why = record.partition(b":")
        assert int(ms) == env.scores(dead)[id]
        assert json.loads(why) == WHY


def test_a_reason_is_told_by_a_look(env, queue, me, dead):
    (id,) = env.rsmq.send_messages(queue, ["m"])
    take(env, me)
    bury(env, me, (id, 1))

    stored = env.rsmq.get_message(dead, id)
    assert stored.reason == DeadLetterReason(**WHY, died_ms=stored.visible_at_ms)
    assert env.rsmq.peek_messages(dead) == [stored]
    message = env.rsmq.receive_message(dead)
    assert (message.id, message.receive_count) == (id, 2)


def test_reasons_live_for_a_month_after_the_last(env, queue, me, dead):
    first, second = env.rsmq.send_messages(queue, ["a", "b"])
    take(env, me)
    bury(env, me, (first, 1))
    key = keys_of(env, dead).reasons
    assert 30 * DAY - 5000 < env.raw.pttl(key) <= 30 * DAY
    env.raw.pexpire(key, 1000)
    bury(env, me, (second, 1))

    assert 30 * DAY - 5000 < env.raw.pttl(key) <= 30 * DAY
    assert env.raw.pttl(env.hash(dead)) == env.raw.pttl(env.zset(dead)) == -1


def test_beyond_the_bound_messages_are_moved_without_reasons(env, queue, me, dead, monkeypatch):
    monkeypatch.setattr(workers, "MAX_REASONS", 3)
    ids = env.rsmq.send_messages(queue, ["m"] * 8)
    take(env, me)

    assert bury(env, me, *((id, 1) for id in ids[:5])) == b"11111"
    assert reasons(env).keys() == set(ids[:3])
    assert bury(env, me, (ids[5], 1)) == b"1"
    assert env.scores(dead).keys() == set(ids[:6])
    assert reasons(env).keys() - {""} == set(ids[:3])
    assert env.rsmq.get_message(dead, ids[5]).reason is None


def test_reasons_of_messages_that_left_make_room(env, queue, me, dead, monkeypatch):
    monkeypatch.setattr(workers, "MAX_REASONS", 3)
    ids = env.rsmq.send_messages(queue, ["m"] * 8)
    take(env, me)
    bury(env, me, *((id, 1) for id in ids[:3]))
    env.rsmq.delete_messages(dead, ids[:2])

    assert bury(env, me, (ids[3], 1)) == b"1"
    assert reasons(env).keys() - {""} == {ids[2], ids[3]}
    assert len(reasons(env)) <= 3


def test_old_reasons_are_looked_for_from_call_to_call(env, queue, me, dead, monkeypatch):
    monkeypatch.setattr(workers, "MAX_REASONS", 100)
    key = keys_of(env, dead).reasons
    kept, (id,) = env.rsmq.send_messages(dead, ["m"] * 2500), env.rsmq.send_messages(queue, ["m"])
    old = [f"{number:032}" for number in range(500)]
    env.raw.hset(key, mapping=dict.fromkeys([*old, *kept], "5:{}"))
    take(env, me)

    for _ in range(8):
        bury(env, me, (id, 1))
    assert reasons(env).keys() - {""} == set(kept)
    assert env.scores(dead).keys() == {id, *kept}


def test_what_only_left_its_fields_behind_is_gone_and_not_buried(env, queue, me, dead, taken):
    env.raw.zrem(env.zset(queue), taken[0])  # some clients delete without MULTI
    before = env.fields(dead)

    for _ in range(2):
        assert bury(env, me, (taken[0], 1)) == b"0"
        assert env.scores(dead) == {}
        assert env.fields(dead) == before


@pytest.mark.parametrize("done", ["hide", "release"])
def test_what_only_left_its_fields_behind_does_not_come_back(env, queue, me, taken, done):
    env.raw.zrem(env.zset(queue), taken[0])
    pairs = [(taken[0], 5000)] if done == "hide" else taken[:1]

    assert settle(env, me, (queue, done, 1, pairs)) in (b"0", b"1")
    assert env.scores(queue).keys() == set(taken[1:])
    assert taken[0] not in held(env, me)


@pytest.mark.parametrize("count", [1, 3])
def test_a_burial_of_what_was_received_since_changes_nothing(env, queue, me, dead, taken, count):
    env.raw.zadd(env.zset(queue), {taken[0]: 1})
    assert env.rsmq.receive_message(queue).receive_count == 2
    before = env.state()

    assert bury(env, me, (taken[0], count)) == b"2"
    after = env.state()
    after.pop(me.in_flight_key)
    before.pop(me.in_flight_key)
    assert after == before
    assert (taken[0] in held(env, me)) == (count == 3)


def test_a_burial_that_is_run_twice_moves_once(env, queue, me, dead, taken):
    keys, to = keys_of(env, queue), keys_of(env, dead)
    operation = dead_letter_messages(me, keys, to, [(taken[0], 1, WHY)])
    assert env.rsmq.run(operation) == b"1"
    before = env.state()

    again = env.rsmq.run(operation)
    assert (again, operation.parse_retried(again)) == (b"0", b"1")
    assert env.state() == before


def test_a_message_named_twice_is_buried_once(env, queue, me, dead, taken):
    assert bury(env, me, (taken[0], 1), (taken[0], 1)) == b"10"
    assert env.fields(dead)["totalsent"] == "1"


def test_nothing_is_buried_in_a_missing_queue(env, queue, me, taken):
    for half_made in (False, True):
        if half_made:
            env.raw.hset(env.hash("dead"), mapping={"vt": 30, "delay": 0})
        before = env.state()
        with pytest.raises(QueueNotFound) as caught:
            bury(env, me, (taken[0], 1))
        assert caught.value.value == "dead"
        assert env.state() == before


def test_a_burial_of_a_missing_queues_messages_finds_none(env, queue, me, dead, taken):
    env.rsmq.delete_queue(queue)

    assert bury(env, me, (taken[0], 1)) == b"0"
    assert not env.raw.exists(env.zset(queue), env.hash(queue), keys_of(env, dead).reasons)
    assert taken[0] not in held(env, me)


UNBURIED = {
    "another zset": lambda env: UNRAISED["another zset"](env, None),
    "another hash": lambda env: UNRAISED["another hash"](env, None),
    "another target": lambda env: env.raw.set(env.zset("dead"), "text"),
    "other reasons": lambda env: env.raw.set(f"{env.zset('dead')}:x:reasons", "text"),
    "another key of what it holds": lambda env: UNRAISED["another key of what it holds"](env, None),
}


@pytest.mark.parametrize("broken", UNBURIED)
def test_a_burial_that_fails_changes_nothing(env, queue, me, dead, taken, broken):
    UNBURIED[broken](env)
    before = env.state()

    with pytest.raises(redis.ResponseError):
        bury(env, me, *((id, 1) for id in taken))
    assert env.state() == before


def test_no_message_is_lost_that_is_buried_where_it_is(env, queue, me, taken):
    with suppress(RSMQError, redis.ResponseError):  # a refusal is as good
        bury(env, me, (taken[0], 1), target=queue)

    assert taken[0] in env.scores(queue)
    assert env.fields(queue)[taken[0]] == "0"


def test_a_burial_of_thousands(env, queue, me, dead):
    ids = env.rsmq.send_messages(queue, ["m"] * 2200)
    take(env, me)

    assert bury(env, me, *((id, 1) for id in ids)) == b"1" * 2200
    assert env.scores(dead).keys() == set(ids)
    assert env.fields(dead)["totalsent"] == "2200"
    assert reasons(env).keys() == set(ids)
    assert held(env, me) == {"": "mine"}


def alive(env):
    stored = env.raw.hgetall(f"{env.ns}:x:workers")
    return {name.decode(): value.decode() for name, value in stored.items()}


def test_a_free_name_is_given(env):
    me = worker(env, "mine")
    before = env.now_ms()

    assert enter(env, me, info={"host": "é:1", "pid": 5}, ttl=2.5) is None
    until, token, info = alive(env)["w"].split(":", 2)
    assert before + 2500 <= int(until) <= env.now_ms() + 2500
    assert (token, json.loads(info)) == ("mine", {"host": "é:1", "pid": 5})
    assert held(env, me) == {"": "mine"}
    for key in (f"{env.ns}:x:workers", me.in_flight_key):
        assert DAY - 5000 < env.raw.pttl(key) <= DAY
    assert sorted(env.state()) == sorted([f"{env.ns}:x:workers".encode(), me.in_flight_key])


def test_a_name_whose_worker_is_alive_is_not_given(env, me):
    beat(env, me, info={"pid": 7}, ttl=10)
    before = env.state()
    other = enter(env, worker(env, "theirs"), dead="somebody")

    assert 5000 < other.remaining_ms <= 10_000
    assert (other.token, json.loads(other.info)) == ("mine", {"pid": 7})
    assert env.state() == before


def ended(env, name="w", ago_ms=1):
    """Let a worker's time be over."""
    _, rest = alive(env)[name].split(":", 1)
    env.raw.hset(f"{env.ns}:x:workers", name, f"{env.now_ms() - ago_ms}:{rest}")


@pytest.mark.parametrize("how", ["its time is over", "its token is known to be dead", "it left"])
def test_a_dead_workers_name_is_given_with_what_it_held(env, queue, me, how):
    ids = env.rsmq.send_messages(queue, ["a", "b"])
    take(env, me)
    if how == "its time is over":
        ended(env)
    elif how == "it left":
        assert leave(env, me) == 2
    successor = worker(env, "theirs")

    assert enter(env, successor, dead="mine" if "token" in how else "") is None
    assert held(env, me) == {"": "theirs", **dict.fromkeys(ids, "1:q")}
    assert alive(env)["w"].split(":")[1] == "theirs"
    found = env.rsmq.run_steps(list_in_flight(Namespace(env.ns), "w"))
    assert {queue: sorted(receipts) for queue, receipts in found.items()} == {
        "q": sorted((id, 1) for id in ids)
    }
    assert settle(env, successor, (queue, "release", 1, ids)) == b"11"
    assert held(env, me) == {"": "theirs"}


def test_the_same_token_enters_again(env, queue, me):
    env.rsmq.send_messages(queue, ["a"])
    take(env, me)
    before = held(env, me)

    assert enter(env, me, info={"pid": 2}) is None
    assert held(env, me) == before
    assert alive(env)["w"].endswith(':{"pid": 2}')


def test_a_beat_says_for_how_long_and_what(env, me):
    ended(env)
    for key in (f"{env.ns}:x:workers", me.in_flight_key):
        env.raw.pexpire(key, 5000)
    before = env.now_ms()
    beat(env, me, info={"jobs": 3}, ttl=4)

    until, token, info = alive(env)["w"].split(":", 2)
    assert before + 4000 <= int(until) <= env.now_ms() + 4000
    assert (token, json.loads(info)) == ("mine", {"jobs": 3})
    for key in (f"{env.ns}:x:workers", me.in_flight_key):
        assert DAY - 5000 < env.raw.pttl(key) <= DAY


@pytest.mark.parametrize("step", [beat, leave])
def test_who_lost_its_name_neither_beats_nor_leaves(env, me, step):
    enter(env, worker(env, "theirs"), dead="mine")
    before = env.state()

    with pytest.raises(WorkerReplaced) as caught:
        step(env, me)
    assert caught.value.value == me.in_flight_key.decode()
    assert env.state() == before


def test_who_leaves_with_nothing_leaves_nothing(env, me):
    assert leave(env, me) == 0
    assert env.state() == {}
    assert leave(env, me) == 0
    assert env.state() == {}


def test_who_leaves_with_messages_leaves_a_note_of_them(env, queue, me):
    ids = env.rsmq.send_messages(queue, ["a", "b", "c"])
    take(env, me)

    assert leave(env, me) == 3
    assert alive(env) == {}
    assert held(env, me) == {"": "mine", **dict.fromkeys(ids, "1:q")}
    assert 0 < env.raw.pttl(me.in_flight_key) <= DAY
    assert leave(env, me) == 3


def test_who_died_long_ago_is_forgotten_when_another_enters(env, me):
    for name in ("lately", "long-ago"):
        enter(env, worker(env, "t", name))
    ended(env, "lately", DAY - 60_000)
    ended(env, "long-ago", DAY + 60_000)
    env.raw.hset(f"{env.ns}:x:workers", "broken", "text")
    enter(env, worker(env, "t", "new"))

    assert alive(env).keys() == {"w", "lately", "new"}


@pytest.mark.parametrize("stored", ["", "text", ":mine:{}", "9999999999999", "-1:mine:{}"])
def test_a_broken_entry_is_as_none(env, stored):
    env.raw.hset(f"{env.ns}:x:workers", "w", stored)

    assert enter(env, worker(env)) is None
    assert alive(env)["w"].split(":")[1] == "mine"


def test_workers_are_listed_with_the_servers_time(env, me):
    enter(env, worker(env, "t", "v"), info={"pid": 2})
    before = env.now_ms()
    now, found = env.rsmq.run(list_workers(Namespace(env.ns)))

    assert before <= now <= env.now_ms()
    assert {name: value.decode() for name, value in found.items()} == alive(env)
    assert found.keys() == {"w", "v"}


def test_without_workers_the_list_is_empty(env):
    _, found = env.rsmq.run(list_workers(Namespace(env.ns)))

    assert found == {}
    assert env.rsmq.run_steps(list_in_flight(Namespace(env.ns), "w")) == {}
    assert env.state() == {}


def test_what_a_worker_holds_is_told_by_queue_over_many_pages(env, queue, me):
    env.rsmq.create_queue("p")
    expected = {
        name: env.rsmq.send_messages(name, ["m"] * number)
        for name, number in ((queue, 2500), ("p", 700))
    }
    env.rsmq.receive_messages("p", 700, vt=0)
    take(env, me, want(env), want(env, "p"))
    before = env.state()
    found = env.rsmq.run_steps(list_in_flight(Namespace(env.ns), "w"))

    assert {name: sorted(receipts) for name, receipts in found.items()} == {
        queue: sorted((id, 1) for id in expected[queue]),
        "p": sorted((id, 2) for id in expected["p"]),
    }
    assert env.state() == before


def test_what_was_begun_alone_and_never_ended_is_known(env, queue):
    keys = keys_of(env, queue)

    def begin(id, count):
        return env.rsmq.run(record_quarantine_run(keys, id, count))

    assert begin("a" * 32, 2) == 0
    assert env.raw.hgetall(keys.quarantined) == {b"a" * 32: b"1:2"}
    assert 7 * DAY - 5000 < env.raw.pttl(keys.quarantined) <= 7 * DAY
    assert begin("a" * 32, 2) == 0  # the reply of the first attempt was lost
    assert begin("b" * 32, 1) == 0
    assert begin("a" * 32, 3) == 1
    assert begin("a" * 32, 4) == 2
    assert begin("a" * 32, 4) == 2
    assert env.raw.hgetall(keys.quarantined) == {b"a" * 32: b"3:4", b"b" * 32: b"1:1"}


def begun_in_quarantine(env, ids, count=1):
    for id in ids:
        env.rsmq.run(record_quarantine_run(keys_of(env, "q"), id, count))


@pytest.mark.parametrize("action", ["delete", "hide", "release"])
def test_settling_removes_the_counter_of_runs_in_quarantine_of_receipts_that_fit(
    env, queue, me, taken, action
):
    begun_in_quarantine(env, taken)
    env.rsmq.change_message_visibility(queue, taken[1], 0)
    env.rsmq.receive_message(queue)  # that one has another receipt now
    env.rsmq.delete_message(queue, taken[2])
    ids = [(id, 60_000) for id in taken[:3]] if action == "hide" else taken[:3]

    assert settle(env, me, (queue, action, 1, ids, True)) == b"120"
    assert sorted(env.raw.hkeys(keys_of(env, queue).quarantined)) == sorted(
        id.encode() for id in taken[1:]
    )


@pytest.mark.parametrize("action", ["delete", "hide", "release", "extend"])
def test_settling_leaves_the_counter_where_the_outcome_of_the_run_is_not_known(
    env, queue, me, taken, action
):
    begun_in_quarantine(env, taken)
    ids = [(id, 60_000) for id in taken] if action in {"hide", "extend"} else taken

    assert settle(env, me, (queue, action, 1, ids)) == b"1" * len(taken)
    assert len(env.raw.hkeys(keys_of(env, queue).quarantined)) == len(taken)


@pytest.mark.parametrize("action", ["delete", "hide", "release"])
def test_a_replaced_worker_removes_the_counter_only_with_the_message(env, queue, me, taken, action):
    begun_in_quarantine(env, taken)
    enter(env, worker(env, "theirs"), dead="mine")
    ids = [(id, 60_000) for id in taken] if action == "hide" else taken

    told = settle(env, me, (queue, action, 1, ids, True))
    assert told == (b"1" if action == "delete" else b"2") * len(taken)
    assert env.raw.exists(keys_of(env, queue).quarantined) == (action != "delete")


def test_burying_removes_the_counter_of_runs_in_quarantine_of_receipts_that_fit(
    env, queue, me, taken
):
    env.rsmq.create_queue("dead")
    begun_in_quarantine(env, taken)
    receipts = [(taken[0], 1), (taken[1], 2)]

    def bury_them(*, quarantined):
        messages = [(id, count, WHY) for id, count in receipts]
        keys, dead = keys_of(env, queue), keys_of(env, "dead")
        return env.rsmq.run(dead_letter_messages(me, keys, dead, messages, quarantined=quarantined))

    assert bury_them(quarantined=True) == b"12"
    assert sorted(env.raw.hkeys(keys_of(env, queue).quarantined)) == sorted(
        id.encode() for id in taken[1:]
    )
    receipts = [(taken[1], 1)]
    assert bury_them(quarantined=False) == b"1"
    assert len(env.raw.hkeys(keys_of(env, queue).quarantined)) == len(taken) - 1


def test_a_counter_of_another_type_keeps_no_message_from_being_settled(env, queue, me, taken):
    env.raw.set(keys_of(env, queue).quarantined, "not ours")

    assert settle(env, me, (queue, "delete", 1, taken, True)) == b"1" * len(taken)
    assert env.raw.get(keys_of(env, queue).quarantined) == b"not ours"


def test_later_quarantine_run_prolongs_all_records(env, queue):
    keys = keys_of(env, queue)
    env.rsmq.run(record_quarantine_run(keys, "a" * 32, 1))
    env.raw.pexpire(keys.quarantined, 1000)
    env.rsmq.run(record_quarantine_run(keys, "b" * 32, 1))

    assert env.raw.pttl(keys.quarantined) > 7 * DAY - 5000
