"""The sweep of stored bodies: what it deletes, and what it never does."""

from __future__ import annotations

import random
import threading

import pytest
from obstore.store import MemoryStore, S3Store

from rsmq import JSON, RSMQ, InvalidValue, NotPossible
from rsmq.body_stores import ObjectStore, RedisStore, SweptBodies, sweep, sweep_bodies
from rsmq.codecs import Stored
from tests.s3 import BUCKET, s3_server

BODY = ["x" * 50] * 5
LONG_AGO = 1_000_000


@pytest.fixture(params=["objects", "redis"])
def store(request, server):
    return RedisStore(server.url) if request.param == "redis" else ObjectStore(MemoryStore())


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
    monkeypatch.setattr(sweep, "MIN_GRACE_SECONDS", 0)
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
