"""The sweep of stored bodies: what it deletes, and what it never does."""

from __future__ import annotations

import random
import threading
import time

import pytest
from obstore.store import MemoryStore, S3Store

from rsmq import JSON, RSMQ, InvalidValue, NotPossible
from rsmq.body_stores import ObjectStore, RedisStore, SweptBodies, sweep, sweep_bodies
from rsmq.codecs import Compressed, Stored, stored
from rsmq.worker import Worker
from rsmq.worker.settle import stored_bodies
from rsmq.worker.settle.stored_bodies import FIRST_SWEEP_SECONDS, SWEEP_SECONDS, StoredBodies
from tests.nodes import wait_until
from tests.s3 import BUCKET, s3_server

BODY = ["x" * 50] * 5
LONG_AGO = 1_000_000


@pytest.fixture(params=["objects", "redis"])
def store(request, server):
    if request.param == "objects":
        yield ObjectStore(MemoryStore())
    else:
        store = RedisStore(server.url)
        yield store
        store.close()


@pytest.fixture
def codec(store):
    return Stored(JSON, store=store, above=20)


def age(raw, ns):
    """Let the grace of all noted objects be over."""
    record = f"{ns}:x:unused_bodies"
    for name in raw.hkeys(record):
        raw.hset(record, name, LONG_AGO)


def names_in(store, ns):
    return {name for place, name in store.list(ns.encode()) if place != f"{ns}:".encode()}


def test_an_object_is_deleted_when_it_was_in_no_message_for_the_grace(rsmq, raw, ns, store, codec):
    rsmq.create_queue("q")
    kept, gone = (rsmq.send_message("q", BODY, codec=codec) for _ in range(2))
    raws = {id: rsmq.get_message("q", id).raw for id in (kept, gone)}
    rsmq.delete_message("q", gone)

    assert sweep_bodies(rsmq, store, dry_run=True) == SweptBodies(2, 1, 0)
    assert not raw.exists(f"{ns}:x:unused_bodies")
    assert sweep_bodies(rsmq, store) == SweptBodies(2, 1, 0)
    (noted,) = raw.hkeys(f"{ns}:x:unused_bodies")
    assert noted in raws[gone]
    assert raw.pttl(f"{ns}:x:unused_bodies") > 0
    assert sweep_bodies(rsmq, store) == SweptBodies(2, 1, 0)
    age(raw, ns)
    assert sweep_bodies(rsmq, store, dry_run=True) == SweptBodies(2, 1, 1)
    assert len(names_in(store, ns)) == 2
    assert sweep_bodies(rsmq, store) == SweptBodies(2, 1, 1)
    assert sweep_bodies(rsmq, store) == SweptBodies(1, 0, 0)
    assert not raw.exists(f"{ns}:x:unused_bodies")
    assert rsmq.receive_message("q", codec=codec).body == BODY


def test_a_store_of_another_redis_with_this_namespace_is_left(rsmq, raw, ns, server, codec):
    store = ObjectStore(MemoryStore())
    codec = Stored(JSON, store=store, above=20)
    rsmq.create_queue("q")
    rsmq.delete_message("q", rsmq.send_message("q", BODY, codec=codec))
    sweep_bodies(rsmq, store)
    age(raw, ns)
    mark = raw.get(f"{ns}:x:owner_of_bodies")
    assert store.read(f"{ns}:".encode(), "0" * 32, 32) == mark
    before = names_in(store, ns)
    for other in (None, b"o" * 32):  # emptied or another one
        raw.delete(f"{ns}:x:owner_of_bodies")
        if other is not None:
            raw.set(f"{ns}:x:owner_of_bodies", other)
        for dry_run in (True, False):
            with pytest.raises(NotPossible, match=r"belong to another Redis.*prefix or bucket"):
                sweep_bodies(rsmq, store, dry_run=dry_run)
    assert names_in(store, ns) == before

    store.delete(f"{ns}:".encode(), "0" * 32)  # as the text says
    assert sweep_bodies(rsmq, store) == SweptBodies(1, 1, 1)


def test_an_object_that_is_in_a_message_again_is_no_longer_noted(rsmq, raw, ns, store, codec):
    rsmq.create_queue("q")
    id = rsmq.send_message("q", BODY, codec=codec)
    body = rsmq.get_message("q", id).raw
    rsmq.delete_message("q", id)
    sweep_bodies(rsmq, store)
    age(raw, ns)
    rsmq.send_message("q", body.decode())

    assert sweep_bodies(rsmq, store) == SweptBodies(1, 0, 0)
    assert not raw.exists(f"{ns}:x:unused_bodies")


