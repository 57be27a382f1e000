"""Frames and streams on a Redis Cluster and with Sentinels."""

from __future__ import annotations

import itertools

import pytest

from rsmq import RSMQ
from rsmq.spark import InvalidOption
from rsmq.wire.keys import Namespace
from tests.spark.conftest import Env, columns

_numbers = itertools.count()


class GroupEnv(Env):
    """A namespace on several servers."""

    def __init__(self, group, ns, raw):
        self.redis = group
        self.ns = ns
        self.raw = raw
        self.rsmq = RSMQ.from_url(group.url, ns=ns)
        self._closers = []

    def keys(self, queue="q"):
        return Namespace(self.ns).queue(queue)


@pytest.fixture(params=["cluster", "sentinels"])
def env(request):
    group = request.getfixturevalue(request.param)
    number = next(_numbers)
    if request.param == "cluster":
        env = GroupEnv(group, f"{{spark{number}}}", group.raw)
    else:
        env = GroupEnv(group, f"spark{number}", group.raw())
    env.rsmq.create_queue("q")
    yield env
    env.close()
    group.heal()


def fail_over(env):
    """Let another server serve the keys."""
    group = env.redis
    if hasattr(group, "node_of"):
        group.failover(group.replicas_of(group.node_of(env.ns))[0])
    else:
        group.failover()


def test_frame_is_read_also_after_a_failover(env):
    sent = env.rsmq.send_messages("q", ["a", "b", "c"])

    read = env.plan_read(queue="q")
    fail_over(env)

    assert [row["id"] for partition in read() for row in partition] == sent
    assert [row["id"] for row in env.read(queue="q")] == sent


@pytest.mark.parametrize("options", [{}, {"delivery": "exactly-once", "writeId": "w"}])
def test_frame_is_written(env, options):
    write = env.write(columns(message="string"), **options)
    message = write.task([{"message": "a"}, {"message": "b"}])
    fail_over(env)
    write.commit(message)

    assert sorted(each.body for each in env.rsmq.receive_messages("q", 10)) == ["a", "b"]


def test_stream_has_each_message_once_through_a_failover(env):
    query = env.query(limit=None)
    sent = env.rsmq.send_messages("q", ["a", "b", "c"])
    assert [row["id"] for row in query.run()] == sent

    fail_over(env)
    sent += env.rsmq.send_messages("q", ["d"])
    batches = query.run_until_empty()

    assert [row["id"] for rows in batches for row in rows] == sent[3:]
    assert query.ids() == sent
    assert env.rsmq.get_queue_attributes("q").messages == 0


def test_namespace_of_a_cluster_needs_a_hash_tag(cluster):
    env = GroupEnv(cluster, "{tag}", cluster.raw)
    with pytest.raises(InvalidOption, match="hash tag"):
        env.read(queue="q", ns="plain")
    env.close()
