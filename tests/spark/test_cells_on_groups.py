"""Streams and writes of a set of cells on a Redis Cluster and behind Sentinels, with a kill."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from types import SimpleNamespace

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from rsmq import Cells
from rsmq.wire.cells import name_of_cell
from tests.nodes import wait_until_in_step
from tests.spark.conftest import Env, columns

CELLS = 6

_numbers = itertools.count()


class GroupEnv(Env):
    """A set of cells on a group of servers."""

    def __init__(self, url):
        self.redis = SimpleNamespace(url=url)
        self.ns = f"g{next(_numbers)}-{os.getpid()}"
        self.rsmq = Cells.from_url(url, cells=CELLS, ns=self.ns)
        self._closers = []

    def options(self, **options):
        return super().options(cells=CELLS, retryDeadline=60, **options)

    def send(self, number):
        return [self.rsmq.send_message("q", f"m{each}", key=f"k{each}") for each in range(number)]

    def bodies(self):
        return [message.body for message in self.rsmq.peek_messages("q", 0, 1000)]

    def close(self):
        for close in self._closers:
            close()
        for name in self.rsmq.list_queues():
            self.rsmq.delete_queue(name)
        self.disconnect()
        self.rsmq.close()


@pytest.fixture(params=["cluster", "sentinels"])
def group(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def env(group):
    env = GroupEnv(group.url)
    env.rsmq.create_queue("q")
    yield env
    group.heal()
    env.close()


def kill_primary(group, env):
    """Kill the primary of cell 0 when its replica has all its data, and wait for the next one."""
    if hasattr(group, "node_of"):
        primary = group.node_of(name_of_cell(env.ns, 0))
        replicas = group.replicas_of(primary)
    else:
        primary, replicas = group.primary, group.replicas
    wait_until_in_step(primary, lambda: replicas)
    primary.kill()
    group.wait_until_promoted(replicas[0] if hasattr(group, "node_of") else primary)


def test_stream_survives_the_end_of_a_primary(env, group):
    sent = env.send(120)
    query = env.query(limit=ReadMaxRows(40))
    query.run()
    query.poll()  # in flight and logged, and not read yet
    kill_primary(group, env)
    query.finish()
    query.run_until_empty()
    assert Counter(query.ids()) == Counter(sent)
    assert env.rsmq.get_queue_attributes("q").messages == 0


def test_write_survives_the_end_of_a_primary(env, group):
    write = env.write(columns(message="string"), delivery="exactly-once", writeId="w", batchSize=5)
    rows = [{"message": f"m{each}"} for each in range(60)]
    messages = [write.task(rows[:30]), write.task(rows[30:])]
    kill_primary(group, env)
    for _ in range(2):
        write.commit(*messages)
    assert sorted(env.bodies()) == sorted(row["message"] for row in rows)
    read = env.read(queue="q", columns="message")
    assert sorted(row["message"] for row in read) == sorted(env.bodies())