def test_all_places_of_a_body_keep_its_object(rsmq, raw, ns, store, codec):
    for name in ("q", "dead", "trash", "scheduled"):
        rsmq.create_queue(name)
    for name in ("q", "dead", "trash"):
        rsmq.send_message(name, BODY, codec=codec)
    rsmq.schedules.add("s", every=3600, queue="scheduled", body=BODY, codec=codec)
    rsmq.move_messages([rsmq.receive_message("q")], "dead")
    rsmq.trash.purge_queue("trash")
    for _ in range(2):
        assert sweep_bodies(rsmq, store) == SweptBodies(4, 0, 0)
        age(raw, ns)

    rsmq.trash.undo(rsmq.trash.list()[0].id)
    assert rsmq.receive_message("trash", codec=codec).body == BODY
    assert [each.body for each in rsmq.receive_messages("dead", 5, codec=codec)] == [BODY] * 2


def test_an_undo_that_was_interrupted_delays_a_sweep_for_twenty_minutes(
    rsmq, raw, ns, store, codec
):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    rsmq.trash.purge_queue("q")
    ((id, stored),) = raw.hgetall(f"{ns}:x:trash").items()
    _, kind, ms, rest = stored.split(b" ", 3)
    store.write(f"{ns}:q".encode(), "a" * 32, b"unused")
    sweep_bodies(rsmq, store)

    for minutes, expected in ((19, (1, 1, 0)), (21, (1, 1, 1))):
        age(raw, ns)
        begun = int(ms) - minutes * 60_000
        raw.hset(f"{ns}:x:trash", id, b"undoing %s %d %s" % (kind, begun, rest))
        assert sweep_bodies(rsmq, store) == SweptBodies(*expected)


def test_a_namespace_and_a_queue_with_a_colon_are_left_alone(rsmq, raw, ns, server, store, codec):
    for other in (f"{ns}x", f"{ns}:sub"):
        with RSMQ.from_url(server.url, ns=other, codec=codec) as queues:
            queues.create_queue("q", exist_ok=True)
            queues.delete_message("q", queues.send_message("q", BODY))
            assert sweep_bodies(rsmq, store) == SweptBodies(0, 0, 0)
            queues.delete_queue("q")
            for place, name in store.list(other.encode()):
                store.delete(place, name)


def test_the_second_reading_saves_what_has_come_back(rsmq, raw, ns, store, codec, monkeypatch):
    rsmq.create_queue("q")
    id = rsmq.send_message("q", BODY, codec=codec)
    body = rsmq.get_message("q", id).raw.decode()
    rsmq.delete_message("q", id)
    sweep_bodies(rsmq, store)
    age(raw, ns)
    note = sweep._note_unused

    def note_and_send(*args):
        rsmq.send_message("q", body)
        return note(*args)

    monkeypatch.setattr(sweep, "_note_unused", note_and_send)
    assert sweep_bodies(rsmq, store).deleted == 0
    assert rsmq.receive_message("q", codec=codec).body == BODY


def test_the_grace_is_checked(rsmq, store):
    for grace in (0, 59, 366 * 86_400, "1"):
        with pytest.raises(InvalidValue, match="grace"):
            sweep_bodies(rsmq, store, grace=grace)
        with pytest.raises(InvalidValue, match="grace"):
            Stored(JSON, store=store, grace=grace)


def run_program(queues, seed, steps):
    """Send, receive, delete, move and redrive at random; a send may end before its message."""
    chance = random.Random(seed)
    for _ in range(steps):
        action = chance.randrange(7)
        if action <= 1:
            queues.send_message("q", [seed, *BODY])
        elif action == 2:  # killed between the object and the message
            queues.codec.for_queue(queues.namespace.queue("q").zset).encode(BODY)
        elif action == 3:
            queues.publish(["q", "other"], BODY)
        else:
            source, target = chance.choice([("q", "other"), ("other", "q")])
            for message in queues.receive_messages(source, 3, vt=chance.choice([0, 30])):
                assert message.body
                if action == 4:
                    queues.delete_message(message)
                else:
                    queues.move_messages([message], target)


