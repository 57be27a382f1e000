"""The command ``rsmq-pipeline`` around a job: checks before Spark starts, errors, and signals."""

from __future__ import annotations

import os
import signal
import socket
import sys

import pytest

from rsmq.cli import run_pipeline
from rsmq.cli.commands import pipeline_errors
from rsmq.cli.commands.pipeline_errors import describe_job_error, extract_cause
from rsmq.spark import InvalidOption, pipelines
from rsmq.spark.pipelines import streams
from rsmq.spark.pipelines.queues import refuse_loop

UDF = """\
[STREAM_FAILED] Query [id = bc08, runId = dc69] terminated with exception: [PYTHON_EXCEPTION] An \
exception was thrown from the Python worker: Traceback (most recent call last):
  File "/app/cleaning.py", line 8, in clean
    raise RuntimeError("bad row")
RuntimeError: bad row
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = bc08, runId = dc69]
"""
NOT_PARQUET = """\
An error occurred while calling o97.parquet.
: org.apache.spark.SparkException: [FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFooterForFileError(x.scala:1109)
Caused by: java.lang.RuntimeException: file:/x.parquet is not a Parquet file. Expected magic number
\tat org.apache.parquet.hadoop.ParquetFileReader.readFooter(ParquetFileReader.java:779)
"""
NO_MASTER = """\
An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'spork://x'
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:603)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (UDF, "RuntimeError: bad row"),
        (NOT_PARQUET, "file:/x.parquet is not a Parquet file. Expected magic number"),
        (NO_MASTER, "Could not parse Master URL: 'spork://x'"),
        ("[NO] Path does not exist: x. SQLSTATE: 42K03", "[NO] Path does not exist: x."),
        ("py4j\n  at x\nrsmq.errors.QueueNotFound: Queue gone\nSQLSTATE: 1", "Queue gone"),
        ("", ""),
    ],
)  # fmt: skip
def test_cause_of_an_error_of_spark_is_one_line(text, cause):
    assert extract_cause(text) == cause


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (UDF, 1),
        ("\n[PARSE_SYNTAX_ERROR] Syntax error at or near ')'.", 2),
        ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column", 2),
        ("Traceback\nrsmq.errors.InvalidOption: Option x: is wrong.", 2),
        ("[PATH_NOT_FOUND] Path does not exist: x", 1),
    ],
)
def test_wrong_arguments_that_spark_finds_exit_with_2(text, status):
    assert describe_job_error(RuntimeError(text), is_verbose=False).exit == status


@pytest.fixture
def command(env, monkeypatch, tmp_path):
    """Return a function that runs a command on the queue ``q``, up to the start of Spark."""
    env.rsmq.create_queue("q")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("SPARK_ENV_LOADED", raising=False)
    monkeypatch.setattr(pipelines, "session", lambda *_: pytest.fail("Spark was started"))

    def run(*arguments):
        return run_pipeline([*arguments, "--url", env.redis.url, "--ns", env.ns])

    return run


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["replay", "gone.parquet", "--queue", "q"], 1, "gone.parquet: there is no such file"),
        (["report", "--master", "spork://x"], 2, "is the URL of a Spark master"),
        (["report", "--master", "local[two]"], 2, "is the URL of a Spark master"),
        (["drain", "gone", "--path", "p"], 3, "Queue not found: 'gone'"),
        (["drain", "q,,r", "--path", "p"], 2, "No qname supplied"),
        (["transform", "q", "broken:f", "--checkpoint", "c"], 2, "ZeroDivisionError"),
        (["transform", "q", "shop:clean", "--to", "q", "--checkpoint", "c"], 2, "read by this job"),
        (["redrive", "q", "--to", "'r'", "--otherwise", "q", "--checkpoint", "c"], 2, "read by"),
    ],
)
def test_wrong_arguments_are_one_line_before_spark_starts(
    command, tmp_path, capfd, monkeypatch, arguments, status, text
):
    (tmp_path / "shop.py").write_text("def clean(frame):\n    return frame\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    assert command(*arguments) == status
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("rsmq-pipeline: ")
    assert text in line


def test_master_that_does_not_answer_is_reported_before_spark_starts(command, capfd):
    address = f"127.0.0.1:{closed_port()}"
    assert command("report", "--master", f"spark://{address},{address}") == 2
    assert f"no Spark master answers ({address}: Connection refused" in capfd.readouterr().err


def test_master_that_answers_is_used(command, monkeypatch):
    masters = []

    def session(name, master):
        masters.append(master)
        raise KeyboardInterrupt

    monkeypatch.setattr(pipelines, "session", session)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"spark://127.0.0.1:{closed_port()},127.0.0.1:{server.getsockname()[1]}"
        for master in (url, "local", "local[2]", "local[*, 4]", "yarn", "k8s://https://h:443"):
            command("report", "--master", master)
    assert masters == [url, "local", "local[2]", "local[*, 4]", "yarn", "k8s://https://h:443"]


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_a_batch_has_a_message(command, capfd, text):
    assert command("drain", "q", "--path", "p", "--batch", text) == 2
    assert "Invalid value for '--batch'" in capfd.readouterr().err


class FakeSession:
    def stop(self):
        raise OSError("Spark has ended before")


@pytest.fixture
def started(command, monkeypatch):
    """As ``command``, with a Spark that does nothing."""
    monkeypatch.setattr(pipelines, "session", lambda *_: FakeSession())
    return command


def test_failing_function_is_one_line(started, tmp_path, capfd, monkeypatch):
    (tmp_path / "shops.py").write_text("def clean(frame):\n    raise ValueError('no shop')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(
        pipelines, "transform", lambda spark, *arguments, **_: arguments[4]("a frame")
    )
    arguments = ["transform", "q", "shops:clean", "--checkpoint", "c"]
    assert started(*arguments) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line == (
        "rsmq-pipeline: shops:clean failed: ValueError: no shop. --verbose shows all that Spark "
        "writes."
    )
    assert started(*arguments, "--verbose") == 1
    assert "shops.py" in capfd.readouterr().err


def test_ctrl_c_is_one_line_and_exits_with_130(started, capfd, monkeypatch):
    def drain(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipelines, "drain", drain)
    assert started("drain", "q", "--path", "p") == 130
    assert capfd.readouterr().err == "rsmq-pipeline: interrupted\n"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_job_that_follows_ends_by_a_signal_with_its_result(
    started, capfd, monkeypatch, number, status
):
    def archive(*_, **__):
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        except KeyboardInterrupt:
            return pipelines.Archived(3, 0, "p")

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(pipelines, "archive", archive)
    assert started("archive", "q", "p", "--follow") == status
    captured = capfd.readouterr()
    assert "messages: 3" in captured.out
    assert captured.err == ""
    assert signal.getsignal(signal.SIGTERM) == before


def test_output_of_spark_is_hidden_unless_it_is_verbose(capfd):
    for is_verbose in (False, True):
        with pipeline_errors.hide_output_of_spark(is_verbose=is_verbose):
            os.write(2, b"a trace")
        os.write(2, b"a line")
        assert capfd.readouterr().err == ("a tracea line" if is_verbose else "a line")


def test_a_job_does_not_send_to_a_queue_that_it_reads(env, queue):
    here = pipelines.Queues(env.redis.url, env.ns)
    same = pipelines.Queues(env.redis.url.replace("127.0.0.1", "localhost"), env.ns)
    other = pipelines.Queues(env.redis.url, f"{env.ns}-other")
    database = pipelines.Queues(f"{env.redis.url.rpartition('/')[0]}/1", env.ns)
    for names in ("q", ["p", "q"]):
        with pytest.raises(InvalidOption, match="'q' is read by this job itself"):
            refuse_loop(here, names, same, "q")
        refuse_loop(here, names, here, "r")
        refuse_loop(here, names, here, None)
        refuse_loop(here, names, other, "q")
        refuse_loop(here, names, database, "q")


@pytest.mark.parametrize(
    "words",
    [
        ["archive", "events", "a/"],
        ["drain", "events"],
        ["redrive", "events", "--to", "'x'", "--otherwise", "y", "--checkpoint", "c"],
        ["transform", "events", "module:function", "--to", "x", "--checkpoint", "c"],
    ],
)
def test_a_job_with_a_stream_is_refused_before_spark_starts(monkeypatch, capsys, words):
    monkeypatch.setattr(streams, "HAS_START", False)
    monkeypatch.setattr(pipelines, "session", None)
    assert run_pipeline([*words, "--url", "redis://127.0.0.1:1/0"]) == 2
    error = capsys.readouterr().err
    assert "A job that receives messages needs PySpark 4.2 or later" in error
