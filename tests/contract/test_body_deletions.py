"""Stored bodies are deleted with their messages, and never while another message has them."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore

from rsmq import JSON, BodyUnavailable, InvalidFormat
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Stored
from rsmq.wire.body_format import name_object, owned_object
from tests.contract.conftest import ADMIN

BODY = ["a small thing"] * 50


class CountingStore(ObjectStore):
    """A store that counts deletions, and may be away for reads or refuse deletions."""

    def __init__(self):
        super().__init__(MemoryStore())
        self.deleted = []
        self.is_away = self.refuses = False

    def read(self, *args):
        if self.is_away:
            raise ConnectionError("away")
        return super().read(*args)

    def delete(self, place, name):
        if self.refuses:
            raise PermissionError("no right to delete")
        self.deleted.append(name)
        super().delete(place, name)


@pytest.fixture
def store():
    return CountingStore()


@pytest.fixture
def codec(store):
    return Stored(JSON, store=store, above=20)


def names(store, env):
    return {name for _, name in store.list(env.ns.encode())}


def test_the_id_of_a_message_names_its_object(env, queue, store, codec):
    ids = [
        env.rsmq.send_message(queue, BODY, codec=codec),
        *env.rsmq.send_messages(queue, [BODY, 5, BODY], codec=codec),
        env.rsmq.send_message(queue, BODY, codec=codec, group="g"),
        *env.rsmq.send_messages(queue, [BODY, BODY], codec=codec, unique_keys=["a", "b"]),
    ]
    small = ids.pop(2)
    assert names(store, env) == {name_object(id.encode()) for id in ids}
    raws = env.fields(queue)
    assert all(owned_object(raws[id].encode(), id) == name_object(id.encode()) for id in ids)
    assert owned_object(raws[small].encode(), small) is None
    assert owned_object(raws[ids[0]].encode(), ids[1]) is None


@pytest.mark.parametrize("way", ["delete", "delete_list", "delete_tuple", "pop", "pop_many"])
def test_a_deleted_message_takes_its_object_along(env, queue, store, codec, way):
    kept = env.rsmq.send_message(queue, BODY, codec=codec, delay=1000)
    env.rsmq.send_messages(queue, [BODY, 5, BODY], codec=codec)
    bodies = []
    if way == "pop":
        bodies = [env.rsmq.pop_message(queue, codec=codec).body for _ in range(3)]
    elif way == "pop_many":
        bodies = [each.body for each in env.rsmq.pop_messages(queue, 5, codec=codec)]
    else:
        messages = env.rsmq.receive_messages(queue, 5, codec=codec)
        bodies = [each.body for each in messages]
        if way == "delete":
            assert [env.rsmq.delete_message(each) for each in messages] == [True] * 3
        else:
            chosen = tuple(messages) if way == "delete_tuple" else messages
            assert env.rsmq.delete_messages(chosen) == [each.id for each in messages]
    assert bodies == [BODY, 5, BODY]
    assert names(store, env) == {name_object(kept.encode())}
    assert len(store.deleted) == 2


def test_a_message_that_was_not_deleted_keeps_its_object(env, queue, store, codec):
    env.rsmq.create_queue("other")
    ids = env.rsmq.send_messages(queue, [BODY, BODY], codec=codec)
    first, second = env.rsmq.receive_messages(queue, 2, codec=codec, vt=0)
    again = env.rsmq.receive_messages(queue, 2, codec=codec)
    env.rsmq.move_messages([again[1]], "other")

    assert not env.rsmq.delete_message(first)
    assert env.rsmq.delete_messages([first, second]) == []
    assert store.deleted == []
    assert names(store, env) == {name_object(id.encode()) for id in ids}
    assert env.rsmq.receive_message("other", codec=codec).body == BODY


def test_a_moved_message_leaves_its_object_to_the_sweep(env, queue, store, codec):
    env.rsmq.create_queue("other")
    env.rsmq.send_message(queue, BODY, codec=codec)
    for source, target in ((queue, "other"), ("other", queue)):
        env.rsmq.move_messages([env.rsmq.receive_message(source)], target)
    assert env.rsmq.delete_message(env.rsmq.receive_message(queue, codec=codec))
    assert store.deleted == []


@pytest.mark.parametrize("backend", ["redis", "redis-6.2"])
@pytest.mark.parametrize("has_right", [True, False])
def test_a_move_removes_the_note_of_the_object_if_the_user_may(
    env, queue, codec, limited, has_right
):
    env.rsmq.create_queue("to")
    id = env.rsmq.send_message(queue, BODY, codec=codec)
    notes, name = f"{env.ns}:x:unused_bodies", name_object(id.encode())
    env.raw.hset(notes, mapping={name: 5, "other": 5})
    names = (queue, "to")
    keys = [*map(env.zset, names), *map(env.hash, names), *([notes] if has_right else [])]
    admin = limited(keys, ADMIN)

    assert admin.move_messages(queue, "to", [id]) == [id]
    assert env.raw.hkeys(notes) == ([b"other"] if has_right else [name.encode(), b"other"])
    assert env.rsmq.receive_message("to", codec=codec).body == BODY


def test_copies_leave_their_object_to_the_sweep(env, queue, store, codec):
    env.rsmq.create_queue("other")
    env.rsmq.publish([queue, "other"], BODY, codec=codec)
    env.rsmq.send_message(queue, BODY, codec=codec)
    published, sent = env.rsmq.receive_messages(queue, 2, codec=codec)
    env.rsmq.send_message(queue, sent.raw.decode())  # by hand, into the same queue
    copy = env.rsmq.receive_message(queue, codec=codec)

    assert env.rsmq.delete_messages([published, copy]) == [published.id, copy.id]
    assert store.deleted == []
    assert sent.body == BODY
    assert env.rsmq.receive_message("other", codec=codec).body == BODY


def test_a_body_that_was_not_loaded_keeps_its_object(env, queue, store, codec):
    env.rsmq.send_message(queue, BODY, codec=codec)
    store.is_away = True
    message = env.rsmq.pop_message(queue, codec=codec)
    with pytest.raises(BodyUnavailable):
        _ = message.body
    assert store.deleted == []


def test_a_store_that_refuses_is_no_error(env, queue, store, codec, caplog):
    env.rsmq.send_messages(queue, [BODY, BODY], codec=codec)
    store.refuses = True
    assert env.rsmq.delete_message(env.rsmq.receive_message(queue, codec=codec))
    assert env.rsmq.pop_message(queue, codec=codec).body == BODY
    assert len(names(store, env)) == 2
    assert caplog.text.count("remains until the sweep") == 2


def test_without_deletes_all_is_left_to_the_sweep(env, queue, store):
    codec = Stored(JSON, store=store, above=20, deletes=False)
    env.rsmq.send_message(queue, BODY, codec=codec)
    assert env.rsmq.pop_message(queue, codec=codec).body == BODY
    assert store.deleted == []
    with pytest.raises(InvalidFormat, match="deletes"):
        Stored(JSON, store=store, deletes=1)


@pytest.mark.parametrize("option", ["dedup_id", "unique_key"])
def test_a_repeated_send_leaves_no_second_object(env, queue, store, codec, option):
    first = env.rsmq.send_message(queue, BODY, codec=codec, **{option: "a"})
    assert env.rsmq.send_message(queue, BODY, codec=codec, **{option: "a"}) == first
    batch = {f"{option}s": ["a", "b", "b", None]}
    ids = env.rsmq.send_messages(queue, [BODY] * 4, codec=codec, **batch)

    assert ids[0] == first
    assert ids[1] == ids[2]
    assert names(store, env) == {name_object(id.encode()) for id in {*ids}}
    assert [each.body for each in env.rsmq.receive_messages(queue, 9, codec=codec)] == [BODY] * 3


def test_a_replaced_body_is_kept(env, queue, store, codec):
    options = {"unique_key": "a", "replace": True, "delay": 0}
    first = env.rsmq.send_message(queue, BODY, codec=codec, **options)
    assert env.rsmq.send_message(queue, [*BODY, 1], codec=codec, **options) == first
    message = env.rsmq.receive_message(queue, codec=codec)
    assert message.body == [*BODY, 1]
    assert env.rsmq.delete_message(message)
    assert store.deleted == []  # both objects are left to the sweep
    assert len(names(store, env)) == 2
