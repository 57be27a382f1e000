"""
Receive counts and totals that another program has overwritten: read leniently, stored as integers.

A fraction is cut off. A value that is not a number, or is too large, counts as 0.
"""

from __future__ import annotations

import pytest

from rsmq.spark.operations.batches import (
    Batch,
    PartLimits,
    lease_messages,
    name_part,
    parse_receipts,
)
from rsmq.worker.operations import Identity, ReceiveRequest, receive_for_worker

#: Stored values, and the numbers that they are read as.
STORED = {
    "": 0,
    "many": 0,
    "1.5": 1,
    "9" * 25: 0,
    str(2**63 - 1): 0,
    "-3": -3,
    "007": 7,
    "3": 3,
}


def each_stored(env):
    """Yield each stored value, the number that it is read as, and a new queue."""
    for place, (stored, number) in enumerate(STORED.items()):
        env.rsmq.create_queue(f"q{place}")
        yield stored, number, f"q{place}"


def receive_as_worker(env, queue):
    """Receive as a worker does; return ids and receive counts."""
    rsmq = env.rsmq
    keys = rsmq.namespace.queue(queue)
    worker = Identity(rsmq.namespace, "w", "token")
    wants = [ReceiveRequest(keys, 60_000, 1, 0, 10)]
    (result,) = rsmq.run(receive_for_worker(worker, wants, 10))
    return [(id, result.redelivered.get(place, (1, 0))[0]) for place, id in enumerate(result.ids)]


def lease(env, queue):
    """Receive as a stream of Spark does; return ids and receive counts."""
    rsmq = env.rsmq
    keys, batch = rsmq.namespace.queue(queue), Batch("lease", 1, "lease", "me")
    wanted = PartLimits(max_messages=10, vt=60, latest_ms=None, lifetime=60, dead_letters=None)
    rsmq.run(lease_messages(rsmq.namespace, keys, batch, 0, wanted))
    receipts = parse_receipts(env.raw.hget(keys.leases, name_part(batch, 0)))
    ids = [id.decode() for id in receipts.ids]
    return list(zip(ids, receipts.receive_counts, strict=True))


def ids_and_counts(messages):
    return [(message.id, message.receive_count) for message in messages if message]


RECEIVES = {
    "receive_message": lambda env, q: ids_and_counts(
        [env.rsmq.receive_message(q), env.rsmq.receive_message(q)]
    ),
    "receive_messages": lambda env, q: ids_and_counts(env.rsmq.receive_messages(q, 5)),
    "pop_message": lambda env, q: ids_and_counts(
        [env.rsmq.pop_message(q), env.rsmq.pop_message(q)]
    ),
    "pop_messages": lambda env, q: ids_and_counts(env.rsmq.pop_messages(q, 5)),
    "receive_for_worker": receive_as_worker,
    "lease_messages": lease,
}


def is_possible(env, receive):
    """Return whether the backend has the rights and the commands for this receive."""
    missing = {"acl": {"receive_for_worker", "lease_messages"}, "memory": {"lease_messages"}}
    return receive not in missing.get(env.backend, ())


@pytest.mark.parametrize("receive", RECEIVES)
def test_an_invalid_receive_count_does_not_block_a_receive(env, receive):
    if not is_possible(env, receive):
        return
    for stored, number, queue in each_stored(env):
        odd, other = env.rsmq.send_messages(queue, ["odd", "other"])
        env.raw.hset(env.hash(queue), mapping={f"{odd}:rc": stored, f"{odd}:fr": "5"})

        received = RECEIVES[receive](env, queue)
        assert (stored, received) == (stored, [(odd, number + 1), (other, 1)])
        fields = env.fields(queue)
        assert fields["totalrecv"] == "2"
        if receive.startswith("pop"):
            assert env.scores(queue) == {}
        else:
            assert fields[f"{odd}:rc"] == str(number + 1)
            assert env.scores(queue)[odd] > env.now_ms()


