"""Outcomes of messages from several cells."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import redis

from rsmq import TEXT
from rsmq.worker import Discard
from rsmq.worker.listener import Handlers, make_listener
from rsmq.worker.middleware import Hooks
from rsmq.worker.operations import Identity, ReceiveRequest, receive_for_worker
from rsmq.worker.settle.settler import Settler
from rsmq.worker.state.jobs import SingleJob
from rsmq.worker.state.lane import Cell, Lane
from rsmq.worker.state.message_state import BEGIN, BEGIN_CALL, change_call, change_message

CELLS = 3


@pytest.fixture
def cells(env):
    """Cells whose clients count the operations that they run."""
    found = []
    for number in range(CELLS):
        rsmq = env.create_client(ns=f"{env.ns}:{number}")
        for queue in ("q", "dead"):
            rsmq.create_queue(queue)
        client = SimpleNamespace(namespace=rsmq.namespace, rsmq=rsmq, runs=0, error=None)
        client.run = lambda operation, client=client: _run(client, operation)
        found.append(Cell(number, client, Identity(rsmq.namespace, "w", f"token{number}")))
    return found


def _run(client, operation):
    if client.error is not None:
        raise client.error
    client.runs += 1
    return client.rsmq.run(operation)


@pytest.fixture
def lane(cells):
    handlers = Handlers()
    handlers.add("", print)
    listener = make_listener("q", handlers, dead_letter_queue="dead", max_retries=0)
    lane = Lane(listener, 30.0, TEXT, 8, listener.policy)
    for cell in cells:
        lane.add_queue(cell)
    return lane


def run_calls(queue, bodies, error=None):
    """Send messages to a queue and receive them; return their calls, which have ended."""
    rsmq = queue.cell.client.rsmq
    rsmq.send_messages("q", bodies)
    request = ReceiveRequest(queue.keys, 30_000, 1, 0, len(bodies))
    (result,) = rsmq.run(receive_for_worker(queue.cell.identity, [request], len(bodies)))
    jobs = []
    for id, raw in zip(result.ids, result.raws, strict=True):
        job = SingleJob(queue, id, raw, 1, result.now_ms, time.monotonic())
        queue.add([job], time.monotonic())
        change_call(job, BEGIN_CALL)
        change_message(job, BEGIN)
        if error is not None:
            job.fail(error)
        jobs.append(job)
    return jobs


def write_all(settler):
    while settler:
        for cell in settler.cells():
            settler.write_step(cell)


def counts(env, number):
    """Return the numbers of messages in the two queues of a cell, and of records in flight."""
    return (
        env.raw.zcard(f"{env.ns}:{number}:q"),
        env.raw.zcard(f"{env.ns}:{number}:dead"),
        max(env.raw.hlen(f"{env.ns}:{number}:x:held:w") - 1, 0),
    )


def test_outcomes_go_to_the_cells_of_their_messages_with_one_script_each(env, cells, lane):
    settler = Settler(Hooks([]))
    for number in (0, 2):
        for job in run_calls(lane.queues[number], ["a", "b"]):
            settler.decide_outcomes(job)
        for job in run_calls(lane.queues[number], ["c"], Discard("not needed")):
            settler.decide_outcomes(job)
    for cell in settler.cells():
        settler.write_step(cell)

    assert [cell.client.runs for cell in cells] == [1, 0, 1]
    assert [counts(env, number) for number in (0, 2)] == [(0, 0, 0)] * 2
    assert (settler.numbers.handled, settler.numbers.dropped) == (4, 2)
    assert lane.count_in_flight() == 0
    assert not settler


def test_dead_letters_go_to_a_queue_of_the_same_cell(env, lane):
    settler = Settler(Hooks([]))
    for number, queue in enumerate(lane.queues):
        for job in run_calls(queue, ["x"] * (number + 1), ValueError("bad")):
            settler.decide_outcomes(job)
    write_all(settler)

    assert [counts(env, number) for number in range(CELLS)] == [(0, 1, 0), (0, 2, 0), (0, 3, 0)]
    assert settler.numbers.dead == 6


def test_outcomes_of_a_cell_that_is_down_are_kept(env, cells, lane):
    settler = Settler(Hooks([]))
    for queue in lane.queues:
        for job in run_calls(queue, ["x"]):
            settler.decide_outcomes(job)
    cells[1].client.error = redis.ConnectionError("down")
    with pytest.raises(redis.ConnectionError):
        write_all(settler)

    assert counts(env, 1) == (1, 0, 1)
    assert len(lane.queues[1].in_flight) == 1
    cells[1].client.error = None
    write_all(settler)

    assert [counts(env, number) for number in range(CELLS)] == [(0, 0, 0)] * CELLS
    assert settler.numbers.handled == CELLS
