"""
Streams on PySpark 4.0 and 4.1, which call ``latestOffset`` without the offset of the last batch.

``test_stream_states.py`` kills such a query at random, too.
"""

from __future__ import annotations

import pytest

from rsmq import NotPossible, QueueNotFound
from rsmq.errors import NewerVersion
from rsmq.spark import BatchLost, CheckpointSetBack, InvalidOption, source
from rsmq.spark.connection_options import parse_connection_options
from rsmq.spark.stream import ownership
from rsmq.spark.stream.acknowledgement import acknowledge_offset
from tests.spark.conftest import OlderQuery


@pytest.fixture(autouse=True)
def older(monkeypatch):
    monkeypatch.setattr(source, "HAS_START", False)
    # A fifteenth of it must be longer than the millisecond to which Redis rounds times.
    monkeypatch.setattr(ownership, "HOLDER_TIMEOUT_SECONDS", 0.03)


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
    return sorted(field for field in env.raw.hkeys(env.keys().leases) if field.count(b":") == 1)


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


@pytest.mark.parametrize("by_listener", [False, True])
def test_a_new_process_offers_the_offset_of_the_batch_that_was_acknowledged(
    env, query, by_listener
):
    """Another offset of it would be a batch of Spark without a number, which can't be missed."""
    assert len(query.run()) == 1
    if by_listener:
        acknowledge_offset(parse_connection_options(env.options()), query.offsets[-1])
    else:
        assert query.run() is None
    assert in_flight(env) == []
    query.restart()
    assert query.run() is None
    assert [offset["batch"] for offset in query.offsets] == [1, 2]
    env.rsmq.send_message("q", "d")
    assert [row["message"] for row in query.run()] == ["d"]
    assert sorted(query.sink) == [1, 2, 3]


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
    with pytest.raises(InvalidOption, match="the checkpoint is of the stream 'g': pass this name"):
        other.run()


def test_a_checkpoint_of_a_newer_version_is_refused(query):
    query.poll()
    query.offsets[0] = {"version": 9}
    with pytest.raises(NewerVersion, match="The checkpoint"):
        query.plan()


def test_a_new_checkpoint_starts_with_the_batch_in_flight(env, query):
    query.crash()
    successor = env.query(kind=OlderQuery, consumerGroup="g")
    assert [row["message"] for row in successor.run()] == ["a", "b"]
    assert [row["message"] for row in successor.run()] == ["c"]
    assert successor.run() is None
    assert env.scores() == {}


@pytest.fixture
def two_in_flight(env, query):
    """A query that has crashed with a batch that is done, and another one received ahead."""
    query.run()
    env.rsmq.send_messages("q", list("defg"))
    query.run()  # receives batch 4 in a thread
    assert in_flight(env) == [b"g:3", b"g:4"]
    query.crash()
    return query


def test_a_new_checkpoint_with_two_batches_in_flight_is_refused(env, two_in_flight):
    for _ in range(2):
        successor = env.query(kind=OlderQuery, consumerGroup="g", maxMessagesPerTrigger=2)
        with pytest.raises(NotPossible, match="lacks batch 3, which is in flight") as error:
            successor.run()
        successor.crash()
    assert error.value.value == 3
    assert in_flight(env) == [b"g:3", b"g:4"]

    # The first way of the hint.
    two_in_flight.restart()
    two_in_flight.run_until_empty()
    assert [row["message"] for row in two_in_flight.sink[4]] == ["f", "g"]
    assert env.scores() == {}


def test_another_group_receives_batches_in_flight_after_their_timeout(env, two_in_flight):
    other = env.query(kind=OlderQuery, consumerGroup="h")
    assert other.run() == []
    env.elapse(1000)
    assert [row["message"] for row in other.run()] == ["d", "e", "f", "g"]
    assert other.run() is None
    assert env.scores() == {}


@pytest.mark.parametrize("fail_on_data_loss", [False, True])
def test_a_missing_queue_is_refused_at_the_first_start(env, queue, fail_on_data_loss):
    query = env.query(
        kind=OlderQuery,
        consumerGroup="g",
        queue="",
        subscribe="q,missing",
        failOnDataLoss=fail_on_data_loss,
    )
    with pytest.raises(QueueNotFound, match="missing"):
        query.run()


def test_a_queue_that_is_deleted_later_is_not_refused(env, query):
    query = env.query(kind=OlderQuery, consumerGroup="h", failOnDataLoss=False)
    query.run()
    query.run()
    env.rsmq.delete_queue("q")
    query.restart()
    assert not query.run()


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
