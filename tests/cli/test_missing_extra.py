"""The program ``rsmq`` without its extra, and other failures of its import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rsmq.cli


def run_module(*arguments, without="nothing"):
    """Run ``python -m rsmq`` with a module missing."""
    code = (
        "import runpy, sys\n"
        f"sys.modules[{without!r}] = None\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "runpy.run_module('rsmq', None, '__main__')\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_python_runs_the_package_as_the_program():
    ended = run_module("create")

    assert ended.returncode == 2
    assert ended.stderr == ("rsmq: Missing argument 'QUEUE...'. See rsmq create --help.\n")


def test_only_top_needs_the_extra(rsmq, server, ns):
    rsmq.create_queue("q")
    place = ("--url", server.url, "--ns", ns)
    ended = run_module("stats", *place, without="rich")
    assert (ended.returncode, ended.stderr) == (0, "")

    ended = run_module("top", "--once", *place, without="rich")
    assert ended.returncode == 2
    assert ended.stderr == (
        "rsmq: rsmq top needs the extra 'cli'. In a clone of the repository: pip install '.[cli]'\n"
    )


def test_another_missing_module_is_raised(monkeypatch):
    monkeypatch.delitem(sys.modules, "rsmq.cli.app.program", raising=False)
    monkeypatch.setitem(sys.modules, "rsmq.cli.app.standard_streams", None)
    with pytest.raises(ModuleNotFoundError):
        rsmq.cli.main(["list"])
