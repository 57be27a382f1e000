"""Bodies in a store, through both clients: the raw keys, the objects, and a store that is away."""

from __future__ import annotations

import hashlib
import re

import pytest
from obstore.store import LocalStore, MemoryStore

from rsmq import JSON, RSMQ, BodyNotDecodable, BodyUnavailable, InvalidFormat, InvalidValue
from rsmq.body_stores import ObjectStore, RedisStore, sweep_bodies
from rsmq.codecs import Compressed, Encrypted, EnvelopeCodec, Stored

ROWS = [{"number": number, "item": "a small thing"} for number in range(200)]
TEXT_OF_ROWS = JSON.encode(ROWS).encode()


class AwayStore(ObjectStore):
    """A store that can be taken away."""

    is_away = False

    def __init__(self):
        super().__init__(MemoryStore())

    def write(self, *args):
        self._check()
        super().write(*args)

    def read(self, *args):
        self._check()
        return super().read(*args)

    def _check(self):
        if self.is_away:
            raise ConnectionError("no route to the store")


@pytest.fixture
def store():
    return AwayStore()


@pytest.fixture
def codec(store):
    return Stored(JSON, store=store, above=1000)


def objects(store, env):
    return dict(store.list(env.ns.encode()))


def test_a_large_body_is_an_object_and_the_message_names_it(env, queue, store, codec):
    id = env.rsmq.send_message(queue, ROWS, codec=codec)
    small = env.rsmq.send_message(queue, 5, codec=codec)

    place = f"{env.ns}:{queue}".encode()
    (name,) = objects(store, env).values()
    digest = hashlib.sha256(TEXT_OF_ROWS).hexdigest()
    stored = env.fields(queue)
    assert stored[id] == f"rsmq-body/1:stored={name}/{len(TEXT_OF_ROWS)}/{digest}::"
    assert stored[small] == "5"
    assert re.fullmatch("[0-9a-f]{32}", name)
    assert store.read(place, name, len(TEXT_OF_ROWS)) == TEXT_OF_ROWS
    assert env.rsmq.get_message(queue, id, codec=codec).body == ROWS
    assert [each.body for each in env.rsmq.peek_messages(queue, codec=codec)] == [ROWS, 5]
    assert env.rsmq.receive_message(queue, codec=codec).body == ROWS
    assert env.rsmq.pop_message(queue, codec=codec).body == 5


def test_all_steps_go_together(env, queue, store):
    inner = Encrypted(Compressed(EnvelopeCodec(JSON), above=0), keys={"k": bytes(32)})
    codec = Stored(inner, store=store, above=10)
    env.rsmq.send_message(queue, ROWS, codec=codec)
    message = env.rsmq.receive_message(queue, codec=codec)

    assert message.raw.startswith(b"rsmq-body/1:zstd=")
    assert b",aes256gcm=k,stored=" in message.raw
    assert message.body == ROWS


def test_a_batch_and_a_published_body(env, queue, store, codec):
    env.rsmq.create_queue("other")
    env.rsmq.send_messages(queue, [ROWS, 1, [*ROWS, 2]], codec=codec)
    env.rsmq.publish([queue, "other"], ROWS, codec=codec)

    assert len(list(store.list(env.ns.encode()))) == 3
    received = env.rsmq.receive_messages([queue, "other"], 10, codec=codec)
    assert [each.body for each in received] == [ROWS, 1, [*ROWS, 2], ROWS, ROWS]


def test_if_the_store_is_away_nothing_is_sent(env, queue, store, codec):
    store.is_away = True
    for send in (
        lambda: env.rsmq.send_message(queue, ROWS, codec=codec),
        lambda: env.rsmq.send_messages(queue, [1, ROWS], codec=codec),
        lambda: env.rsmq.publish([queue], ROWS, codec=codec),
    ):
        with pytest.raises(BodyUnavailable, match="store of the body can't be reached") as caught:
            send()
        assert isinstance(caught.value.__cause__, ConnectionError)
    assert env.rsmq.get_queue_attributes(queue).messages == 0
    env.rsmq.send_message(queue, 5, codec=codec)


def test_if_the_store_is_away_the_body_says_so(env, queue, store, codec):
    env.rsmq.send_message(queue, ROWS, codec=codec)
    store.is_away = True
    message = env.rsmq.receive_message(queue, codec=codec, vt=0)
    for _ in range(2):
        with pytest.raises(BodyUnavailable, match="store of the body can't be reached"):
            _ = message.body
    store.is_away = False
    assert env.rsmq.receive_message(queue, codec=codec).body == ROWS


def test_an_object_that_is_missing_or_changed(env, queue, store, codec):
    place = f"{env.ns}:{queue}".encode()
    env.rsmq.send_message(queue, ROWS, codec=codec)
    name = objects(store, env)[place]
    expected = {
        TEXT_OF_ROWS[:-1]: "another size or hash",
        TEXT_OF_ROWS + b" ": "another size or hash",
        TEXT_OF_ROWS.replace(b"small", b"large"): "another size or hash",
        None: "missing from the store",
    }
    for changed, text in expected.items():
        if changed is None:
            store.delete(place, name)
        else:
            store.write(place, name, changed)
        message = env.rsmq.receive_message(queue, codec=codec, vt=0)
        with pytest.raises(BodyNotDecodable, match=text):
            _ = message.body


