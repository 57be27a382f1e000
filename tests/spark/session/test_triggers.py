"""The limits of a stream that begin and end a micro-batch, in Spark's own progress."""

from __future__ import annotations

import pytest

from tests.spark.session.test_streams import progress_of, wait_until


def list_batch_sizes(query):
    """Return the number of rows of each micro-batch, from the progress of the query."""
    sizes = {each["batchId"]: each["numInputRows"] for each in progress_of(query)}
    return [sizes[number] for number in sorted(sizes) if sizes[number]]


def test_bytes_of_bodies_limit_a_batch(rsmq, raw, ns, stream, finish):
    rsmq.create_queue("q")
    rsmq.create_queue("r")
    rsmq.send_messages("q", ["x" * 1000] * 25)
    rsmq.send_message("r", "x" * 50_000)  # larger than the limit: received alone
    rsmq.send_messages("r", ["x" * 1000] * 3)

    query = finish(stream("q", maxBytesPerTrigger=10_000).writeStream.format("noop"), "q")
    assert list_batch_sizes(query) == [10, 10, 5]
    query = finish(stream("r", maxBytesPerTrigger=10_000).writeStream.format("noop"), "r")
    assert list_batch_sizes(query) == [1, 3]
    assert (raw.zcard(f"{ns}:q"), raw.zcard(f"{ns}:r")) == (0, 0)


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a stream without an end; the queries are stopped afterwards."""
    queries = []

    def start(frame):
        checkpoint = str(tmp_path / str(len(queries)))
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        queries.append(writer.start())
        return queries[-1]

    yield start
    for query in queries:
        query.stop()


def test_a_batch_waits_for_enough_messages(rsmq, raw, ns, stream, start):
    rsmq.create_queue("q")
    rsmq.send_message("q", "first")
    query = start(stream("q", minMessagesPerTrigger=10))
    wait_until(lambda: list_batch_sizes(query) == [1], query)  # the first batch does not wait

    few = rsmq.send_messages("q", ["x"] * 5)
    query.processAllAvailable()  # returns when Spark has asked for messages, and got none
    assert raw.hmget(f"{ns}:q:Q", [f"{id}:rc" for id in few]) == [None] * 5
    rsmq.send_messages("q", ["x"] * 5)
    wait_until(lambda: len(list_batch_sizes(query)) > 1, query)
    assert list_batch_sizes(query) == [1, 10]


def test_a_batch_waits_no_longer_than_the_delay(rsmq, raw, ns, stream, start):
    rsmq.create_queue("q")
    rsmq.send_message("q", "first")
    query = start(stream("q", minMessagesPerTrigger=1000, maxTriggerDelay=1))
    wait_until(lambda: list_batch_sizes(query) == [1], query)
    rsmq.send_messages("q", ["x"] * 5)
    wait_until(lambda: sum(list_batch_sizes(query)) == 6, query)
    wait_until(lambda: raw.zcard(f"{ns}:q") == 0, query)
