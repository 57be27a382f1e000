"""Flows: the script that ends a job counts its node, and sends those that waited for it."""

from __future__ import annotations

import pytest

from rsmq import InvalidValue, MessageTooLong, QueueNotFound
from rsmq.jobs.flows.operations import (
    FlowNode,
    FlowPlan,
    cancel_flow,
    check_flow,
    read_flow,
    result_of,
    send_flow,
)
from rsmq.schedules import operations as schedules
from rsmq.wire.ids import make_flow_id
from rsmq.wire.keys import Namespace
from rsmq.worker.operations import (
    Identity,
    ReceiveRequest,
    Settlement,
    TrackedOutcome,
    dead_letter_messages,
    receive_for_worker,
    register_worker,
    settle_messages,
)
from tests.contract.conftest import CLUSTERS, Env


@pytest.fixture(params=["redis", "redis-6.2", *CLUSTERS, "redis-py, RESP3", "memory"])
def env(request, mode):
    env = Env(request.param, mode, request)
    yield env
    env.close()


@pytest.fixture
def me(env):
    """A registered worker, and the queues a and b."""
    me = Identity(Namespace(env.ns), "w", "mine")
    env.rsmq.run(register_worker(me, {"pid": 1}, ttl=10, dead=""))
    for name in "ab":
        env.rsmq.create_queue(name)
    return me


def send(env, *after, policy="stop", queues="ab", id=None, **options):
    """Send a flow of nodes in turns in both queues; each takes the results of those before it."""
    nodes = [
        FlowNode(
            queues[number % 2],
            b"%d" % number + b"".join(b" " + result_of(each) for each in before),
            9,
            before,
            before,
        )
        for number, before in enumerate(after)
    ]
    plan = FlowPlan(id or make_flow_id(None), nodes, policy, **options)
    is_new = env.rsmq.run(send_flow(Namespace(env.ns), plan, realtime=False))
    return plan.id, is_new


def receive(env, me, name, number=1):
    keys = me.namespace.queue(name)
    request = ReceiveRequest(keys, 60_000, 1, 0, number, is_tracked=True)
    (result,) = env.rsmq.run(receive_for_worker(me, [request], number))
    return result.ids


def settle(env, me, name, ids, event="succeed", value=b"7"):
    tracked = TrackedOutcome(event, 60, [value] * len(ids))
    group = Settlement(me.namespace.queue(name), "delete", 1, ids, tracked=tracked)
    return env.rsmq.run(settle_messages(me, [group]))


def fields(env, me, id):
    return env.raw.hgetall(me.namespace.flow(id))


def bodies(env, name):
    return [env.raw.hget(env.hash(name), id) for id in env.raw.zrange(env.zset(name), 0, -1)]


def test_the_script_that_settles_the_last_one_sends_the_next_one(env, me):
    id, is_new = send(env, (), (), (0, 1))
    assert is_new
    assert send(env, (), (), (0, 1), id=id) == (id, False)
    assert (bodies(env, "a"), bodies(env, "b")) == ([b"0"], [b"1"])
    (first,) = receive(env, me, "a")
    assert settle(env, me, "a", [first]) == b"1"
    assert bodies(env, "a") == []
    (second,) = receive(env, me, "b")
    settle(env, me, "b", [second], value=b'"x"')

    assert bodies(env, "a") == [b'2 7 "x"']
    assert env.raw.hget(env.hash("a"), "totalsent") == b"2"
    (third,) = receive(env, me, "a")
    found = fields(env, me, id)
    assert found[b"0:s"] == b"succeeded " + first.encode()
    assert found[b"2:s"] == b"sent " + third.encode()
    assert found[b"0:r"] == b"7"
    assert [found[name] for name in (b"pending", b"sent", b"succeeded")] == [b"0", b"1", b"2"]
    assert env.raw.zscore(me.namespace.due_schedules, f"flow:{id}") is not None
    settle(env, me, "a", [third], value=b"[1]")
    found = fields(env, me, id)
    assert (found[b"state"], found[b"2:r"]) == (b"succeeded", b"[1]")
    assert env.raw.exists(me.namespace.due_schedules) == 0
    assert 0 < env.raw.pttl(me.namespace.flow(id)) <= 86_400_000


def test_a_dead_letter_ends_a_node(env, me):
    id, _ = send(env, (), (0,))
    ids = receive(env, me, "a")
    queues = me.namespace.queue("a"), me.namespace.queue("b")
    reason = {"text": "no", "exception": "E: no"}
    env.rsmq.run(dead_letter_messages(me, *queues, [(ids[0], 1, reason)], result_ttl=60))
    found = fields(env, me, id)
    assert (found[b"state"], found[b"0:e"]) == (b"failed", b"E: no")
    assert (found[b"failed"], found[b"skipped"]) == (b"1", b"1")
    assert b"1:s" not in found


