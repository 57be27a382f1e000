"""A job that tests kill: moves due messages of a queue to Parquet or to another queue."""

from __future__ import annotations

import argparse
import os

from pyspark.sql import SparkSession

from tests.spark.session.fatal import GROUP, FatalDataSource


def main():
    parser = argparse.ArgumentParser()
    for name in ("url", "ns", "source", "checkpoint"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--parquet")
    parser.add_argument("--queue")
    parser.add_argument("--batch", default="2000")
    parser.add_argument("--cells")
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
    if args.cells:
        connection["cells"] = args.cells
    frame = (
        spark.readStream.format("fatal")
        .options(
            **connection, queue=args.source, maxMessagesPerTrigger=args.batch, visibilityTimeout=20
        )
        .load()
    )
    if args.parquet:
        writer = frame.writeStream.format("parquet").option("path", args.parquet)
    else:
        writer = (
            frame.select("message")
            .writeStream.format("fatal")
            .options(**connection, queue=args.queue, delivery="exactly-once", batchSize=500)
        )
    query = writer.option("checkpointLocation", args.checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
