"""
A job of two queries on messages with groups, which runs until it is stopped.

One moves them from queue to queue, with several of a group in a batch (``groups=together``), and
one from a queue to Parquet, with one of each group in a batch. A file ``fill-memory`` in its folder
lets its driver run out of memory.

If a query fails, the job starts it again, as a supervisor does with the whole job if it is killed.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from pyspark.sql import SparkSession

from rsmq.spark import register

#: The queries. Each reads the queue of its name, and has its checkpoint in the folder of its name.
QUERIES = ("moved", "stored")
TARGET = "target"

#: The file by which a run lets the driver run out of memory, and the line that says that it has.
FILL_MEMORY, OUT_OF_MEMORY = "fill-memory", "OUT OF MEMORY: "
#: The line of Spark that says that a task gets a second attempt.
SPECULATABLE = " as speculatable because "

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
            # A task that is suspended gets a second attempt, in the other executor.
            .config("spark.speculation", "true")
            .config("spark.speculation.quantile", "0.5")
            .config("spark.speculation.task.duration.threshold", "10s")  # the only task of a stage
            .getOrCreate()
        )
        log = self._spark._jvm.org.apache.logging.log4j
        scheduler = "org.apache.spark.scheduler.TaskSetManager"
        log.core.config.Configurator.setLevel(scheduler, log.Level.INFO)
        register(self._spark)

    def _read(self, queue, **options):
        return (
            self._spark.readStream.format("rsmq")
            .options(
                **self._connection, queue=queue, maxMessagesPerTrigger=self._batch,
                visibilityTimeout=60, numPartitions=4, columns="id,message,group", **options,
            )
            .load()
        )  # fmt: skip

    def _start(self, name):
        if name == "moved":
            read = self._read(name, consumerGroup="movers", groups="together")
            frame = read.select("message", "group")
            options = {**self._connection, "queue": TARGET, "delivery": "exactly-once"}
            writer = frame.writeStream.format("rsmq").options(**options, batchSize=200)
        else:
            frame = self._read(name).select("id", "message", "group")
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
            if (self._folder / FILL_MEMORY).exists():
                self._run_out_of_memory()
            time.sleep(0.2)
        for query in queries.values():
            query.stop()
        self._spark.stop()

    def _run_out_of_memory(self):
        """Fill the heap of the driver, let the queries meet that, and kill this job."""
        (self._folder / FILL_MEMORY).unlink()
        buffers, held = self._spark._jvm.java.nio.ByteBuffer, []
        for size in (2**24, 2**20):  # smaller ones take minutes of the garbage collector
            try:
                while True:
                    held.append(buffers.allocate(size))
            except Exception as error:  # noqa: BLE001 - of Java, or of a connection that ended so
                print(f"{OUT_OF_MEMORY}{error}"[:2000], flush=True)
        time.sleep(2)
        os.killpg(0, signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser()
    for name in ("url", "ns", "master", "folder", "java-options"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--batch", type=int)
    SteadyJob(parser.parse_args()).run()


if __name__ == "__main__":
    main()
