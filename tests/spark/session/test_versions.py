"""PySpark 4.0 and 4.1: ``scripts/test --spark 4.0`` and ``--spark 4.1`` run these tests."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.errors import PySparkException

from rsmq import NotPossible
from rsmq.spark import pipelines
from rsmq.spark.versions import HAS_FILTERS, HAS_START, HAS_STREAM_SINK
from tests.spark.session.test_streams import wait_until

pytestmark = pytest.mark.skipif(HAS_START, reason="is for PySpark 4.0 and 4.1")


@pytest.fixture
def text_stream(spark, tmp_path):
    """A stream of 300 messages from a file, which no source in Python reads."""
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "1.txt").write_text("".join(f"m{n}\n" for n in range(300)))
    return spark.readStream.format("text").load(str(folder)).selectExpr("value AS message")


def test_a_stream_is_sent_by_the_sink_or_in_foreach_batch(
    rsmq, raw, ns, connection, text_stream, finish
):
    rsmq.create_queue("q")
    options = {**connection, "queue": "q", "delivery": "exactly-once"}

    def send(frame, batch):
        frame.write.format("rsmq").options(**options, writeId=f"texts-{batch}").mode(
            "append"
        ).save()

    if not HAS_STREAM_SINK:
        with pytest.raises(PySparkException) as error:
            finish(text_stream.writeStream.format("rsmq").options(**options), "refused")
        assert "A stream into rsmq needs PySpark 4.1 or later, and this is" in str(error.value)
        assert "in foreachBatch, with delivery=exactly-once and a writeId" in str(error.value)
    finish(
        text_stream.writeStream.format("rsmq").options(**options)
        if HAS_STREAM_SINK
        else text_stream.writeStream.foreachBatch(send)
    )
    # A batch that Spark repeats is not sent again.
    send(text_stream.sparkSession.createDataFrame([("m0",)], "message STRING"), 0)
    expected = Counter(b"m%d" % n for n in range(300))
    found = Counter(raw.hmget(f"{ns}:q:Q", raw.zrange(f"{ns}:q", 0, -1)))
    assert found == expected + (Counter([b"m0"]) if HAS_STREAM_SINK else Counter())


def test_a_stream_of_a_consumer_group_continues_where_it_stopped(rsmq, raw, ns, stream, tmp_path):
    rsmq.create_queue("q")
    batches = {}

    def in_flight():
        """Return the batches in flight; the query itself has another field while it lives."""
        return [field for field in raw.hkeys(f"{ns}:q:x:leases") if b":" in field]

    def keep(rows, batch):
        batches[batch] = [row["message"] for row in rows.collect()]

    for begin in (0, 900, 1800):
        rsmq.send_messages("q", [f"m{n}" for n in range(begin, begin + 900)])
        frame = stream("q", consumerGroup="g", maxMessagesPerTrigger=400)
        writer = frame.writeStream.foreachBatch(keep)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            wait_until(lambda: not raw.zcard(f"{ns}:q") and not in_flight(), query)
        finally:
            query.stop()

    assert Counter(message for rows in batches.values() for message in rows) == Counter(
        f"m{n}" for n in range(2700)
    )
    assert max(map(len, batches.values())) == 400


def test_what_an_older_version_cannot_do_has_a_remedy(spark, rsmq, stream, read, finish, tmp_path):
    rsmq.create_queue("q")
    with pytest.raises(PySparkException) as error:
        finish(stream("q").writeStream.format("noop"))
    assert "A stream from rsmq without a consumerGroup needs PySpark 4.2" in str(error.value)
    assert "Pass the option consumerGroup" in str(error.value)

    queues = pipelines.Queues("redis://127.0.0.1:1/0")
    with pytest.raises(NotPossible, match=r"A job that receives messages needs PySpark 4\.2"):
        pipelines.archive(spark, queues, "q", str(tmp_path / "archive"))
    if not HAS_FILTERS:
        with pytest.raises(PySparkException, match=r"The option pushdown needs PySpark 4\.1"):
            read("q", pushdown=True).count()
