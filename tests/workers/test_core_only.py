"""``rsmq-worker`` in an environment with the core of the library only: no extra is installed."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APP = """
from rsmq import RSMQ
from rsmq.worker import Worker

worker = Worker(RSMQ.from_url({url!r}, ns={ns!r}))


@worker.listener("q", vt=30)
def handle(body):
    print("handled", body, flush=True)
    worker.stop()
"""


def core_distributions():
    """Return the distributions that the library requires without extras, and theirs."""
    distributions, names = {}, ["rsmq"]
    while names:
        name = names.pop()
        for requirement in importlib.metadata.requires(name) or ():
            required, _, marker = requirement.partition(";")
            if "extra ==" in marker.replace("'", '"') and "hiredis" not in required:
                continue
            if "python_" in marker:
                continue
            required = re.match(r"[\w.-]+", required)[0]
            if required not in distributions:
                distributions[required] = importlib.metadata.distribution(required)
                names.append(required)
    return distributions


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Create a Python with only the packages of the core."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    for distribution in core_distributions().values():
        for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(distribution.locate_file(top))
    (packages / "rsmq.pth").write_text(str(ROOT))
    return folder / "bin" / "python"


def run(python, folder, *arguments):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RSMQ_", "COVERAGE_", "PYTHON"))
    }
    completed = subprocess.run(
        [python, *arguments], cwd=folder, env={**environment, "HOME": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return completed.returncode, completed.stdout, completed.stderr


@pytest.mark.parametrize("name", ["rich", "fakeredis", "prometheus_client", "pyspark"])
def test_environment_has_no_extra(python, tmp_path, name):
    code, _, error = run(python, tmp_path, "-c", f"import {name}")
    assert code == 1
    assert f"No module named '{name}'" in error


def test_worker_runs_with_the_core_only(python, tmp_path, server):
    from rsmq import RSMQ

    with RSMQ.from_url(server.url, ns="core") as rsmq:
        rsmq.create_queue("q")
        rsmq.send_message("q", "hello")
        (tmp_path / "app.py").write_text(APP.format(url=server.url, ns="core"))
        command = ("-m", "rsmq.cli.commands.worker")

        code, output, error = run(python, tmp_path, *command, "app:worker")
        assert (code, output) == (0, "handled hello\n"), error
        assert rsmq.get_queue_attributes("q").messages == 0
        where = ("--url", server.url, "--ns", "core")
        code, output, error = run(python, tmp_path, *command, "--list", "--pause", "q", *where)
        assert (code, output.splitlines()[0], error) == (0, "q: paused", "")
        code, output, error = run(python, tmp_path, *command, "--resume", "none", *where)
        assert (code, output) == (3, "")
        assert error.startswith("rsmq-worker: Queue not found: 'none' (namespace 'core')")


def test_rsmq_runs_with_the_core_only_and_top_names_the_missing_extra(python, tmp_path, server):
    where = ("--url", server.url, "--ns", "core")
    program = ("-m", "rsmq")
    assert run(python, tmp_path, *program, "create", "made", *where) == (0, "made: created\n", "")
    code, output, error = run(python, tmp_path, *program, "top", "--once", *where)
    assert (code, output) == (2, "")
    assert "rsmq top needs the extra 'cli'" in error


def test_pipeline_names_the_missing_extra(python, tmp_path):
    code, output, error = run(python, tmp_path, "-m", "rsmq.cli.commands.pipeline", "report")
    assert (code, output) == (2, "")
    assert error.startswith("rsmq-pipeline: ")
    assert "pip install '.[spark]'" in error
