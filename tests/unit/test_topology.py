"""The topology of several servers: slots, redirections and questions, without servers."""

from __future__ import annotations

import pytest
import redis.exceptions as redis_errors

from rsmq.transport.topology.address import Address, slot_of
from rsmq.transport.topology.cluster import ClusterTopology
from rsmq.transport.topology.sentinel import SentinelTopology
from rsmq.transport.topology.topology import Question

A, B, C = (Address("10.0.0.1", port) for port in (7000, 7001, 7002))
SENTINEL, OTHER_SENTINEL = Address("s1", 26379), Address("s2", 26379)


def node(address, **metadata):
    named = [part for pair in metadata.items() for part in pair]
    host = address.host.encode() if address.host else None
    return [host, address.port, b"id", [each.encode() for each in named]]


def slots(*ranges):
    return [[first, last, *map(node, nodes)] for first, last, *nodes in ranges]


def cluster(*seeds, remap=None, prefers_host_names=False):
    seeds = seeds or (A,)
    return ClusterTopology(seeds, remap=remap, prefers_host_names=prefers_host_names)


def answer(topology, answers, now=0.0):
    """Refresh with one answer for each address; return the questions that were asked."""
    asked = []
    steps = topology.refresh(now)
    try:
        question = next(steps)
        while True:
            asked.append(question)
            reply = answers[question.address]
            if isinstance(reply, list) and reply and callable(reply[0]):
                reply = reply.pop(0)()
            is_error = isinstance(reply, Exception)
            question = steps.throw(reply) if is_error else steps.send(reply)
    except StopIteration:
        return asked


@pytest.mark.parametrize(
    ("key", "slot"),
    [  # by CLUSTER KEYSLOT of Redis 7.0
        (b"rsmq:q:Q", 3637),
        (b"{rsmq}:q:Q", 15749),
        (b"{rsmq}", 15749),
        (b"{}x{a}", 684),
        (b"{a", 10276),
        (b"a}{b}", 3300),
        (b"{{a}}", 10276),
        (b"", 0),
    ],
)
def test_slot_of_a_key(key, slot):
    assert slot_of(key) == slot


def test_nothing_is_known_before_the_first_refresh():
    topology = cluster()

    assert topology.address_of(b"a") is None
    assert topology.is_stale
    assert topology.may_refresh(0.0)


def test_each_slot_has_the_node_that_reports_it():
    topology = cluster()
    ranges = slots((0, 8191, A, B), (8192, 16383, C))

    assert answer(topology, {A: ranges}) == [Question(A, ("CLUSTER", "SLOTS"))]

    assert topology.address_of(b"b") == A  # slot 3300
    assert topology.address_of(b"a") == C  # slot 15495
    assert list(topology.addresses()) == [A, C]
    assert not topology.is_stale


def test_slots_without_a_node_are_unknown():
    topology = cluster()
    answer(topology, {A: slots((0, 8191, A))})

    assert topology.address_of(b"a") is None


def test_nodes_are_asked_until_one_answers_and_those_that_failed_come_last():
    topology = cluster(A)
    answer(topology, {A: slots((0, 16383, A, B, C))})
    topology.note_failure(redis_errors.ConnectionError(), A)
    assert topology.is_stale

    error = redis_errors.TimeoutError()
    asked = answer(topology, {B: error, C: slots((0, 16383, C, B)), A: error})

    assert [question.address for question in asked] == [B, C]
    assert topology.address_of(b"a") == C


def test_the_last_error_is_raised_if_no_node_answers():
    topology = cluster(A, B)

    with pytest.raises(redis_errors.TimeoutError):
        answer(topology, {A: redis_errors.ConnectionError(), B: redis_errors.TimeoutError()})
    assert topology.is_stale


def test_a_node_without_slots_is_not_believed():
    topology = cluster(A, B)

    asked = answer(topology, {A: [], B: slots((0, 16383, B))})

    assert [question.address for question in asked] == [A, B]


def test_a_wrong_password_is_raised_at_once():
    with pytest.raises(redis_errors.AuthenticationError):
        answer(cluster(A, B), {A: redis_errors.AuthenticationError()})


def test_the_next_refresh_is_a_tenth_of_a_second_later():
    topology = cluster()
    answer(topology, {A: slots((0, 16383, A))}, now=5.0)
    topology.mark_stale()

    assert not topology.may_refresh(5.09)
    assert topology.may_refresh(5.1)


def test_a_failed_refresh_is_not_repeated_sooner_either():
    topology = cluster()
    topology.raise_failed_refresh()
    error = redis_errors.ConnectionError("refused")
    topology.note_failed_refresh(5.0, error)
    assert not topology.may_refresh(5.09)
    assert topology.may_refresh(5.1)
    with pytest.raises(redis_errors.ConnectionError, match="refused") as caught:
        topology.raise_failed_refresh()
    assert caught.value is not error  # its text gets a remedy in each call

    answer(topology, {A: slots((0, 16383, A))}, now=6.0)
    topology.raise_failed_refresh()


def test_a_moved_slot_is_known_at_once():
    topology = cluster()
    answer(topology, {A: slots((0, 16383, A))})

    topology.note_failure(redis_errors.MovedError("15495 10.0.0.1:7002"), A)

    assert topology.address_of(b"a") == C
    assert topology.address_of(b"b") == A
    assert C in topology.addresses()
    assert topology.is_stale


