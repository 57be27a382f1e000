"""Sweeps of groups by workers, which take turns."""

from __future__ import annotations

import math

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError

from rsmq.errors import QueueNotFound
from rsmq.wire.keys import Namespace
from rsmq.worker.loop.group_sweeps import MAX_STEPS_PER_TURN, GroupSweeps
from rsmq.worker.operations import SweepStep, sweep_groups_in_turn
from tests.workers.polling import wait_until


@pytest.fixture
def queue(env):
    env.create_queues("q")
    return "q"


def send(env, *groups):
    return env.rsmq.send_messages("q", ["m"] * len(groups), groups=groups)


def delete_as_node(env, id):
    env.raw.zrem(env.queue_key("q"), id)
    env.raw.hdel(env.queue_key("q") + ":Q", id, f"{id}:rc", f"{id}:fr")


def step(env, position=b""):
    return env.rsmq.run(sweep_groups_in_turn(Namespace(env.ns).queue("q"), position))


def turn(env):
    """Return when the next step is to be made, in ms from now, and its position."""
    at, _, position = env.raw.hget(env.queue_key("q") + ":Q", "x:groups").partition(b" ")
    seconds, microseconds = env.raw.time()
    return int(at) - seconds * 1000 - microseconds // 1000, position


def pass_time(env, ms):
    """Let the next step be due so much earlier."""
    at, _, position = env.raw.hget(env.queue_key("q") + ":Q", "x:groups").partition(b" ")
    env.raw.hset(env.queue_key("q") + ":Q", "x:groups", b"%d %b" % (int(at) - ms, position))


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_a_worker_handles_the_next_message_after_a_delete_by_node(env, queue):
    seen, worker = [], env.create_worker()
    a1, _ = send(env, "a", "a")
    env.rsmq.send_message("q", "of a2", group="a", unique_key="k")
    delete_as_node(env, a1)
    worker.listener("q")(seen.append)
    worker.start()

    wait_until(lambda: seen == ["m", "of a2"])
    worker.stop()
    assert env.raw.zcard(env.queue_key("q") + ":x:held_back") == 0


def test_one_worker_makes_the_steps_of_a_sweep(env, queue):
    ids = send(env, *["a"] * 1300)
    delete_as_node(env, ids[0])
    first = step(env)
    at = first.position.rpartition(b"\0")[2].decode()

    assert (ids.index(at), first.admitted) == (500, 1)
    assert turn(env)[1] == first.position
    assert 9000 < turn(env)[0] <= 10_000
    other = step(env)
    assert (other.position, other.admitted) == (b"", 0)
    assert 9 < other.pause <= 10

    second = step(env, first.position)
    assert ids.index(second.position.rpartition(b"\0")[2].decode()) == 1000
    last = step(env, second.position)
    assert last == SweepStep(45.0, b"", 0)
    assert turn(env)[1] == b""
    assert 44_000 < turn(env)[0] <= 45_000
    # The pauses of a sweep are 5 s together: with the 45 s behind it less than a minute.
    assert 3 < first.pause + second.pause < 5


def test_a_repeated_step_does_nothing(env, queue):
    send(env, *["a"] * 1300)
    first = step(env)
    step(env, first.position)
    assert step(env, first.position).position == b""


def test_another_worker_goes_on_where_a_dead_one_has_stopped(env, queue):
    send(env, *["a"] * 1300)
    first = step(env)
    pass_time(env, 11_000)
    second = step(env)

    assert second.position > first.position
    assert step(env, first.position).position == b""


@pytest.mark.parametrize("ms", [46_000, -10_000_000])
def test_the_next_sweep_begins_after_45_seconds_or_a_step_of_the_clock_back(env, queue, ms):
    a1, a2 = send(env, "a", "a")
    assert step(env).admitted == 0
    delete_as_node(env, a1)
    assert step(env).admitted == 0
    pass_time(env, ms)

    assert step(env).admitted == 1
    assert env.rsmq.receive_message("q").id == a2


def test_a_queue_without_groups_has_no_sweep(env, queue):
    env.rsmq.send_message("q", "m")
    assert step(env) is None
    assert not env.raw.hexists(env.queue_key("q") + ":Q", "x:groups")


class _Client:
    """A client whose calls have these results."""

    def __init__(self, *results):
        self.results, self.positions = list(results), []

    def run(self, operation):
        self.positions.append(operation.args[0])
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return result


class _Connection:
    def __init__(self, *results):
        self.client = _Client(*results)

    def attempt(self, call):
        try:
            return call()
        except RedisConnectionError:
            return None


class _Lane:
    name, keys = "q", Namespace("n").queue("q")


def sweeps_of(*results):
    connection = _Connection(*results)
    sweeps = GroupSweeps(connection)
    sweeps.note(_Lane())
    return sweeps, connection.client


def test_without_queues_with_groups_there_is_nothing_to_do():
    sweeps = GroupSweeps(_Connection())
    sweeps.run(100.0)
    assert sweeps.due_at == math.inf


def test_the_steps_of_a_sweep_follow_each_other():
    sweeps, client = sweeps_of(
        SweepStep(0.5, b"x", 0), SweepStep(0.5, b"y", 0), SweepStep(45, b"", 0)
    )
    for now in (100.0, 100.2, 100.5, 101.0, 101.1):
        sweeps.run(now)
    assert client.positions == [b"", b"x", b"y"]
    assert sweeps.due_at == 146.0


def test_a_busy_loop_catches_up_with_some_steps_in_each_turn():
    sweeps, client = sweeps_of(SweepStep(0.0625, b"x", 0))
    sweeps.run(100.0)
    sweeps.run(100.25)
    assert len(client.positions) == 5
    sweeps.run(200.0)
    assert len(client.positions) == 5 + MAX_STEPS_PER_TURN
    assert 199.0 < sweeps.due_at < 200.0


@pytest.mark.parametrize("result", [None, QueueNotFound("q", "n")])
def test_a_queue_that_has_no_groups_any_more_is_forgotten(result):
    sweeps, client = sweeps_of(result)
    sweeps.run(100.0)
    sweeps.run(10_000.0)
    assert (len(client.positions), sweeps.due_at) == (1, math.inf)


def test_a_server_that_fails_is_asked_again():
    sweeps, _ = sweeps_of(RedisConnectionError())
    sweeps.run(100.0)
    assert sweeps.due_at == 101.0


def test_a_missing_right_is_logged_once(caplog):
    sweeps, client = sweeps_of(NoPermissionError("no rights"))
    sweeps.run(100.0)
    sweeps.run(130.0)
    sweeps.run(200.0)
    assert (len(client.positions), sweeps.due_at) == (2, 260.0)
    assert [each.getMessage() for each in caplog.records] == [
        "groups of queue q can't be swept: no rights"
    ]
