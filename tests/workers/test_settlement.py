"""Outcomes of messages from the decision until Redis has confirmed them."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import redis

from rsmq import TEXT
from rsmq.worker import Discard
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.listener import Handlers, make_listener
from rsmq.worker.middleware import Hooks
from rsmq.worker.operations import ReceiveRequest, receive_for_worker
from rsmq.worker.settle.settler import Settler
from rsmq.worker.settle.stored_bodies import StoredBodies
from rsmq.worker.state.jobs import SingleJob
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.message_state import BEGIN, BEGIN_CALL, change_call, change_message


@pytest.fixture
def client(env):
    """A client that counts the operations that it runs."""
    rsmq = env.create_client()
    for queue in ("q", "dead"):
        rsmq.create_queue(queue)
    counting = SimpleNamespace(namespace=rsmq.namespace, rsmq=rsmq, runs=0, error=None)

    def run(operation):
        if counting.error is not None:
            raise counting.error
        counting.runs += 1
        return rsmq.run(operation)

    counting.run = run
    return counting


@pytest.fixture
def connection(client):
    return WorkerConnection(client, "w", "token")


@pytest.fixture
def settler(connection):
    return Settler(connection, Hooks([]), StoredBodies(connection.client, ()))


@pytest.fixture
def lane(client):
    handlers = Handlers()
    handlers.add("", print)
    listener = make_listener("q", handlers, dead_letter_queue="dead", max_retries=0)
    return Lane(listener, client.namespace.queue("q"), 30.0, TEXT, 8, listener.policy)


def run_calls(connection, lane, bodies, error=None):
    """Send messages to a queue and receive them; return their calls, which have ended."""
    rsmq = connection.client.rsmq
    rsmq.send_messages("q", bodies)
    request = ReceiveRequest(lane.keys, 30_000, 1, 0, len(bodies))
    (result,) = rsmq.run(receive_for_worker(connection.identity, [request], len(bodies)))
    jobs = []
    for id, raw in zip(result.ids, result.raws, strict=True):
        job = SingleJob(lane, id, raw, 1, result.now_ms, time.monotonic())
        lane.add([job], time.monotonic())
        change_call(job, BEGIN_CALL)
        change_message(job, BEGIN)
        if error is not None:
            job.fail(error)
        jobs.append(job)
    return jobs


def write_all(settler):
    while settler:
        settler.write_step()


def counts(env):
    """Return the numbers of messages in the two queues, and of records in flight."""
    return (
        env.raw.zcard(f"{env.ns}:q"),
        env.raw.zcard(f"{env.ns}:dead"),
        max(env.raw.hlen(f"{env.ns}:x:held:w") - 1, 0),
    )


def test_outcomes_of_several_kinds_are_written_with_one_script(
    env, client, connection, lane, settler
):
    for job in run_calls(connection, lane, ["a", "b"]):
        settler.decide_outcomes(job)
    for job in run_calls(connection, lane, ["c"], Discard("not needed")):
        settler.decide_outcomes(job)
    settler.write_step()

    assert client.runs == 1
    assert counts(env) == (0, 0, 0)
    assert (settler.numbers.handled, settler.numbers.dropped) == (2, 1)
    assert len(lane.in_flight) == 0
    assert not settler


def test_dead_letters_are_moved_and_counted(env, connection, lane, settler):
    for job in run_calls(connection, lane, ["x"] * 3, ValueError("bad")):
        settler.decide_outcomes(job)
    write_all(settler)

    assert counts(env) == (0, 3, 0)
    assert settler.numbers.dead == 3


def test_outcomes_are_kept_while_the_server_is_down(env, client, connection, lane, settler):
    for job in run_calls(connection, lane, ["x"]):
        settler.decide_outcomes(job)
    client.error = redis.ConnectionError("down")
    with pytest.raises(redis.ConnectionError):
        write_all(settler)

    assert counts(env) == (1, 0, 1)
    assert len(lane.in_flight) == 1
    client.error = None
    write_all(settler)

    assert counts(env) == (0, 0, 0)
    assert settler.numbers.handled == 1