def test_a_reference_can_t_leave_the_prefix(env, queue, tmp_path):
    (tmp_path / "secret").write_bytes(b"5")
    (tmp_path / "bodies").mkdir()
    store = ObjectStore(LocalStore(tmp_path), prefix="bodies")
    codec = Stored(JSON, store=store)
    digest, name = hashlib.sha256(b"5").hexdigest(), "0" * 32
    (tmp_path / name).write_bytes(b"5")
    for reference, fields in [
        (f"..%2Fsecret/1/{digest}", ""),
        (f"secret/1/{digest}", ""),
        (f"{name}/1/{digest}", "from=.."),
        (f"{name}/1/{digest}", "from=..%2Fx"),
        (f"{name}/1", ""),
        (f"{name}/-1/{digest}", ""),
        (f"{name}/1/{digest[1:]}", ""),
    ]:
        env.rsmq.send_message(queue, f"rsmq-body/1:stored={reference}:{fields}:")
        message = env.rsmq.pop_message(queue, codec=codec)
        with pytest.raises(BodyNotDecodable, match=r"reference .* is damaged"):
            _ = message.body
    env.rsmq.send_message(queue, f"rsmq-body/1:stored={name}/1/{digest}:from=..%2F..%3A:")
    with pytest.raises(BodyNotDecodable, match="missing from the store"):
        _ = env.rsmq.pop_message(queue, codec=codec).body


def test_the_largest_body(env, queue, store):
    small = Stored(JSON, store=store, above=10, limit=1000)
    with pytest.raises(Exception, match=r"the limit is 1,000"):
        env.rsmq.send_message(queue, ROWS, codec=small)
    env.rsmq.send_message(queue, ROWS, codec=Stored(JSON, store=store, above=10))
    message = env.rsmq.receive_message(queue, codec=small)
    with pytest.raises(BodyNotDecodable, match=r"the limit is 1,000.*limit=\.\.\."):
        _ = message.body


def test_a_consumer_without_the_codec_gets_a_named_error(env, queue, codec):
    env.rsmq.send_message(queue, ROWS, codec=codec)
    with pytest.raises(BodyNotDecodable, match="stored elsewhere"):
        _ = env.rsmq.receive_message(queue, codec=JSON, vt=0).body
    with pytest.raises(BodyNotDecodable, match="with codec=Stored"):
        _ = env.rsmq.receive_message(queue, codec=Compressed(JSON)).body


def test_a_moved_message_keeps_its_object(env, queue, codec):
    env.rsmq.create_queue("other")
    env.rsmq.send_message(queue, ROWS, codec=codec)
    env.rsmq.move_messages([env.rsmq.receive_message(queue)], "other")
    message = env.rsmq.receive_message("other", codec=codec)
    assert b":from=" in message.raw
    assert message.body == ROWS


def test_arguments_are_checked(store):
    with pytest.raises(InvalidFormat, match=r"rsmq\.body_stores"):
        Stored(JSON, store={})
    with pytest.raises(InvalidFormat, match="The order is"):
        Encrypted(Stored(JSON, store=store), keys={"k": bytes(32)})
    for above in (-1, 1.5, True):
        with pytest.raises(InvalidValue, match="above"):
            Stored(JSON, store=store, above=above)
    for prefix in ("", "/", "a/../b", "a//b", "a b", 5):
        with pytest.raises(InvalidFormat, match="prefix"):
            ObjectStore(MemoryStore(), prefix=prefix)
    with pytest.raises(InvalidFormat, match="obstore"):
        ObjectStore({})


def test_a_store_in_the_redis_of_the_queues(env, queue, request):
    if env.backend == "memory":
        pytest.skip("it has no server")
    store = RedisStore(env.url)
    request.addfinalizer(store.close)
    codec = Stored(JSON, store=store, above=1000)
    large = ["x" * 1000] * 2500  # three parts
    env.rsmq.send_messages(queue, [ROWS, large, ROWS], codec=codec)
    first, second = env.rsmq.receive_messages(queue, 2, codec=codec)

    assert [first.body, second.body] == [ROWS, large]
    names = {name: place for place, name in store.list(env.ns.encode())}
    assert set(names.values()) == {f"{env.ns}:{queue}".encode()}
    assert all(env.raw.exists(f"{env.ns}:{queue}:x:body:{name}") for name in names)
    assert env.rsmq.delete_messages([first, second]) == [first.id, second.id]
    with RSMQ.from_url(env.url, ns=env.ns) as queues:
        assert sweep_bodies(queues, store).objects == 1
    assert env.rsmq.pop_message(queue, codec=codec).body == ROWS
    assert [name for _, name in store.list(env.ns.encode())] == ["0" * 32]  # the owner


def test_a_store_in_redis_asks_no_sentinels():
    with pytest.raises(InvalidFormat, match="mymaster"):
        RedisStore("redis+sentinel://localhost:26379/mymaster/0")