def test_a_purged_message_is_found_by_the_check(env, me):
    id, _ = send(env, (), (0,), policy="continue")
    env.rsmq.purge_queue("a")
    assert env.rsmq.run(read_flow(me.namespace, id, "none", only_reads=True)).counts["sent"] == 1
    assert env.rsmq.run(check_flow(me.namespace, id))
    assert fields(env, me, id)[b"expired"] == b"1"
    assert bodies(env, "b") == [b"1 null"]
    settle(env, me, "b", receive(env, me, "b"))
    assert not env.rsmq.run(check_flow(me.namespace, id))
    status = env.rsmq.run(read_flow(me.namespace, id, "all", only_reads=True))
    assert [each.state for each in status.nodes] == ["expired", "succeeded"]


def test_the_check_counts_an_end_that_was_not_counted(env, me):
    """As after a script whose user had no right to the flow."""
    id, _ = send(env, (), (0,))
    (first,) = receive(env, me, "a")
    record = me.namespace.queue("a").job(first)
    place = env.raw.hget(record, "flow")
    env.raw.hdel(record, "flow")
    settle(env, me, "a", [first])
    assert fields(env, me, id)[b"0:s"] == b"sent " + first.encode()
    env.rsmq.run(check_flow(me.namespace, id))
    assert fields(env, me, id)[b"0:s"] == b"succeeded " + first.encode()
    assert bodies(env, "b") == [b"1 7"]
    # A record that has expired while its message waits is written again.
    (second,) = (each.decode() for each in env.raw.zrange(env.zset("b"), 0, -1))
    record = me.namespace.queue("b").job(second)
    env.raw.delete(record)
    env.rsmq.run(check_flow(me.namespace, id))
    assert env.raw.hget(record, "flow") == place[:-1] + b"1"
    settle(env, me, "b", receive(env, me, "b"))
    assert fields(env, me, id)[b"state"] == b"succeeded"


def test_cancelling_ends_what_waits_and_asks_what_runs(env, me):
    id, _ = send(env, (), (), (0, 1))
    receive(env, me, "a")
    assert env.rsmq.run(cancel_flow(me.namespace, id)) == "requested"
    found = fields(env, me, id)
    assert [found[name] for name in (b"sent", b"cancelled", b"skipped")] == [b"1", b"1", b"1"]
    assert bodies(env, "b") == []
    (job,) = (each.decode() for each in env.raw.zrange(env.zset("a"), 0, -1))
    settle(env, me, "a", [job], "fail", b"")
    assert fields(env, me, id)[b"state"] == b"cancelled"
    assert env.rsmq.run(cancel_flow(me.namespace, id)) == "cancelled"
    assert env.rsmq.run(cancel_flow(me.namespace, make_flow_id(None))) is None


def test_a_flow_that_a_queue_refuses_changes_nothing(env, me):
    env.rsmq.create_queue("small", maxsize=1024)
    node = FlowNode("small", b"x", 2000, (), ())
    plan = FlowPlan(make_flow_id("x"), [node])
    with pytest.raises(MessageTooLong):
        env.rsmq.run(send_flow(me.namespace, plan, realtime=False))
    plan.nodes[0] = FlowNode("missing", b"x", 1, (), ())
    with pytest.raises(QueueNotFound, match="missing"):
        env.rsmq.run(send_flow(me.namespace, plan, realtime=False))
    assert env.raw.exists(me.namespace.flow(plan.id), me.namespace.due_schedules) == 0


def test_a_flow_that_has_not_ended_is_no_schedule(env, me, monkeypatch):
    monkeypatch.setattr(schedules, "MAX_SCHEDULES", 1)
    send(env, ())
    assert env.rsmq.schedules.list() == []
    env.rsmq.schedules.add("s", queue="a", body="x", every=60)
    assert [each.name for each in env.rsmq.schedules.list()] == ["s"]
    with pytest.raises(InvalidValue, match="number of schedules"):
        env.rsmq.schedules.add("t", queue="a", body="x", every=60)
    assert env.raw.zcard(me.namespace.due_schedules) == 2


@pytest.mark.parametrize("event", ["succeed", "fail"])
def test_a_flow_that_is_cancelled_while_its_last_call_runs_ends(env, me, event):
    id, _ = send(env, (), (), has_finally=True)
    settle(env, me, "a", receive(env, me, "a"))
    ids = receive(env, me, "b")
    assert env.rsmq.run(cancel_flow(me.namespace, id)) == "requested"
    settle(env, me, "b", ids, event)
    stored = fields(env, me, id)
    counts = [stored[name] for name in (b"pending", b"sent", b"skipped")]
    assert (stored[b"state"], counts) == (b"cancelled", [b"0"] * 3)
    assert env.raw.exists(me.namespace.due_schedules) == 0
