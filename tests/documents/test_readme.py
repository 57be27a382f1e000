"""The examples in the documents run, and their lists are complete."""

from __future__ import annotations

import inspect
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rsmq import JSON, RSMQ
from rsmq.worker import Middleware, list_workers
from rsmq.worker.middleware import HOOKS
from tests.contract.conftest import ACL_RULES, ADMIN, CONSUMER, PRODUCER

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ALL_BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
#: tests/spark/session/test_documents.py runs those of Spark, which writes to standard error.
BLOCKS = [block for block in ALL_BLOCKS if "rsmq.spark" not in block]


def test_the_readme_has_its_examples():
    assert len(ALL_BLOCKS) == len(re.findall("```python", README)) >= 4
    assert "AsyncRSMQ" in "".join(BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{n}" for n in range(len(BLOCKS))])
def test_a_block_runs_as_pasted(block, server, tmp_path):
    program = tmp_path / "pasted.py"
    program.write_text(
        block.replace("127.0.0.1:6379", f"127.0.0.1:{server.port}").replace(
            "port=6379", f"port={server.port}"
        )
    )
    running = subprocess.Popen(
        [sys.executable, "-W", "error", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if "worker.run()" in block:  # it runs until SIGTERM
        with RSMQ.from_url(server.url) as rsmq:
            until(lambda: any(each.alive for each in list_workers(rsmq)))
            rsmq.send_message("orders", {"number": 1}, codec=JSON)
            until(lambda: rsmq.get_queue_attributes("orders").messages == 0)
        running.send_signal(signal.SIGTERM)
    out, error = running.communicate(timeout=30)

    assert (running.returncode, error) == (0, "")
    assert "worker.run()" not in block or out == "order 1 attempt 1\n"


def until(condition):
    """Wait until the condition is true."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_first_block_prints_its_message():
    result = subprocess.run(
        [sys.executable, "-c", BLOCKS[0]], capture_output=True, text=True, check=True
    )

    assert result.stdout == "hello\n"


def test_the_readme_lists_every_method():
    listed = set(re.findall(r"^\| `(\w+)\(", README, re.MULTILINE))
    public = {name for name in vars(RSMQ) if not name.startswith("_")} - {
        "run",
        "run_steps",
        "from_url",
        "namespace",
        "codec",
        "watcher",
    }

    assert listed == public


def test_the_readme_lists_every_hook_with_its_arguments():
    section = README[README.index("## Workers") : README.index("## Promises")]
    for name in HOOKS:
        arguments = list(inspect.signature(getattr(Middleware, name)).parameters)[1:]

        assert f"`{name}({', '.join(arguments)})`" in section


def test_the_readme_has_the_rules_of_the_contract_tests():
    rows = dict(
        re.findall(r"^\| (producer|consumer|administrator)[^|]*\| (.*) \|$", README, re.MULTILINE)
    )
    rules = {
        part: set(re.findall(r"\+[\w\\|]+", row.replace("\\|", "|"))) for part, row in rows.items()
    }

    assert rules["producer"] == set(ACL_RULES["producer"].split())
    assert rules["consumer"] == set(ACL_RULES["consumer"].split()) - set(PRODUCER.split())
    assert rules["administrator"] == set(ADMIN.split()) - set(CONSUMER.split())


@pytest.mark.parametrize("document", ["README.md", "scripts/README.md", "CHANGELOG.md"])
def test_links_to_files_exist(document):
    path = ROOT / document
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text()):
        assert (path.parent / link).exists(), link


def test_the_figures_of_speed_are_the_measured_ones():
    measured = (ROOT / "scripts" / "benchmark" / "measured" / "bench.md").read_text().splitlines()
    speed = README[README.index("## Speed") : README.index("## Links")]
    lines = [line for line in speed.splitlines() if line.startswith("|")]

    assert len(lines) > 20
    assert all(line in measured for line in lines)
    assert not any("quick run" in line for line in measured)


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
            [sys.executable, ROOT / "scripts" / "demo.py", lines, *url],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert "came back: receive count 2" in result.stdout
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
        [sys.executable, ROOT / "scripts" / "demo.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == status
    assert result.stderr.startswith("scripts/demo: ")
    assert "Traceback" not in result.stderr


def test_the_sample_is_a_few_thousand_json_events():
    import json

    lines = (ROOT / "scripts" / "examples" / "orders.jsonl").read_text().splitlines()

    assert len(lines) == 3000
    assert all(json.loads(line)["order"] for line in lines)
