"""scripts/bench-spark runs, and writes all of its tables."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.spark.session.conftest import ROOT

pytestmark = pytest.mark.timeout(280)


def test_quick_run_measures_all_cases(tmp_path):
    command = [sys.executable, "-P", ROOT / "scripts/bench_spark.py", "--quick", "--output"]
    finished = subprocess.run(
        [*command, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert finished.returncode == 0, finished.stderr[-2000:]
    text = (tmp_path / "bench-spark.md").read_text()
    assert finished.stdout == text
    assert "quick run" in text
    figures = json.loads((tmp_path / "bench-spark.json").read_text())
    assert len(figures["cases"]) == 18
    assert [each["name"] for each in figures["cases"] if "stream, Spark, 5,000" in each["name"]]
    for case in figures["cases"]:
        (run,) = case["runs"]
        assert run["messages"] == 10_000
        assert run["processor"]["redis"] > 0 or "without Redis" in case["name"]
    assert [len(each["milliseconds"]) for each in figures["latencies"]] == [20] * 6
