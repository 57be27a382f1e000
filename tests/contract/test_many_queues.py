"""Receives from more queues than one script handles: in steps, after a check of all queues."""

from __future__ import annotations

import random

import pytest
import redis

from rsmq import RSMQ, AsyncRSMQ, InvalidValue, QueueNotFound
from rsmq.operations import batches
from tests.blocking import Blocking
from tests.contract.test_waiting import run_during

NAMES = [f"q{number}" for number in range(10)]


@pytest.fixture(autouse=True)
def _steps(monkeypatch):
    monkeypatch.setattr(batches, "QUEUES_PER_STEP", 3)


@pytest.fixture
def queues(env):
    for name in NAMES:
        env.rsmq.create_queue(name, vt=50, maxsize=-1)
    return NAMES


@pytest.fixture
def in_one_step(monkeypatch):
    return lambda: monkeypatch.setattr(batches, "QUEUES_PER_STEP", 1000)


CALLS = pytest.mark.parametrize("call", ["receive_messages", "pop_messages"])


@CALLS
def test_messages_of_earlier_queues_are_first_across_steps(env, queues, call):
    sent = {name: env.rsmq.send_messages(name, [f"{name}-{n}" for n in range(2)]) for name in NAMES}
    expected = [id for name in NAMES for id in sent[name]]

    first = getattr(env.rsmq, call)(queues, 7)
    assert [message.id for message in first] == expected[:7]
    rest = getattr(env.rsmq, call)(queues, 100)
    assert [message.id for message in rest] == expected[7:]
    assert getattr(env.rsmq, call)(queues, 100) == []
    for name in NAMES:
        assert env.fields(name)["totalrecv"] == "2"
        scores = env.scores(name)
        assert scores.keys() == (set() if call == "pop_messages" else set(sent[name]))


@CALLS
@pytest.mark.parametrize("backend", ["redis", "memory"])  # its bodies are large
def test_steps_receive_the_same_messages_as_one_step(env, queues, call, in_one_step):
    """The bodies of a batch have at most 16 MiB, except the first. Steps share that limit."""
    generator = random.Random(3)
    sizes = {name: [generator.choice([1, 3, 6]) for _ in range(2)] for name in NAMES}
    sizes["q0"] = []
    sizes["q4"] = [17]  # is received only as the first body

    def fill():
        for name in NAMES:
            env.rsmq.purge_queue(name)
            for size in sizes[name]:
                env.rsmq.send_message(name, "x" * (size << 20))

    def receive(names):
        return [(message.queue, len(message.raw) >> 20) for message in method(names, 100)]

    method = getattr(env.rsmq, call)
    fill()
    stepwise = receive(queues), receive(queues[4:])
    fill()
    in_one_step()
    assert (receive(queues), receive(queues[4:])) == stepwise
    assert stepwise[1] == [("q4", 17)]
    assert sum(size for _, size in stepwise[0]) <= 16


@CALLS
@pytest.mark.parametrize("missing", ["q2", "q9"])
def test_a_missing_queue_of_any_step_is_named_and_nothing_is_received(env, queues, call, missing):
    for name in NAMES:
        env.rsmq.send_message(name, "m")
    env.rsmq.delete_queue(missing)
    before = env.state()
    with pytest.raises(QueueNotFound) as caught:
        getattr(env.rsmq, call)(queues, 100)

    assert caught.value.value == missing
    assert env.state() == before


def test_an_invalid_vt_in_any_step_is_refused_and_nothing_is_received(env, queues):
    env.rsmq.send_message("q0", "m")
    env.raw.hset(env.hash("q8"), "vt", "soon")
    before = env.state()
    with pytest.raises(InvalidValue, match="vt must be between"):
        env.rsmq.receive_messages(queues, 100)
    assert env.state() == before

    assert [message.body for message in env.rsmq.receive_messages(queues, 100, vt=5)] == ["m"]


def fail_second_run(env, monkeypatch, script):
    """Let the second run of this script raise ConnectionError."""
    client = env.rsmq._clients["consumer"] if env.backend == "acl" else env.rsmq
    client = client._client if isinstance(client, Blocking) else client
    run, runs = client._caller.run, []

    def failing(operation):
        runs.append(operation.script.name)
        if runs.count(script) == 2 and runs[-1] == script:
            raise redis.exceptions.ConnectionError("gone")
        return run(operation)

    async def failing_async(operation):
        return await failing(operation)

    is_async = isinstance(client, AsyncRSMQ)
    monkeypatch.setattr(client._caller, "run", failing_async if is_async else failing)


def test_a_failing_step_releases_the_received_messages(env, queues, monkeypatch):
    ids = [env.rsmq.send_message(name, "m") for name in NAMES]
    before = {name: env.scores(name) for name in NAMES}
    fail_second_run(env, monkeypatch, "receive_messages")
    with pytest.raises(redis.exceptions.ConnectionError):
        env.rsmq.receive_messages(queues, 100)

    assert {name: env.scores(name) for name in NAMES} == before
    assert [env.fields(name).get(f"{id}:rc") for name, id in zip(NAMES, ids, strict=True)] == [
        "1", "1", "1", *[None] * 7,
    ]  # fmt: skip


def test_a_failing_step_returns_the_popped_messages(env, queues, monkeypatch):
    ids = [env.rsmq.send_message(name, "m") for name in NAMES]
    fail_second_run(env, monkeypatch, "pop_messages")

    assert [message.id for message in env.rsmq.pop_messages(queues, 100)] == ids[:3]
    assert [len(env.scores(name)) for name in NAMES] == [0] * 3 + [1] * 7


@CALLS
def test_a_message_in_any_step_ends_the_wait(env, queues, call):
    other = RSMQ(env.raw, ns=env.ns)
    with run_during(lambda: other.send_message("q7", "m")):
        found = getattr(env.rsmq, call)(queues, 5, wait=20)

    assert [message.queue for message in found] == ["q7"]
