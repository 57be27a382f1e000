"""
A job of two queries that runs until it is stopped: queue to queue, and queue to Parquet.

If a query fails, the job starts it again, as a supervisor does with the whole job if it is killed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from pyspark.sql import SparkSession

from rsmq.spark import register

#: The queries. Each reads the queue of its name, and has its checkpoint in the folder of its name.
QUERIES = ("moved", "stored")
TARGET = "target"

#: Stop the job after so many failures of a query without a batch between: it can't recover.
_MAX_FAILURES = 20


def count_batches(folder, query):
    """Return the number of batches in the commit log of a query."""
    log = Path(folder) / query / "commits"
    files = log.iterdir() if log.exists() else ()
    numbers = [int(file.name) for file in files if file.name.isdigit()]
    return max(numbers, default=-1) + 1


class SteadyJob:
    """The two queries of one Spark application."""

    def __init__(self, args):
        self._folder = Path(args.folder)
        self._stop = self._folder / "stop"
        self._batch = args.batch
        self._connection = {"url": args.url, "ns": args.ns}
        self._spark = (
            SparkSession.builder.master(args.master)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.executor.cores", "1")
            .config("spark.executor.memory", "512m")
            .config("spark.executor.extraJavaOptions", args.java_options)
            # Kills of executors and of their Python must not end the application.
            .config("spark.deploy.maxExecutorRetries", "-1")
            .config("spark.task.maxFailures", "20")
            .config("spark.python.authenticate.socketTimeout", "120s")
            .getOrCreate()
        )
        register(self._spark)

    def _read(self, queue, **options):
        return (
            self._spark.readStream.format("rsmq")
            .options(
                **self._connection, queue=queue, maxMessagesPerTrigger=self._batch,
                visibilityTimeout=60, numPartitions=4, **options,
            )
            .load()
        )  # fmt: skip

    def _start(self, name):
        if name == "moved":
            frame = self._read(name, consumerGroup="movers").select("message")
            options = {**self._connection, "queue": TARGET, "delivery": "exactly-once"}
            writer = frame.writeStream.format("rsmq").options(**options, batchSize=200)
        else:
            frame = self._read(name).select("id", "message")
            writer = frame.writeStream.format("parquet")
            writer = writer.option("path", str(self._folder / "parquet"))
        return writer.option("checkpointLocation", str(self._folder / name)).start()

    def run(self):
        """Keep the queries running, from one thread: others have no session when a sink starts."""
        queries, failures, done = {}, 0, {}
        while not self._stop.exists():
            for name in QUERIES:
                query = queries.get(name)
                if query is not None and query.isActive:
                    continue
                if query is not None:
                    print(f"FAILED {name}: {query.exception()}", flush=True)
                    batches = count_batches(self._folder, name)
                    failures = failures + 1 if batches == done.get(name) else 0
                    done[name] = batches
                    assert failures < _MAX_FAILURES, f"{name} does not recover"
                try:
                    queries[name] = self._start(name)
                    print(f"STARTED {name}", flush=True)
                except Exception as error:  # noqa: BLE001 - Redis is away, or a process of Spark was killed
                    print(f"FAILED {name}: at the start: {error}", flush=True)
            time.sleep(0.2)
        for query in queries.values():
            query.stop()
        self._spark.stop()


def main():
    parser = argparse.ArgumentParser()
    for name in ("url", "ns", "master", "folder", "java-options"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--batch", type=int)
    SteadyJob(parser.parse_args()).run()


if __name__ == "__main__":
    main()
