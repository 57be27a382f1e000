"""
Streams on PySpark 4.0 and 4.1, which call ``latestOffset`` without the offset of the last batch.

``test_stream_states.py`` kills such a query at random, too.
"""

from __future__ import annotations

import pytest

from rsmq import NotPossible
from rsmq.spark import BatchLost, CheckpointSetBack, InvalidOption, source
from rsmq.spark.stream import lease_holder
from tests.spark.conftest import OlderQuery


@pytest.fixture(autouse=True)
def older(monkeypatch):
    monkeypatch.setattr(source, "HAS_START", False)
    monkeypatch.setattr(lease_holder, "HOLDER_TIMEOUT_SECONDS", 0.01)


@pytest.fixture
def query(env, queue):
    """A query that has done a batch of two messages, and has a third in its queue."""
    env.rsmq.send_messages(queue, ["a", "b"])
    query = env.query(kind=OlderQuery, consumerGroup="g", maxMessagesPerTrigger=2)
    assert len(query.run()) == 2
    env.rsmq.send_message(queue, "c")
    return query


def in_flight(env):
    """Return the batches in flight, as Redis has them."""
    return [field for field in env.raw.hkeys(env.keys().leases) if field.count(b":") == 1]


def test_a_done_batch_is_acknowledged_with_the_next_request(env, query):
    assert in_flight(env) == [b"g:1"]
    assert [row["message"] for row in query.run()] == ["c"]
    assert in_flight(env) == [b"g:2"]
    assert query.run() is None
    assert in_flight(env) == []
    assert env.scores() == {}


def test_a_new_process_does_not_repeat_the_batch_that_is_done(env, query):
    query.restart()
    # Spark has logged the offset of batch 1, so this is no new one.
    assert query.run() is None
    assert [row["message"] for row in query.run()] == ["c"]
    assert in_flight(env) == [b"g:2"]


def test_a_new_process_repeats_the_batch_that_is_not_done(env, query):
    query.poll()
    query.done -= 1
    assert [row["message"] for row in query.restart()] == ["c"]
    assert query.run() is None
    assert env.scores() == {}


def test_a_new_process_offers_the_batch_that_was_not_logged(env, query):
    assert query.request_offset()["batch"] == 2
    query.restart()
    assert [row["message"] for row in query.run()] == ["c"]
    assert query.run() is None
    assert [row["message"] for row in query.sink[2]] == ["c"]


def test_a_checkpoint_that_is_set_back_is_refused(env, query):
    query.run()
    query.run()  # acknowledges batch 2
    del query.offsets[1:]
    query.done = 1
    query.restart()
    env.rsmq.send_message("q", "d")
    with pytest.raises(CheckpointSetBack, match=r"asks for batch 2, but batch 2 was acknowledged"):
        query.run_until_empty()


def test_a_redis_that_has_lost_its_data_is_reported(env, query):
    query.run()
    env.raw.flushall()
    env.rsmq.create_queue("q")
    env.rsmq.send_message("q", "d")
    query.restart()
    with pytest.raises(BatchLost, match="Redis has lost data") as error:
        query.run()
    assert error.value.hint == "Start with a new checkpointLocation."


def test_a_checkpoint_of_another_group_is_refused(env, query):
    other = env.query(kind=OlderQuery, consumerGroup="h")
    other.offsets, other.done = query.offsets, query.done
    with pytest.raises(InvalidOption, match="the checkpoint is of the lease 'g': pass this name"):
        other.run()


def test_a_stream_without_a_consumer_group_is_refused(env, queue):
    with pytest.raises(NotPossible, match=r"without a consumerGroup needs PySpark 4\.2") as error:
        env.query(kind=OlderQuery)
    assert "Pass the option consumerGroup" in error.value.hint


def test_a_stream_into_a_queue_is_refused_before_4_1(env, queue, monkeypatch):
    monkeypatch.setattr(source, "HAS_STREAM_SINK", False)
    with pytest.raises(NotPossible, match=r"A stream into rsmq needs PySpark 4\.1") as error:
        env.source(queue="q").streamWriter(schema=None, overwrite=False)
    assert "foreachBatch" in error.value.hint


def test_filters_are_refused_before_4_1(env, queue, monkeypatch):
    monkeypatch.setattr(source, "HAS_FILTERS", False)
    with pytest.raises(NotPossible, match=r"The option pushdown needs PySpark 4\.1"):
        env.plan_read(queue="q", pushdown=True)