def test_random_programs_on_s3_lose_nothing_and_leave_nothing(rsmq, raw, ns, server, monkeypatch):
    monkeypatch.setattr(stored, "MIN_GRACE_SECONDS", 0)
    with s3_server() as settings:
        bucket = S3Store(
            BUCKET, endpoint=settings["AWS_ENDPOINT_URL"], region="us-east-1",
            access_key_id="test", secret_access_key="test",
            client_options={"allow_http": True},
        )  # fmt: skip
        store = ObjectStore(bucket)
        codec = Stored(JSON, store=store, above=20)
        clients = [RSMQ.from_url(server.url, ns=ns, codec=codec) for _ in range(3)]
        for name in ("q", "other"):
            rsmq.create_queue(name)
        threads = [
            threading.Thread(target=run_program, args=(client, seed, 60))
            for seed, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            # The grace is longer than a send takes here; each sweep sees what moves meanwhile.
            sweep_bodies(rsmq, store, grace=5)
        for thread in threads:
            thread.join()
        age(raw, ns)
        sweep_bodies(rsmq, store, grace=60)
        age(raw, ns)
        sweep_bodies(rsmq, store, grace=60)

        messages = []
        for name in ("q", "other"):
            rsmq.release_all_messages(name)
            messages += rsmq.receive_messages(name, 10_000, codec=codec)
        assert all(each.body for each in messages)
        used = {each.raw.partition(b"stored=")[2][:32].decode() for each in messages}
        assert names_in(store, ns) == used
        assert used
        for client in clients:
            client.close()


def sweep_now(bodies, seconds):
    """Let a sweep of a worker begin if it is due, and wait for its end."""
    bodies.sweep(time.monotonic() + seconds)
    if bodies._sweep is not None:
        bodies._sweep.join()


def test_workers_sweep_once_an_hour_together(rsmq, raw, ns, store, codec):
    rsmq.create_queue("q")
    rsmq.delete_message("q", rsmq.send_message("q", BODY, codec=codec))
    kept = rsmq.send_message("q", BODY, codec=codec)
    claim, record = f"{ns}:x:swept_bodies", f"{ns}:x:unused_bodies"
    bound = codec.for_queue(f"{ns}:q".encode())
    first, second = (StoredBodies(rsmq, [bound, JSON, bound]) for _ in range(2))

    sweep_now(first, FIRST_SWEEP_SECONDS - 10)
    assert not raw.exists(claim)
    sweep_now(first, FIRST_SWEEP_SECONDS)
    assert 3_500_000 < raw.pttl(claim) <= 3_600_000
    assert raw.hlen(record) == 1
    age(raw, ns)
    for bodies in (first, second):
        sweep_now(bodies, FIRST_SWEEP_SECONDS + SWEEP_SECONDS)
        assert len(names_in(store, ns)) == 2  # another one has swept in this hour
    raw.delete(claim)
    sweep_now(second, FIRST_SWEEP_SECONDS + 3 * SWEEP_SECONDS)
    assert len(names_in(store, ns)) == 1
    assert rsmq.get_message("q", kept, codec=codec).body == BODY
    for bodies in (first, second):
        bodies.close()


def test_a_worker_sweeps_with_the_longest_grace_of_its_codecs(rsmq, raw, ns, store):
    rsmq.create_queue("q")
    hours = [Stored(JSON, store=store, above=20, grace=each * 3600) for each in (1, 3)]
    rsmq.delete_message("q", rsmq.send_message("q", BODY, codec=hours[0]))
    record = f"{ns}:x:unused_bodies"
    for codecs, ages, left in ((hours, 2, 1), (hours[:1], 2, 0)):
        for _ in range(2):
            raw.delete(f"{ns}:x:swept_bodies")
            bodies = StoredBodies(rsmq, codecs)
            sweep_now(bodies, FIRST_SWEEP_SECONDS)
            bodies.close()
            for name in raw.hkeys(record):
                raw.hset(record, name, int(time.time() - ages * 3600) * 1000)
        assert len(names_in(store, ns)) == left


def test_a_worker_without_a_store_sweeps_nothing(rsmq, raw, ns):
    bodies = StoredBodies(rsmq, [JSON, Compressed(JSON)])
    sweep_now(bodies, 10 * SWEEP_SECONDS)
    assert bodies._sweep is None
    assert not raw.exists(f"{ns}:x:swept_bodies")


def test_a_sweep_of_a_worker_that_fails_or_ends_is_no_error(rsmq, raw, ns, caplog):
    class AwayStore(ObjectStore):
        def read(self, *args):
            raise ConnectionError("away")

    codec = Stored(JSON, store=AwayStore(MemoryStore()), above=20)
    bodies = StoredBodies(rsmq, [codec])
    sweep_now(bodies, FIRST_SWEEP_SECONDS)
    assert "the stored bodies were not swept: away" in caplog.text

    rsmq.create_queue("q")
    codec = Stored(JSON, store=ObjectStore(MemoryStore()), above=20)
    rsmq.send_message("q", BODY, codec=codec)
    raw.delete(f"{ns}:x:swept_bodies")
    caplog.clear()
    bodies = StoredBodies(rsmq, [codec])
    bodies.close()
    sweep_now(bodies, FIRST_SWEEP_SECONDS)
    assert caplog.text == ""


def test_the_loop_of_a_worker_sweeps(rsmq, raw, ns, store, codec, monkeypatch):
    monkeypatch.setattr(stored_bodies, "FIRST_SWEEP_SECONDS", 0)
    rsmq.create_queue("q")
    worker = Worker(rsmq)
    worker.listener("q", codec=codec, retry_forever=True)(lambda _: None)
    thread = threading.Thread(target=worker.run)
    thread.start()
    wait_until(lambda: raw.exists(f"{ns}:x:swept_bodies") and names_in(store, ns) == set())
    worker.stop()
    thread.join()


def keys_with(raw, ns, text):
    """Return the keys of hashes that have a value with this text."""
    keys = [key for key in raw.scan_iter(f"{ns}:*") if raw.type(key) == b"hash"]
    return [key for key in keys if any(text in value for value in raw.hvals(key))]


@pytest.mark.parametrize("way", ["move", "dead letter", "undo"])
def test_a_message_that_moves_in_each_reading_keeps_its_object(
    rsmq, raw, ns, store, codec, monkeypatch, way
):
    """Each reading sees the keys where it is not yet, then it moves, then those where it was."""
    rsmq.create_queue("q")
    rsmq.create_queue("other")
    if way == "dead letter":
        rsmq.set_dead_letter_policy("q", "other", max_receives=1)
    rsmq.send_message("q", BODY, codec=codec)
    (name,) = names_in(store, ns)
    read_keys, moves = sweep.read_keys, []

    def move():
        moves.append(way)
        is_first = len(moves) % 2 == 1
        if way == "move":
            source, target = ("q", "other") if is_first else ("other", "q")
            rsmq.move_messages(rsmq.receive_messages(source, 1, vt=0), target)
        elif way == "dead letter" and is_first:
            for _ in range(2):
                rsmq.receive_message("q", vt=0)
        elif way == "dead letter":
            rsmq.redrive_messages("other", "q")
        elif is_first:
            rsmq.trash.purge_queue("q")
        else:
            rsmq.trash.undo(rsmq.trash.list()[0].id)

    def read_and_move(queues):
        keys = list(read_keys(queues))
        (place,) = keys_with(raw, ns, f"stored={name}".encode())
        yield from (key for key in keys if key != place)
        move()
        yield place

    monkeypatch.setattr(sweep, "read_keys", read_and_move)
    for _ in range(4):
        assert sweep_bodies(rsmq, store).deleted == 0
        age(raw, ns)
    assert len(moves) >= 4
    monkeypatch.undo()
    assert sweep_bodies(rsmq, store) == SweptBodies(1, 0, 0)
    assert names_in(store, ns) == {name}


def test_two_stores_of_a_namespace_are_swept_each_for_itself(rsmq, raw, ns, server):
    stores = [ObjectStore(MemoryStore()), RedisStore(server.url)]
    rsmq.create_queue("q")
    for store in stores:
        codec = Stored(JSON, store=store, above=20)
        rsmq.delete_message("q", rsmq.send_message("q", BODY, codec=codec))
    raw.hset(f"{ns}:x:unused_bodies", "gone long ago", LONG_AGO)
    for _ in range(2):
        for store in stores:
            sweep_bodies(rsmq, store)
    assert len(raw.hkeys(f"{ns}:x:unused_bodies")) == 2
    for name in raw.hkeys(f"{ns}:x:unused_bodies"):
        raw.hset(f"{ns}:x:unused_bodies", name, int(time.time() - 2 * 86_400) * 1000)
    assert [sweep_bodies(rsmq, store).deleted for store in stores] == [1, 1]
    stores[1].close()