def test_a_slot_that_is_moving_stays_where_it_is():
    topology = cluster()
    answer(topology, {A: slots((0, 16383, A))})

    topology.note_failure(redis_errors.AskError("15495 10.0.0.1:7002"), A)

    assert topology.address_of(b"a") == A
    assert not topology.is_stale


@pytest.mark.parametrize(
    ("error", "is_stale"),
    [
        (redis_errors.ClusterDownError("down"), True),
        (redis_errors.ReadOnlyError("replica"), True),
        (redis_errors.MasterDownError("down"), True),
        (redis_errors.ConnectionError("lost"), True),
        (redis_errors.TimeoutError("late"), True),
        (redis_errors.TryAgainError("later"), False),
        (redis_errors.ResponseError("WRONGTYPE"), False),
        (redis_errors.BusyLoadingError("loading"), False),
    ],
)
def test_only_some_failures_need_a_refresh(error, is_stale):
    topology = cluster()
    answer(topology, {A: slots((0, 16383, A))})

    topology.note_failure(error, A)

    assert topology.is_stale is is_stale


def test_an_unknown_host_is_that_of_the_node_that_was_asked():
    topology = cluster()
    answer(topology, {A: slots((0, 16383, Address("", 7001)))})
    assert topology.address_of(b"a") == B

    assert topology.redirected_to(redis_errors.AskError("15495 :7002")) == C


@pytest.mark.parametrize(("prefers", "host"), [(True, "node-1.example"), (False, "10.0.0.1")])
def test_certificates_need_the_host_name(prefers, host):
    topology = cluster(prefers_host_names=prefers)
    answer(topology, {A: [[0, 16383, node(A, hostname="node-1.example")]]})

    assert topology.address_of(b"a") == Address(host, 7000)


def test_reported_addresses_are_changed():
    topology = cluster(Address("proxy", 1), remap=lambda address: ("proxy", address[1] - 6999))
    answer(topology, {Address("proxy", 1): slots((0, 16383, B))})

    assert topology.address_of(b"a") == Address("proxy", 2)
    moved = redis_errors.MovedError("15495 10.0.0.1:7002")
    topology.note_failure(moved, B)
    assert topology.address_of(b"a") == Address("proxy", 3)


def sentinel(remap=None):
    return SentinelTopology((SENTINEL, OTHER_SENTINEL), "mymaster", remap=remap)


def watches(address):
    return lambda: [address.host.encode(), b"%d" % address.port]


def test_the_primary_is_that_of_the_first_sentinel_that_is_right():
    topology = sentinel()

    asked = answer(
        topology,
        {
            SENTINEL: [watches(A)],
            A: [b"slave", b"10.0.0.1", 7001, b"connected", 1],
            OTHER_SENTINEL: [watches(B)],
            B: [b"master", 1, []],
        },
    )

    assert [question.address for question in asked] == [SENTINEL, A, OTHER_SENTINEL, B]
    assert [question.is_for_sentinel for question in asked] == [True, False, True, False]
    assert topology.address_of(b"any") == B
    assert topology.seeds == (OTHER_SENTINEL, SENTINEL)  # asked first from now on


def test_a_primary_that_failed_is_not_asked_again_in_one_refresh():
    topology = sentinel()

    with pytest.raises(redis_errors.ConnectionError):
        answer(
            topology,
            {
                SENTINEL: [watches(A)],
                OTHER_SENTINEL: [watches(A)],
                A: [lambda: redis_errors.ConnectionError("refused")],
            },
        )


def test_a_primary_that_was_replaced_is_not_used_while_its_successor_does_not_answer():
    topology = sentinel()
    answer(topology, {SENTINEL: [watches(A)], A: [b"master", 1, []]})

    silent = redis_errors.ConnectionError()
    with pytest.raises(redis_errors.ConnectionError):
        answer(topology, {SENTINEL: [watches(B)], OTHER_SENTINEL: silent, B: silent})

    assert topology.address_of(b"any") is None


def test_a_primary_is_kept_while_no_sentinel_answers():
    topology = sentinel()
    answer(topology, {SENTINEL: [watches(A)], A: [b"master", 1, []]})

    with pytest.raises(redis_errors.ConnectionError):
        answer(topology, dict.fromkeys((SENTINEL, OTHER_SENTINEL), redis_errors.ConnectionError()))

    assert topology.address_of(b"any") == A


def test_a_user_without_the_right_for_role_is_enough():
    topology = sentinel()

    answer(topology, {SENTINEL: [watches(A)], A: redis_errors.NoPermissionError()})

    assert topology.address_of(b"any") == A


def test_an_unknown_name_is_an_error_that_is_not_retried():
    with pytest.raises(redis_errors.ResponseError, match="name 'mymaster': s1:26379, s2:26379"):
        answer(sentinel(), {SENTINEL: None, OTHER_SENTINEL: None})


def test_an_unknown_name_is_no_error_if_a_sentinel_is_away():
    with pytest.raises(redis_errors.ConnectionError):
        answer(sentinel(), {SENTINEL: redis_errors.ConnectionError(), OTHER_SENTINEL: None})
