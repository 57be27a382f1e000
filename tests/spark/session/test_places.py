"""docs/spark-places.md: its blocks run, and Spark refuses what the page says."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pyspark.errors import StreamingQueryException

from tests.documents.pages import read_blocks
from tests.scale import WAIT_SECONDS
from tests.spark.session.conftest import ENVIRONMENT, ROOT
from tests.spark.session.test_recipes import adapt, run_block

BLOCKS = [each for each in read_blocks("spark-places.md") if each.how != "shown"]


def test_blocks_of_the_page_run(empty_server, spark, tmp_path):
    for block in BLOCKS:
        run_block(block, adapt(block.code, empty_server, tmp_path), {"__name__": "__main__"})

    with empty_server.raw() as raw:
        assert raw.zcard("rsmq:payments") == 0
        assert raw.hget("rsmq:payments:Q", "totalrecv") == b"4"


def test_a_notebook_has_the_outputs_that_it_shows(empty_server):
    """In a process of its own, because it stops its session."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.session.notebook",
         "scripts/examples/spark.ipynb", empty_server.url],
        cwd=ROOT, env=os.environ | ENVIRONMENT, timeout=WAIT_SECONDS, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    with empty_server.raw() as raw:
        assert raw.zcard("rsmq:visits") == 0
        assert raw.hget("rsmq:visits:Q", "totalrecv") == b"100"


def test_the_real_time_trigger_is_refused_by_spark_and_receives_nothing(
    rsmq, raw, ns, stream, tmp_path
):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    stored = raw.hgetall(f"{ns}:q:Q")
    writer = stream("q").writeStream.foreach(print).outputMode("update")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(realTime="1 minute").start()

    with pytest.raises(StreamingQueryException, match=r"Python.* not supported in Real-time Mode"):
        query.awaitTermination()

    assert raw.hgetall(f"{ns}:q:Q") == stored
    assert raw.exists(f"{ns}:q:x:leases") == 0
