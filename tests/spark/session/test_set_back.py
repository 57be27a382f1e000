"""
A checkpoint that was set back, as by a backup or by hand: Spark repeats batches that were done.

Sinks skip the batch numbers that they have, so new messages under such a number would be lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rsmq.spark import pipelines


def set_back(checkpoint, batches=1):
    """Delete the last batches of a checkpoint from Spark's logs."""
    for log in ("offsets", "commits"):
        numbers = sorted(int(path.name) for path in (checkpoint / log).glob("[0-9]*"))
        for number in numbers[-batches:]:
            (checkpoint / log / str(number)).unlink()
            (checkpoint / log / f".{number}.crc").unlink(missing_ok=True)


@pytest.fixture
def run(spark, stream, connection, finish, rsmq, server, ns, tmp_path):
    """Return a function that runs a kind of query on queue q until due messages are done."""

    def run(kind, name="checkpoint", **options):
        frame = stream("q", maxMessagesPerTrigger=10, **options).select("message")
        queues, checkpoint = pipelines.Queues(server.url, ns), str(tmp_path / name)
        if kind == "foreach":
            finish(frame.writeStream.foreachBatch(lambda rows, _: rows.collect()), name)
        elif kind == "archive":
            path = str(tmp_path / "archive")
            pipelines.archive(spark, queues, "q", path, checkpoint=checkpoint, batch=10)
        elif kind == "redrive":
            pipelines.redrive(
                spark, queues, "q", "'target'", "target", checkpoint=checkpoint, batch=10
            )
        elif kind == "parquet":
            out = str(tmp_path / f"out-{name}")
            finish(frame.writeStream.format("parquet").option("path", out), name)
        elif kind == "transform":
            pipelines.transform(
                spark, queues, "q", queues, "target", lambda rows: rows,
                checkpoint=checkpoint, batch=10,
            )  # fmt: skip
        else:
            target = {**connection, "queue": "target", "delivery": kind}
            finish(frame.writeStream.format("rsmq").options(**target), name)

    return run


SET_BACK = r"The checkpoint of stream .* was set back, and is older than its queue"

#: The archive compares the folder with the checkpoint before the query starts.
ERRORS = {"archive": "which .*checkpoint does not have"}


@pytest.mark.parametrize(
    ("kind", "purged"),
    [
        ("parquet", False),
        ("parquet", True),
        ("at-least-once", False),
        ("exactly-once", False),
        ("transform", False),
        ("redrive", False),
        ("archive", False),
        ("foreach", False),
    ],
)
def test_no_new_messages_are_received_under_the_number_of_a_done_batch(
    rsmq, raw, ns, run, tmp_path, kind, purged
):
    rsmq.create_queue("q")
    rsmq.create_queue("target")
    rsmq.send_messages("q", [f"old {n}" for n in range(15)])
    run(kind)
    if purged:  # also removes x:leases
        rsmq.purge_queue("q")
    set_back(tmp_path / "checkpoint")
    new = rsmq.send_messages("q", [f"new {n}" for n in range(100)])

    with pytest.raises(Exception, match=ERRORS.get(kind, SET_BACK)):
        run(kind)
    assert raw.zrange(f"{ns}:q", 0, -1) == [id.encode() for id in new]
    assert {message.receive_count for message in rsmq.peek_messages("q", count=100)} == {0}


def test_new_checkpoint_of_a_named_lease_starts_after_the_last_done_batch(
    spark, rsmq, raw, ns, run, tmp_path
):
    rsmq.create_queue("q")
    rsmq.send_messages("q", [f"old {n}" for n in range(25)])
    run("parquet", consumerGroup="nightly")
    set_back(tmp_path / "checkpoint", batches=2)
    rsmq.send_messages("q", [f"new {n}" for n in range(15)])
    with pytest.raises(Exception, match=r"stream nightly was set back.* batch 2, but batch 3"):
        run("parquet", consumerGroup="nightly")

    run("parquet", "another", consumerGroup="nightly")
    rows = spark.read.parquet(str(tmp_path / "out-another")).collect()
    assert sorted(row["message"] for row in rows) == sorted(f"new {n}" for n in range(15))
    offset = (Path(tmp_path) / "another" / "offsets" / "0").read_text().splitlines()[-1]
    assert '"batch":4' in offset.replace(" ", "")
    assert rsmq.get_queue_attributes("q").messages == 0


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_sink_refuses_a_batch_older_than_the_last(
    spark, rsmq, connection, finish, tmp_path, delivery
):
    """The source is not RSMQ, so it does not detect that the checkpoint was set back."""
    rsmq.create_queue("target")
    folder = tmp_path / "lines"
    folder.mkdir()

    def run():
        frame = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder))
        frame = frame.selectExpr("value AS message")
        finish(
            frame.writeStream.format("rsmq").options(
                **connection, queue="target", delivery=delivery
            )
        )

    for number in range(4):
        (folder / f"{number}.txt").write_text(f"{number}\n")
    run()
    assert rsmq.get_queue_attributes("target").messages == 4
    set_back(tmp_path / "checkpoint", batches=2)
    (folder / "4.txt").write_text("4\n")
    with pytest.raises(Exception, match=r"The checkpoint of query .* was set back"):
        run()
    assert rsmq.get_queue_attributes("target").messages == 4
