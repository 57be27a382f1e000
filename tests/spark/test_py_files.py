"""rsmq in an archive of ``spark-submit --py-files``, where it is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
_JOB = """
import sys

import rsmq.spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rsmq.spark.register(spark)
options = {"url": sys.argv[1], "ns": sys.argv[2], "queue": "q"}
read = spark.read.format("rsmq").options(**options).load()
print("read", read.count())
stream = spark.readStream.format("rsmq").options(consumerGroup="g", **options).load()
writer = stream.writeStream.foreachBatch(lambda frame, _: print("streamed", frame.count()))
writer.option("checkpointLocation", "state").trigger(availableNow=True).start().awaitTermination()
print("from", rsmq.spark.__file__)
"""


def test_streams_find_the_package_in_an_archive(server, ns, rsmq, tmp_path):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    shutil.make_archive(str(tmp_path / "rsmq"), "zip", ROOT, "rsmq")
    (tmp_path / "job.py").write_text(_JOB)
    python = os.path.realpath(sys.executable)  # the one without packages
    packages = Path(pyspark.__file__).parents[1]  # as a path, its .pth files do not count
    ended = subprocess.run(
        [
            packages / "pyspark" / "bin" / "spark-submit", "--master", "local[2]",
            "--conf", "spark.ui.enabled=false", "--py-files", "rsmq.zip", "job.py", server.url, ns,
        ],
        cwd=tmp_path, text=True, capture_output=True, check=False,
        env={
            **os.environ, "PYTHONPATH": str(packages), "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
        },
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[:2] == ["read 2", "streamed 2"]
    assert "/rsmq.zip/rsmq/spark/" in lines[-1]
