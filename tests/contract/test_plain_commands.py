"""Operations of plain commands, on each kind of server, through both clients."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from rsmq import Confirm
from rsmq.operations.operation import RetryClass
from rsmq.operations.plain import (
    encode_command,
    parse_fields,
    parse_scores,
    plain_command,
    plain_commands,
)
from rsmq.operations.queues import list_queues_in_steps
from rsmq.transport.packing import pack
from rsmq.transport.topology.group import ServerGroup
from rsmq.wire.keys import Namespace


@pytest.fixture
def client(env):
    """The client of a user with all rights."""
    return env._open(env.url, {"ns": env.ns}) if env.backend == "acl" else env.rsmq


@pytest.fixture
def run(client):
    """Run an operation as a user with all rights."""
    return client.run


@pytest.fixture
def key(env):
    return f"{env.ns}:plain".encode()


def test_replies_are_bytes_and_words_may_be_numbers(env, run, key):
    assert run(plain_command("ZADD", key, 1.5, b"\xff", 2, "é")) == 2
    assert run(plain_command("ZRANGE", key, 0, -1)) == [b"\xff", "é".encode()]
    scores = run(plain_command("ZRANGE", key, 0, -1, "WITHSCORES", parse=parse_scores))
    assert scores == [(b"\xff", 1.5), ("é".encode(), 2.0)]
    env.raw.delete(key)


def test_reply_with_fields_is_parsed(env, run, key):
    env.raw.hset(key, mapping={"a": "1", "b": "2"})
    assert run(plain_command("HGETALL", key, parse=parse_fields)) == {b"a": b"1", b"b": b"2"}
    env.raw.delete(key)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_many_commands_return_their_replies_in_order(env, run, key, in_transaction):
    commands = [encode_command(("RPUSH", key, number)) for number in range(100)]
    commands.append(encode_command(("LRANGE", key, 0, -1)))
    operation = plain_commands(key, commands, in_transaction=in_transaction)
    assert run(operation) == [*range(1, 101), [b"%d" % number for number in range(100)]]
    assert env.raw.llen(key) == 100
    env.raw.delete(key)


def test_one_command_in_a_transaction(env, run, key):
    command = encode_command(("RPUSH", key, "m"))
    assert run(plain_commands(key, [command], in_transaction=True)) == [1]
    env.raw.delete(key)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_first_error_is_raised_after_all_replies_were_read(env, run, key, in_transaction):
    commands = [
        encode_command(words)
        for words in (("SET", key, "text"), ("LLEN", key), ("ZCARD", key), ("GET", key))
    ]
    with pytest.raises(ResponseError, match=r"(?i)wrong kind of value|another type"):
        run(plain_commands(key, commands, in_transaction=in_transaction))
    assert run(plain_command("GET", key)) == b"text"
    env.raw.delete(key)


def test_command_may_be_packed_already(env, run, key):
    packed = [memoryview(b"".join(pack((b"RPUSH", key, b"a")))), b"".join(pack((b"LLEN", key)))]
    assert run(plain_commands(key, [[packed[0]], [packed[1]]])) == [1, 1]
    env.raw.delete(key)


def test_blocking_command_may_take_longer_than_the_timeout_of_connections(env, run, key):
    options = {} if env.backend == "memory" else {"socket_timeout": 0.2, "retry_deadline": 0}
    client = env._open(env.url, {"ns": env.ns, **options})
    operation = plain_command("BLPOP", key, 1, retry=RetryClass.NEVER, reply_timeout=20)
    assert client.run(operation) is None
    assert client.run(plain_command("EXISTS", key)) == 0


def test_queues_are_listed_in_short_steps_while_others_come_and_go(env, run):
    names = {f"queue-{number}" for number in range(4000)}
    index = f"{env.ns}:QUEUES"
    env.raw.sadd(index, *names)
    steps, sizes = list_queues_in_steps(Namespace(env.ns)), []
    step, found = next(steps), None
    while found is None:
        reply = run(step)
        sizes.append(len(reply[1]))
        env.raw.sadd(index, f"new-{len(sizes)}")
        env.raw.srem(index, f"queue-{len(sizes)}")
        try:
            step = steps.send(reply)
        except StopIteration as end:
            found = end.value
    come = {f"new-{number}" for number in range(1, len(sizes) + 1)}
    gone = {f"queue-{number}" for number in range(1, len(sizes) + 1)}
    assert found == sorted(set(found))
    assert names - gone <= set(found) <= names | come
    assert len(sizes) > 2
    assert max(sizes) < 1600


@pytest.mark.parametrize("backend", ["acl"])
def test_queues_are_listed_in_one_step_without_a_right_to_shorter_ones(env):
    names = [f"queue-{number:04}" for number in range(2500)]
    env.raw.sadd(f"{env.ns}:QUEUES", *names)
    assert env.rsmq.run_steps(list_queues_in_steps(Namespace(env.ns))) == names


def test_the_caller_of_a_client_runs_its_operations(env, mode, client, key):
    client.run(plain_command("RPUSH", key, "m"))
    caller, call = client.caller, plain_command("LRANGE", key, 0, -1)

    async def call_async():
        return await caller.run(call)

    found = caller.run(call) if mode == "sync" else env._runner.run(call_async())
    assert found == [b"m"]
    assert client.caller is caller
    assert caller.origin is client.origin
    is_group = isinstance(caller.origin.servers, ServerGroup)
    assert caller.server_options == (None if is_group else caller.origin.servers.connection_kwargs)
    env.raw.delete(key)


def test_the_settings_of_a_client_can_be_read(env):
    copies = Confirm(replicas=1, timeout=2)
    client = env.client(confirm=copies, realtime=True)
    assert (client.confirm, client.realtime) == (copies, True)
    assert env.client().confirm == Confirm()
