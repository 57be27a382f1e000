"""The examples print what their documentation says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "scripts" / "examples"
#: compat/ runs the examples of PyRSMQ, also under PyRSMQ itself.
ELSEWHERE = {"pyrsmq_consumer.py", "pyrsmq_producer.py"}

PRINTS = {
    "worker_orders.py": [
        "order 0 done at attempt 1",
        "order 1 done at attempt 1",
        "order 2 done at attempt 2",
        "order 3 done at attempt 1",
        "dead: 4 - given up by its handler: a negative total",
    ],
    "worker_async.py": ["20 letters, 200 thumbnails"],
    "worker_routes.py": [
        "ship order 17",
        "ship order 18",
        "book order 17",
        "book order 18",
        "skipped: lost:19 - there is no handler for 'lost'",
    ],
    "worker_batches.py": ["999 stored, 11 dropped"],
}


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_prints_its_output_and_leaves_no_keys(name, server):
    run = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / name, str(server.port)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == sorted(PRINTS[name])
    with server.raw() as raw:
        assert raw.keys("rsmq:*example*") == []


def test_every_example_is_tested_and_short():
    found = {path.name for path in FOLDER.glob("*.py")}

    assert found == PRINTS.keys() | ELSEWHERE
    for name in PRINTS:
        lines = (FOLDER / name).read_text().splitlines()
        assert len(lines) <= 60
        assert lines[0] == '"""'