@pytest.mark.parametrize("receive", RECEIVES)
def test_an_invalid_total_does_not_block_a_receive(env, receive):
    if not is_possible(env, receive):
        return
    for stored, number, queue in each_stored(env):
        ids = env.rsmq.send_messages(queue, ["a", "b"])
        env.raw.hset(env.hash(queue), "totalrecv", stored)

        received = RECEIVES[receive](env, queue)
        assert (stored, received) == (stored, [(id, 1) for id in ids])
        assert env.fields(queue)["totalrecv"] == str(number + 2)


def test_a_receipt_after_an_invalid_count_is_valid(env, queue):
    id = env.rsmq.send_message(queue, "m")
    env.raw.hset(env.hash(queue), f"{id}:rc", "1.5")
    first = env.rsmq.receive_message(queue, vt=0)
    second = env.rsmq.receive_message(queue)

    assert [first.receive_count, second.receive_count] == [2, 3]
    assert env.rsmq.delete_message(first) is False
    assert env.rsmq.delete_message(second) is True


@pytest.mark.parametrize("receive", ["receive_message", "receive_messages", "sweep"])
def test_a_dead_letter_policy_reads_invalid_counts_too(env, receive):
    env.rsmq.create_queue("dead")
    for stored, number, queue in each_stored(env):
        env.rsmq.set_dead_letter_policy(queue, "dead", 3)
        id = env.rsmq.send_message(queue, "m")
        env.raw.hset(env.hash(queue), f"{id}:rc", stored)
        if receive == "sweep":
            found = env.rsmq.sweep_dead_letters(queue)
        elif receive == "receive_message":
            found = ids_and_counts([env.rsmq.receive_message(queue)])
        else:
            found = ids_and_counts(env.rsmq.receive_messages(queue, 5))

        if number >= 3:
            assert (stored, found) == (stored, [id] if receive == "sweep" else [])
            assert list(env.scores("dead")) == [id]
            assert env.fields("dead")[f"{id}:rc"] == stored
        else:
            assert (stored, found) == (stored, [] if receive == "sweep" else [(id, number + 1)])
            assert env.scores("dead") == {}
        env.rsmq.purge_queue("dead")


def redrive(env, queue):
    env.rsmq.create_queue("from", exist_ok=True)
    env.rsmq.send_message("from", "m")
    env.rsmq.redrive_messages("from", queue)


def move(env, queue):
    env.rsmq.create_queue("from", exist_ok=True)
    id = env.rsmq.send_message("from", "m")
    assert env.rsmq.move_messages("from", queue, ids=[id]) == [id]


def dead_letter(env, queue):
    env.rsmq.create_queue("from", exist_ok=True)
    env.rsmq.set_dead_letter_policy("from", queue, 1)
    env.rsmq.send_message("from", "m")
    env.rsmq.receive_message("from", vt=0)
    assert env.rsmq.receive_message("from") is None


SENDS = {
    "send_message": lambda env, q: env.rsmq.send_message(q, "m"),
    "send_messages": lambda env, q: env.rsmq.send_messages(q, ["m"]),
    "large": lambda env, q: env.rsmq.send_messages(q, ["x" * 10_000, "y" * 10_000]),
    "dedup": lambda env, q: env.rsmq.send_message(q, "m", dedup_id="one"),
    "publish": lambda env, q: env.rsmq.publish([q], "m"),
    "redrive": redrive,
    "move": move,
    "dead letter": dead_letter,
}


@pytest.mark.parametrize("send", SENDS)
def test_an_invalid_total_does_not_block_a_send(env, send):
    for stored, number, queue in each_stored(env):
        env.raw.hset(env.hash(queue), "totalsent", stored)
        SENDS[send](env, queue)

        sent = 2 if send == "large" else 1
        assert (stored, env.fields(queue)["totalsent"]) == (stored, str(number + sent))
        assert len(env.scores(queue)) == sent
        assert all(id in env.fields(queue) for id in env.scores(queue))
