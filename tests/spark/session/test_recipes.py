"""docs/spark-recipes.md: its recipes run, and print what the page says."""

from __future__ import annotations

import sys

import pytest

from tests.documents.pages import read_blocks
from tests.documents.player import check_prints

BLOCKS = [each for each in read_blocks("spark-recipes.md") if each.how != "shown"]
SESSION_BLOCKS = [each for each in BLOCKS if (each.language, each.how) == ("python", "run")]


@pytest.fixture
def empty_server(server):
    """The server, without a key."""
    with server.raw() as raw:
        raw.flushall()
        yield server
        raw.flushall()


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


def test_recipes_of_a_session_run(empty_server, spark, tmp_path):
    names = {"__name__": "__main__", "spark": spark}
    for block in SESSION_BLOCKS:
        run_block(block, adapt(block.code, empty_server, tmp_path), names)

    stored = spark.read.parquet(str(tmp_path / "orders"))
    names["store"](spark.createDataFrame([("x", 9)], "id STRING, order BIGINT"), 0)
    assert spark.read.parquet(str(tmp_path / "orders")).select("order").collect() == [(9,)]
    assert "batch" in stored.columns
    with empty_server.raw() as raw:
        assert raw.zcard("rsmq:orders") == 0
