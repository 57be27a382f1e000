"""Frames and streams on a Redis Cluster and with Sentinels."""

from __future__ import annotations

import itertools
import pickle
import traceback
from collections import Counter

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from redis.exceptions import AuthenticationError

from rsmq import RSMQ
from rsmq.spark import BatchLost, InvalidOption
from rsmq.wire.keys import Namespace
from tests.nodes import wait_until_in_step
from tests.sentinels import SentinelGroup
from tests.servers import redis_7
from tests.spark.conftest import Env, columns

NAMESPACES = 6
SECRET = "s3cr3t-w0rd"
OTHER_SECRET = "0ther-w0rd"

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


@pytest.mark.parametrize("fails", [True, False])
def test_batch_that_a_failover_loses_is_an_error_and_its_messages_are_not_lost(sentinels, fails):
    env = GroupEnv(sentinels, f"spark{next(_numbers)}", sentinels.raw())
    env.rsmq.create_queue("q")
    sent = env.rsmq.send_messages("q", ["a"])
    query = env.query(limit=None, failOnDataLoss=str(fails).lower())
    query.run()
    sent += env.rsmq.send_messages("q", ["b"])
    old = sentinels.primary
    wait_until_in_step(old, lambda: sentinels.replicas)
    # Sentinels make an old primary that still runs a replica only after some seconds.
    old.ask("ACL", "SETUSER", "default", "-replicaof", "-slaveof")
    sentinels.failover()
    query.poll()  # by a connection to the old primary
    old.ask("ACL", "SETUSER", "default", "+@all")
    sentinels.heal()
    query.crash()
    query.start()
    if fails:
        with pytest.raises(BatchLost, match=r"Batch 2 of stream .* failover"):
            query.finish()
    else:
        assert query.finish() == []
        query.run_until_empty()
        assert query.ids() == sent
    env.close()


def test_stream_of_several_namespaces_survives_the_end_of_a_primary(cluster):
    names = [f"{{several{next(_numbers)}}}" for _ in range(NAMESPACES)]
    assert len({cluster.node_of(name) for name in names}) > 1
    env = GroupEnv(cluster, names[0], cluster.raw)
    clients = [RSMQ.from_url(cluster.url, ns=name) for name in names]
    sent = []
    for name, client in zip(names, clients, strict=True):
        client.create_queue("q")
        sent += [(name, id) for id in client.send_messages("q", ["m"] * 20)]
    query = env.query(limit=ReadMaxRows(40), ns=",".join(names), retryDeadline=60)
    query.run()
    query.poll()  # in flight and logged, and not read yet
    primary = cluster.node_of(names[0])
    replicas = cluster.replicas_of(primary)
    wait_until_in_step(primary, lambda: replicas)
    primary.kill()
    cluster.wait_until_promoted(replicas[0])
    query.finish()
    query.run_until_empty()
    rows = [row for number in query.sink for row in query.sink[number]]
    assert Counter((row["ns"], row["id"]) for row in rows) == Counter(sent)
    for client in clients:
        attributes = client.get_queue_attributes("q")
        assert (attributes.messages, attributes.total_received) == (0, 20)
        client.close()
    env.close()
    cluster.heal()


@pytest.fixture(scope="module")
def guarded():
    """A group whose servers and Sentinels have passwords."""
    group = SentinelGroup(redis_7(), password=SECRET, sentinel_password=OTHER_SECRET)
    group.start()
    yield group
    group.stop()


@pytest.mark.parametrize("place", ["Env", "File"])
def test_passwords_of_servers_and_sentinels_are_never_pickled(
    guarded, tmp_path, monkeypatch, place
):
    options = {"url": guarded.url.partition("?")[0].replace(f":{SECRET}@", "")}
    for option, secret in (("password", SECRET), ("sentinelPassword", OTHER_SECRET)):
        if place == "Env":
            monkeypatch.setenv(f"SPARK_{option}", secret)
            options[f"{option}Env"] = f"SPARK_{option}"
        else:
            (tmp_path / option).write_text(f"{secret}\n")
            options[f"{option}File"] = str(tmp_path / option)
    queues = RSMQ.from_url(guarded.url, ns=place)
    queues.create_queue("q")
    env = GroupEnv(guarded, place, guarded.raw())

    writer = env.write(columns(message="string"), **options)
    writer.commit(writer.task([{"message": "a"}]))
    source = env.source(queue="q", **options)
    reader = source.reader(source.schema())
    read = env.plan_read(queue="q", **options)

    assert [row["message"] for partition in read() for row in partition] == ["a"]
    for each in (source, reader):
        for secret in (SECRET, OTHER_SECRET):
            assert secret.encode() not in pickle.dumps(each)
            assert secret not in repr(vars(each))
    queues.close()
    env.close()


def test_wrong_password_of_sentinels_is_reported_and_not_shown(guarded, monkeypatch):
    env = GroupEnv(guarded, "wrong", guarded.raw())
    url = guarded.url.partition("?")[0].replace(f":{SECRET}@", "")
    monkeypatch.setenv("RIGHT", SECRET)
    monkeypatch.setenv("WRONG", "wrong-word")
    options = {"url": url, "queue": "q", "passwordEnv": "RIGHT", "retryDeadline": 0}
    with pytest.raises(AuthenticationError) as caught:
        env.plan_read(**options, sentinelPasswordEnv="WRONG")
    assert "wrong-word" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(InvalidOption, match="sentinelPasswordEnv: there is no environment var"):
        env.plan_read(**options, sentinelPasswordEnv="NOT_SET")
    with pytest.raises(InvalidOption, match=r"sentinelPasswordFile: .* can't be read"):
        env.plan_read(**options, sentinelPasswordFile="/none")
    for refused in (
        {"redis.sentinel_password": OTHER_SECRET},
        {"url": f"{url}?sentinel_password={OTHER_SECRET}"},
        {"sentinelPassword": OTHER_SECRET},
    ):
        with pytest.raises(InvalidOption, match="sentinelPasswordEnv") as caught:
            env.plan_read(**{**options, **refused})
        assert OTHER_SECRET not in "".join(traceback.format_exception(caught.value))
    env.close()


def test_namespace_of_a_cluster_needs_a_hash_tag(cluster):
    env = GroupEnv(cluster, "{tag}", cluster.raw)
    with pytest.raises(InvalidOption, match="hash tag"):
        env.read(queue="q", ns="plain")
    env.close()
