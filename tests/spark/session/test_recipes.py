"""docs/spark-recipes.md: its recipes run, and print what the page says."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

from rsmq import RSMQ
from tests.documents.pages import read_blocks
from tests.documents.player import Player, check_prints
from tests.nodes import wait_until
from tests.ports import free_port
from tests.postgresql import PostgreSQL
from tests.scale import WAIT_SECONDS
from tests.spark.session.conftest import ENVIRONMENT
from tests.spark.session.standalone import (
    SPARK_ENVIRONMENT,
    SPARK_HOME,
    make_environment,
    run_cluster,
    submit_options,
)

BLOCKS = [each for each in read_blocks("spark-recipes.md") if each.how != "shown"]
SESSION_BLOCKS = [each for each in BLOCKS if (each.language, each.how) == ("python", "run")]
SQL_BLOCKS = read_blocks("spark-sql.md")


def adapt(code, server, folder):
    """Return code with the places of this test."""
    return code.replace("127.0.0.1:6379", f"127.0.0.1:{server.port}").replace("/data", str(folder))


def run_block(block, code, names):
    """Run a block in this process, which has the session, and compare its prints."""
    prints = []

    def print_and_record(*values):
        prints.append((sys._getframe(1).f_lineno, " ".join(map(str, values)) + "\n"))

    names["print"] = print_and_record
    exec(compile(code, str(block), "exec", dont_inherit=True), names)
    check_prints(block, prints)


@pytest.fixture
def postgresql():
    server = PostgreSQL()
    yield server
    server.stop()


def test_recipes_of_a_session_run(empty_server, spark, tmp_path, postgresql):
    names = {"__name__": "__main__", "spark": spark}
    for block in SESSION_BLOCKS:
        code = adapt(block.code, empty_server, tmp_path)
        run_block(block, code.replace("127.0.0.1:5432", f"127.0.0.1:{postgresql.port}"), names)

    repeated = spark.createDataFrame([(9, 5.5)], "order BIGINT, total DOUBLE")
    names["store_in_postgresql"](repeated, 0)
    with postgresql.connect() as connection:
        assert connection.execute("SELECT id FROM orders ORDER BY id").fetchall() == [(9,), (10,)]
    stored = spark.read.parquet(str(tmp_path / "orders"))
    names["store"](spark.createDataFrame([("x", 9)], "id STRING, order BIGINT"), 0)
    assert spark.read.parquet(str(tmp_path / "orders")).select("order").collect() == [(9,)]
    assert "batch" in stored.columns
    with empty_server.raw() as raw:
        assert raw.zcard("rsmq:orders") == 0


def test_sql_page_runs(empty_server, spark, tmp_path):
    names = {"__name__": "__main__", "spark": spark}
    try:
        for block in SQL_BLOCKS:
            run_block(block, adapt(block.code, empty_server, tmp_path), names)
    finally:
        spark.sql("DROP TABLE IF EXISTS visits")
        spark.sql("DROP VIEW IF EXISTS welcome")


def test_executors_of_a_cluster_get_python_by_archive(empty_server, tmp_path):
    make_environment(tmp_path / "environment")
    with RSMQ.from_url(empty_server.url) as queues:
        queues.create_queue("words")
        queues.send_messages("words", ["one", "two"])
        options = " ".join(submit_options(tmp_path))
        with run_cluster(tmp_path / "cluster") as cluster:
            blocks = [
                dataclasses.replace(
                    block,
                    code=adapt(block.code, empty_server, tmp_path)
                    .replace("7077", str(cluster.port))
                    .replace("spark-submit", f"spark-submit {options}")
                    .replace("--quiet", "--quiet --compress-level 0"),  # faster here
                )
                for block in BLOCKS
                if block.language == "sh" or block.file == "upper_job.py"
            ]
            Player(empty_server, tmp_path, SPARK_ENVIRONMENT).play(blocks)
            archives = list((tmp_path / "cluster").glob("app-*/*/environment"))
            assert len(archives) == len(cluster.workers)
            assert all((each / "bin" / "python").exists() for each in archives)

    lines = [
        line for file in (tmp_path / "words").glob("*.json") for line in file.read_text().split()
    ]
    assert sorted(json.loads(line)["message"] for line in lines) == ["ONE", "TWO"]


@contextmanager
def run_connect_server(folder):
    """Run a server of Spark Connect with three processors; yield its port."""
    port, log = free_port(), folder / "server.log"
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.sql.shuffle.partitions": 2,
    }
    command = [
        SPARK_HOME / "bin" / "spark-submit", *submit_options(folder), "--master", "local[3]",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
    ]  # fmt: skip
    environment = {**os.environ, **ENVIRONMENT, **SPARK_ENVIRONMENT}
    with log.open("w") as out:
        server = subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, cwd=folder, start_new_session=True
        )

    def listens():
        assert server.poll() is None, log.read_text()[-4000:]
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True

    try:
        wait_until(listens, failure=lambda: log.read_text()[-4000:])
        yield port
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_job_runs_over_spark_connect_with_a_client_without_java(empty_server, tmp_path):
    """The client is a process of its own, because a process has one kind of session."""
    (block,) = [each for each in BLOCKS if each.file == "connect_job.py"]
    refused = """
from rsmq.spark import InvalidOption
for options in ({"checkpoint": "/data/other"}, {"keep": True}):
    try:
        pipelines.archive(spark, pipelines.Queues(url), "audit", "/data/audit", **options)
    except InvalidOption as error:
        print(error.summary)
from tests.spark.session import connect_jobs
connect_jobs.run(spark, url, "/data")
spark.stop()
"""
    environment = {**os.environ, **ENVIRONMENT, "PATH": "", "JAVA_HOME": ""}
    program = tmp_path / "connect_job.py"
    with (
        RSMQ.from_url(empty_server.url) as queues,
        run_connect_server(tmp_path) as port,
        (tmp_path / "out").open("w") as out,
    ):
        code = adapt(block.code, empty_server, tmp_path).replace("15002", str(port))
        program.write_text(code + adapt(refused, empty_server, tmp_path))
        queues.create_queue("audit")
        queues.send_messages("audit", ["a", "b", "A"])
        process = subprocess.Popen(
            [sys.executable, program], env=environment, stdout=out, stderr=subprocess.STDOUT,
            cwd=tmp_path, start_new_session=True,
        )  # fmt: skip
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(600)
            process.send_signal(signal.SIGABRT)  # a program that hangs shows where
            code = process.wait(WAIT_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        text = (tmp_path / "out").read_text()
        assert code == 0, text[-4000:]
        assert queues.get_queue_attributes("audit").messages == 0
    lines = [line for line in text.splitlines() if line[:1].isdigit() or "Option" in line]
    assert [line for line in lines if line[:2] in {"2", "3 ", "0 "}] == ["2", "3 3", "0 3"]
    assert "Option checkpoint: " in text
    assert "Option path: " in text
    assert "all jobs are done" in text.splitlines()


def test_airflow_recipe_is_valid_python():
    (block,) = [each for each in BLOCKS if each.file == "rsmq_airflow.py"]
    names = [node.name for node in ast.parse(block.code).body if isinstance(node, ast.ClassDef)]
    assert names == ["MessagesSensor", "SendOperator"]
