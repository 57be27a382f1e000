"""The table of commands is complete, and scripts/demo keeps its promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "scripts" / "demos" / "queue_demo.py"


def test_the_table_of_commands_is_complete():
    commands = {
        path.name for path in (ROOT / "scripts").iterdir() if path.is_file() and not path.suffix
    }
    table = (ROOT / "scripts" / "README.md").read_text()

    assert set(re.findall(r"^\| `scripts/([\w-]+)", table, re.MULTILINE)) == commands


def test_the_demo_processes_every_line(server, tmp_path):
    lines = tmp_path / "lines"
    lines.write_bytes("eins\nzwei \xff\n\nvier 😀\n".encode("utf-16"))
    for url in ([], ["--url", server.url]):
        result = subprocess.run(
            [sys.executable, DEMO, lines, *url],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert "is received again: receive count 2" in result.stdout
        assert re.search(r"Every one of \d+ lines was processed", result.stdout)
    with server.raw() as raw:
        assert raw.keys("rsmq-demo:*") == []


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["/no/such/file"], 2),
        (["/dev/null"], 2),
        (["--url", "http://x"], 2),
        (["--url", "redis://127.0.0.1:1"], 1),
    ],
)
def test_the_demo_reports_why_it_cannot_run(arguments, status):
    result = subprocess.run(
        [sys.executable, DEMO, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == status
    assert result.stderr.splitlines()[-1].startswith("scripts/demo: ")
    assert "Traceback" not in result.stderr


def test_the_sample_is_a_few_thousand_json_events():
    import json

    lines = (ROOT / "scripts" / "examples" / "orders.jsonl").read_text().splitlines()

    assert len(lines) == 3000
    assert all(json.loads(line)["order"] for line in lines)
