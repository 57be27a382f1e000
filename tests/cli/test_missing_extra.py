"""The program ``rsmq`` without its extra, and other failures of its import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rsmq.cli


def without(monkeypatch, name):
    for module in [each for each in sys.modules if each.startswith("rsmq.cli.app.program")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("name", ["click"])
def test_a_missing_extra_is_named(monkeypatch, capsys, name):
    without(monkeypatch, name)

    assert rsmq.cli.main(["list"]) == 2
    assert capsys.readouterr().err.startswith("rsmq: the command line needs its extra 'cli'.")


def run_module(*before):
    """Run ``python -m rsmq create`` after some lines of Python."""
    code = "\n".join(
        (
            *before,
            "import runpy, sys",
            "sys.argv[1:] = ['create']",
            "runpy.run_module('rsmq', None, '__main__')",
        )
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_python_runs_the_package_as_the_program():
    ended = run_module()

    assert ended.returncode == 2
    assert ended.stderr == ("rsmq: Missing argument 'QUEUE...'. See rsmq create --help.\n")


def test_python_runs_the_package_without_the_extra():
    ended = run_module("import sys; sys.modules['click'] = None")

    assert ended.returncode == 2
    assert ended.stderr.startswith("rsmq: the command line needs its extra 'cli'.")


def test_another_missing_module_is_raised(monkeypatch):
    without(monkeypatch, "rsmq.cli.app.run")
    with pytest.raises(ModuleNotFoundError):
        rsmq.cli.main(["list"])
