"""
Writes the classes that Spark loads in short programs to an archive of the JVM.

With the archive, a JVM of these tests starts in about half the time: see ``ENVIRONMENT``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

import pyspark
from pyspark.sql import SparkSession

from rsmq import RSMQ
from tests.servers import Server, redis_7
from tests.spark.session.conftest import ARCHIVE, ENVIRONMENT, ROOT, SHORT, submit_arguments

_PROGRAM = "--run"


def _run(url):
    """Load what jobs load: a frame, Parquet, and a stream of a data source in Python."""
    queues = RSMQ.from_url(url, ns="archive")
    queues.create_queue("q", maxsize=-1)
    queues.send_messages("q", ["body"] * 10)
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    folder = tempfile.mkdtemp()
    options = {"url": url, "ns": "archive", "subscribe": "q"}
    frame = spark.read.format("rsmq").options(**options).load()
    frame.groupBy("queue").count().orderBy("queue").collect()
    frame.write.parquet(f"{folder}/batch")
    spark.read.parquet(f"{folder}/batch").count()
    stream = spark.readStream.format("rsmq").options(**options).load()
    query = (
        stream.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/stream", format="parquet")
    )
    query.awaitTermination()
    spark.stop()
    shutil.rmtree(folder)


def main():
    """Write the archive, unless there is one of the same Java and the same Spark."""
    java = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    made_for = f"{pyspark.__version__}\n".encode() + java
    stamp = ARCHIVE.with_suffix(".made-for")
    if ARCHIVE.exists() and stamp.exists() and stamp.read_bytes() == made_for:
        return
    ARCHIVE.unlink(missing_ok=True)
    server = Server(redis_7())
    try:
        arguments = submit_arguments(f"{SHORT} -XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:cds=off")
        # The JVM writes the archive after the program has ended, and holds the pipe until then.
        output = subprocess.run(
            [sys.executable, "-m", "tests.spark.session.class_archive", _PROGRAM, server.url],
            env={**os.environ, **ENVIRONMENT, "PYSPARK_SUBMIT_ARGS": arguments},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            cwd=ROOT,
        ).stdout
        assert ARCHIVE.exists(), output.decode()
    finally:
        server.stop()
    stamp.write_bytes(made_for)


if __name__ == "__main__":
    _run(sys.argv[2]) if sys.argv[1:2] == [_PROGRAM] else main()
