"""Spark Declarative Pipelines, with queues as source and sink."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rsmq.spark.versions import HAS_START
from tests.scale import WAIT_SECONDS
from tests.spark.session.conftest import ENVIRONMENT

pytestmark = pytest.mark.skipif(not HAS_START, reason="its streams need PySpark 4.2 or later")

SPEC = """
name: orders
storage: file://{folder}/storage
libraries:
  - glob:
      include: transformations/**
"""

QUEUES = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

queues = {{"url": "{url}", "ns": "{ns}"}}
spark = SparkSession.active()
"""

TO_QUEUE = """
dp.create_sink("done", "rsmq", {{**queues, "queue": "done", "delivery": "exactly-once"}})


@dp.append_flow(target="done")
def send_done():
    read = spark.readStream.format("rsmq").options(**queues, queue="orders", groups="together")
    orders = read.option("columns", "message,group").load()
    return orders.selectExpr("upper(message) AS message", "`group`")
"""

TO_TABLE = """
@dp.table
def events():
    read = spark.readStream.format("rsmq").options(**queues, queue="events")
    return read.option("columns", "message").load()


dp.create_sink("counted", "rsmq", {{**queues, "queue": "counted"}})


@dp.append_flow(target="counted")
def send_counted():
    return spark.readStream.table("events").selectExpr("concat('event ', message) AS message")
"""


def run(folder):
    """Run the pipeline; return what it has printed."""
    done = subprocess.run(
        [Path(sys.executable).with_name("spark-pipelines"), "run", "--remote", "local[2]",
         "--conf", f"spark.sql.warehouse.dir={folder}/warehouse",
         "--conf", "spark.ui.enabled=false",
         "--conf", "spark.python.authenticate.socketTimeout=120s"],
        cwd=folder, env=os.environ | ENVIRONMENT ,
        timeout=WAIT_SECONDS, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_pipeline_reads_queues_and_writes_into_them_once(server, rsmq, raw, ns, tmp_path):
    definitions = tmp_path / "transformations"
    definitions.mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path))
    for name, code in (("orders", TO_QUEUE), ("events", TO_TABLE)):
        (definitions / f"{name}.py").write_text((QUEUES + code).format(url=server.url, ns=ns))
    for queue in ("orders", "done", "events", "counted"):
        rsmq.create_queue(queue)
    rsmq.send_messages("orders", ["a1", "b1", "a2"], groups=["a", "b", "a"])
    rsmq.send_messages("events", ["1", "2"])

    run(tmp_path)

    found = {each.body: each.group for each in rsmq.peek_messages("done", 0, 10)}
    assert found == {"A1": "a", "B1": "b", "A2": "a"}
    counted = [each.body for each in rsmq.peek_messages("counted", 0, 10)]
    assert sorted(counted) == ["event 1", "event 2"]

    (definitions / "events.py").unlink()  # its table is in the memory of the process that has ended
    rsmq.send_message("orders", "a3", group="a")
    run(tmp_path)

    found = [each.body for each in rsmq.peek_messages("done", 0, 10)]
    assert sorted(found) == ["A1", "A2", "A3", "B1"]
