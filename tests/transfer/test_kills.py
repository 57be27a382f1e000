"""Exports and imports that are interrupted or killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rsmq import RSMQ
from rsmq.transfer import export_queues, files
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def start(monkeypatch, server, ns):
    """Return a function that starts the program in a process."""
    monkeypatch.setenv("RSMQ_CONFIG", "/dev/null")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # A KeyboardInterrupt that is raised in coverage's lock leaves it locked: the process hangs.
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    running = []

    def start(*arguments):
        # A shell starts background processes with SIGINT ignored.
        program = (
            "import signal, sys, rsmq.cli; signal.signal(signal.SIGINT, "
            "signal.default_int_handler); sys.exit(rsmq.cli.main())"
        )
        where = ("--url", server.url, "--ns", ns)
        command = [sys.executable, "-c", program, *map(str, arguments), *where]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return running[-1]

    yield start
    for process in running:
        with process:  # closes its pipes, and waits
            process.kill()


@pytest.mark.parametrize("seed", range(3))
def test_killed_import_can_be_run_again(server, ns, raw, start, source, tmp_path, seed):
    with RSMQ.from_url(server.url, ns=f"{ns}:from") as rsmq:
        for name in ("a", "b"):
            rsmq.create_queue(name, vt=7)
            rsmq.send_messages(name, [f"{name}{n}" for n in range(8000)])
            rsmq.receive_messages(name, 500, vt=1000)
        with files.writing(str(tmp_path / "f")) as file:
            export_queues(rsmq, None, file)
    threshold = random.Random(seed).randrange(1, 15_000)
    process = start("import", tmp_path / "f")
    wait_until(lambda: raw.zcard(f"{ns}:a") + raw.zcard(f"{ns}:b") >= threshold)
    process.kill()
    process.wait(WAIT_SECONDS)
    assert start("import", tmp_path / "f").wait(WAIT_SECONDS) == 0

    for name in ("a", "b"):
        before, after = (
            raw.zrange(f"{namespace}:{name}", 0, -1, withscores=True)
            for namespace in (f"{ns}:from", ns)
        )
        assert after == before
        fields = source.fields(name)
        for field, value in raw.hgetall(f"{ns}:from:{name}:Q").items():
            if field not in {b"created", b"modified", b"totalsent", b"totalrecv"}:
                assert fields[field] == value
        assert fields[b"totalsent"] == b"8000"


def test_interrupted_export_leaves_no_file(rsmq, start, tmp_path):
    rsmq.create_queue("q")
    for _ in range(10):
        rsmq.send_messages("q", ["x" * 500] * 8000)
    path = tmp_path / "f.gz"
    process = start("export", "-o", path)
    wait_until(lambda: any(each.stat().st_size for each in tmp_path.iterdir()))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()

    assert (process.returncode, errors) == (130, b"rsmq: interrupted\n")
    assert list(tmp_path.iterdir()) == []
