"""A job that tests kill: moves due messages of a queue to Parquet or to another queue."""

from __future__ import annotations

import argparse
import os

from pyspark.sql import SparkSession

from rsmq import RSMQ
from rsmq.spark import AcknowledgeListener
from rsmq.spark.versions import HAS_START, HAS_STREAM_SINK
from tests.spark.session.fatal import GROUP, FatalDataSource


def run_until_empty(spark, writer, connection, source):
    """Run a query until the queue is empty; before PySpark 4.2 it can't end itself."""
    if HAS_START:
        writer.trigger(availableNow=True).start().awaitTermination()
        return
    spark.streams.addListener(AcknowledgeListener(**connection))
    query = writer.start()
    with RSMQ.from_url(connection["url"], ns=connection["ns"]) as queues:
        while queues.get_queue_attributes(source).messages:
            query.awaitTermination(0.2)
    query.stop()


def main():
    parser = argparse.ArgumentParser()
    for name in ("url", "ns", "source", "checkpoint"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--parquet")
    parser.add_argument("--queue")
    parser.add_argument("--batch", default="2000")
    parser.add_argument("--reads")
    args = parser.parse_args()
    os.environ[GROUP] = str(os.getpgrp())
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.dataSource.register(FatalDataSource)
    connection = {"url": args.url, "ns": args.ns}
    group = {} if HAS_START else {"consumerGroup": "job"}
    frame = (
        spark.readStream.format("fatal")
        .options(**{**connection, "ns": args.reads or args.ns}, queue=args.source)
        .options(maxMessagesPerTrigger=args.batch, visibilityTimeout=20, **group)
        .load()
    )  # fmt: skip
    if args.parquet:
        writer = frame.writeStream.format("parquet").option("path", args.parquet)
    elif not HAS_STREAM_SINK:

        def send(rows, batch):
            rows.select("message").write.format("rsmq").options(
                **connection, queue=args.queue, delivery="exactly-once", writeId=f"job-{batch}",
            ).mode("append").save()  # fmt: skip

        writer = frame.writeStream.foreachBatch(send)
    else:
        writer = (
            frame.select("message")
            .writeStream.format("fatal")
            .options(**connection, queue=args.queue, delivery="exactly-once", batchSize=500)
        )
    writer = writer.option("checkpointLocation", args.checkpoint)
    run_until_empty(spark, writer, connection, args.source)
    spark.stop()


if __name__ == "__main__":
    main()
