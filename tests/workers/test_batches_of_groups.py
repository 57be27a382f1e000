"""Batches take several messages of a group, in order, and no other call has one of the group."""

from __future__ import annotations

import threading
from collections import defaultdict

import pytest

from rsmq import RSMQ
from rsmq.worker.operations import Identity, ReceiveRequest, receive_for_worker
from tests.scale import WAIT_SECONDS


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def send(env, *bodies):
    """Send messages to the groups of their first letters; returns the ids by body."""
    groups = [each[0] for each in bodies]
    ids = env.rsmq.send_messages("q", list(bodies), groups=groups)
    return dict(zip(bodies, ids, strict=True))


def receive(env, *, size, max_messages=100, fill_ms=None, slots=20):
    """Receive from queue q, as a worker does; returns the bodies."""
    worker = Identity(env.rsmq.namespace, "w", "token")
    keys = env.rsmq.namespace.queue("q")
    request = ReceiveRequest(keys, 60_000, size, 0, max_messages, fill_ms)
    [result] = env.rsmq.run(receive_for_worker(worker, [request], slots))
    return [raw.decode() for raw in result.raws]


def states(env, ids):
    return {body: env.rsmq.get_message("q", id).state for body, id in ids.items()}


def members(env, name):
    """Return the ids in one of the lists of groups."""
    found = env.raw.zrange(f"{env.queue_key('q')}:x:{name}", 0, -1)
    return {each.partition(b"\0")[2].decode() for each in found}


def test_a_row_of_a_group_ends_with_its_call(env):
    env.create_queues("q")
    ids = send(env, "a1", "a2", "b1", "a3", "a4", "c1", "c2")
    assert receive(env, size=3) == ["a1", "a2", "a3", "b1", "c1", "c2"]
    assert states(env, ids) == {
        **dict.fromkeys(("a1", "a2", "a3", "b1", "c1", "c2"), "in_flight"), "a4": "held_back",
    }  # fmt: skip
    assert members(env, "admitted") == {ids[body] for body in ids if body != "a4"}
    assert members(env, "held_back") == {ids["a4"]}
    assert env.raw.hget(f"{env.queue_key('q')}:Q", "x:limited") == b"2"
    assert receive(env, size=3) == []
    env.rsmq.delete_messages("q", [ids["a1"], ids["a2"]])
    assert receive(env, size=3) == []
    env.rsmq.delete_message("q", ids["a3"])
    assert receive(env, size=3) == ["a4"]


def test_calls_with_one_message_take_one_of_a_group(env):
    env.create_queues("q")
    send(env, "a1", "a2", "b1")
    assert receive(env, size=1) == ["a1", "b1"]
    assert not env.raw.hexists(f"{env.queue_key('q')}:Q", "x:limited")


def test_a_message_that_was_received_before_has_no_row_and_ends_one(env):
    env.create_queues("q")
    ids = send(env, "a1", "a2", "a3", "b1", "b2")
    assert receive(env, size=5) == ["a1", "a2", "a3", "b1", "b2"]
    env.rsmq.release_messages("q", list(ids.values()))
    assert receive(env, size=5) == ["a1", "b1"]
    assert states(env, ids) == {
        "a1": "in_flight", "b1": "in_flight", **dict.fromkeys(("a2", "a3", "b2"), "held_back"),
    }  # fmt: skip
    env.rsmq.delete_message("q", ids["a1"])
    assert receive(env, size=5) == ["a2"]


def test_rows_fill_a_batch_that_has_waited(env):
    env.create_queues("q")
    ids = send(env, "a1", "a2", "a3", "a4")
    assert receive(env, size=3, fill_ms=1_000_000) == []
    assert set(states(env, ids).values()) == {"visible", "held_back"}
    assert receive(env, size=3, fill_ms=0) == ["a1", "a2", "a3"]


def test_a_group_is_handled_in_order_by_one_call_at_a_time(env):
    env.create_queues("q")
    handled, running, sizes, lock = defaultdict(list), set(), [], threading.Lock()
    worker = env.create_worker(concurrency=4)

    @worker.listener("q", batch=4, max_retries=50, backoff=0.01, drop=True)
    def handle(bodies):
        groups = {body[0] for body in bodies}
        with lock:
            assert not groups & running
            running.update(groups)
        try:
            if len(sizes) % 5 == 1:
                sizes.append(0)
                raise ValueError(bodies)
            with lock:
                sizes.append(len(bodies))
                for body in bodies:
                    handled[body[0]].append(body)
        finally:
            with lock:
                running.difference_update(groups)

    bodies = [f"{group}{number:02}" for number in range(30) for group in "abcde"]
    send(env, *bodies)
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    assert dict(handled) == {
        group: [f"{group}{number:02}" for number in range(30)] for group in "abcde"
    }
    assert max(sizes) == 4
    assert env.is_empty("q")
    assert members(env, "admitted") == members(env, "held_back") == set()


def test_messages_in_quarantine_do_not_part_a_row(env):
    env.create_queues("q")
    seen = []
    worker = env.create_worker(concurrency=1)
    worker.listener("q", batch=3, vt=60, max_retries=1, drop=True)(seen.append)
    ids = send(env, "x1", "a1", "a2", "b1", "b2", "b3")
    env.raw.hset(f"{env.queue_key('q')}:Q", ids["x1"] + ":rc", 9)
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    assert sorted(seen) == [["a1", "a2"], ["b1", "b2", "b3"], ["x1"]]


@pytest.mark.parametrize("backend", ["redis"], indirect=True)
def test_without_the_right_to_the_lists_a_call_has_one_of_each_group(env, server):
    env.create_queues("q")
    send(env, "a1", "a2", "b1")
    keys = [f"~{env.ns}:{name}" for name in ("q", "q:Q", "q:x:group_of", "x:*")]
    env.raw.execute_command("ACL", "SETUSER", "few", "on", ">secret", "+@all", *keys)
    url = f"redis://few:secret@127.0.0.1:{server.port}/0"
    with RSMQ.from_url(url, ns=env.ns) as env.rsmq:
        assert receive(env, size=3) == ["a1", "b1"]
    env.raw.execute_command("ACL", "DELUSER", "few")
