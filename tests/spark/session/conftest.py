"""One Spark session for all tests of this folder, and a namespace for each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.preloaded import Preloaded
from tests.scale import SOAK, WAIT_SECONDS

ROOT = Path(__file__).parents[3]

#: scripts/test kills at chosen points only.
collect_ignore = [] if SOAK else ["test_kills_at_random.py"]

#: The classes that Spark loads at its start, which ``class_archive.py`` writes. If it is missing, a
#: JVM starts without it, in twice the time.
ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"

#: Options of JVMs of short programs on few processors.
SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
JAVA_OPTIONS = f"{SHORT} -XX:SharedArchiveFile={ARCHIVE} -Xshare:auto"


def submit_arguments(java_options):
    """Return the arguments of spark-submit."""
    # On a busy machine Spark's Python starts slowly.
    return (
        f"--driver-java-options '{java_options}' "
        "--conf spark.python.authenticate.socketTimeout=120s pyspark-shell"
    )


#: The variable with the program that forks the processes of Python which Spark starts. Without it
#: they are new ones, as they are in the soak, and where a test kills them or has another PySpark.
FORKS = "RSMQ_TEST_FORKS"
#: What such processes import. Spark starts one for each kind of call, and for each stream.
_MODULES = (
    "pyspark.worker", "pyspark.sql.streaming.python_streaming_source_runner",
    *(f"pyspark.sql.worker.{name}" for name in (
        "commit_data_source_write", "create_data_source", "data_source_pushdown_filters",
        "lookup_data_sources", "plan_data_source_read", "python_streaming_sink_runner",
        "write_into_data_source",
    )),
    "rsmq.spark.source", "rsmq.spark.read.batch_read", "rsmq.spark.stream.reader",
    "rsmq.spark.write.sink",
)  # fmt: skip

#: The environment of every JVM of these tests.
ENVIRONMENT = {
    "PYSPARK_PYTHON": str(Path(__file__).with_name("python")),
    "PYTHONPATH": str(ROOT),
    "RSMQ_TEST_VENV": sys.prefix,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_SUBMIT_ARGS": submit_arguments(JAVA_OPTIONS),
}


@pytest.fixture(scope="session", autouse=True)
def forks(tmp_path_factory):
    if SOAK:
        yield
        return
    server = Preloaded(tmp_path_factory.mktemp("python"), *_MODULES)
    ENVIRONMENT[FORKS] = str(server.python)
    yield
    server.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    os.environ.update(ENVIRONMENT)
    builder = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.streaming.metricsEnabled", "false")
    )
    try:
        yield builder.getOrCreate()
    finally:
        end_jvm()


def end_jvm():
    """End Spark without a call: the JVM may have ended, not answer, or answer an earlier call."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if context is not None:
        context._accumulatorServer.shutdown()
    if gateway is not None:
        gateway.proc.stdin.close()  # as if this process had ended
        try:
            gateway.proc.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()
        gateway.shutdown_callback_server()
        gateway.close()


@pytest.fixture
def empty_server(server):
    """The server, without a key."""
    with server.raw() as raw:
        raw.flushall()
        yield server
        raw.flushall()


@pytest.fixture
def connection(server, ns):
    """The options of the connection."""
    return {"url": server.url, "ns": ns}


@pytest.fixture
def read(spark, connection):
    """Return a function that reads queues as a frame."""

    def read(queue, **options):
        return spark.read.format("rsmq").options(**connection, subscribe=queue, **options).load()

    return read


@pytest.fixture
def stream(spark, connection):
    """Return a function that reads queues as a stream."""

    def stream(queue, **options):
        return (
            spark.readStream.format("rsmq").options(**connection, subscribe=queue, **options).load()
        )

    return stream


@pytest.fixture
def finish(tmp_path):
    """Return a function that runs a stream until all due messages are done, with a checkpoint."""

    def finish(writer, name="checkpoint"):
        query = (
            writer.option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(600)
        return query

    return finish
