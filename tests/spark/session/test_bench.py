"""scripts/bench-spark runs, and writes its tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.scale import SOAK
from tests.spark.session.conftest import ENVIRONMENT, ROOT

pytestmark = [
    pytest.mark.skipif(not SOAK, reason="two minutes; RSMQ_SOAK=1"),
]


def test_quick_run_measures_the_named_cases(tmp_path):
    program = ROOT / "scripts/bench_spark.py"
    finished = subprocess.run(
        [sys.executable, "-P", program, "--quick", "--only", "5,000", "--output", tmp_path],
        cwd=ROOT, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert finished.returncode == 0, finished.stderr[-2000:]
    text = (tmp_path / "bench-spark.md").read_text()
    assert finished.stdout == text
    assert "quick run" in text
    figures = json.loads((tmp_path / "bench-spark.json").read_text())
    from_redis, from_memory = figures["cases"]
    assert from_redis["name"] == "stream, Spark, 5,000 a batch"
    assert from_memory["name"] == "stream, Spark without Redis, 5,000 a batch"
    for case in figures["cases"]:
        (run,) = case["runs"]
        assert run["messages"] == 10_000
        assert run["durations"]["addBatch"] > 0
        assert run["processor"]["python"] > 0
    assert (
        from_redis["runs"][0]["processor"]["redis"] > from_memory["runs"][0]["processor"]["redis"]
    )
