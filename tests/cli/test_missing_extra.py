"""The program ``rsmq`` without its extra, and other failures of its import."""

from __future__ import annotations

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


def test_another_missing_module_is_raised(monkeypatch):
    without(monkeypatch, "rsmq.cli.app.run")
    with pytest.raises(ModuleNotFoundError):
        rsmq.cli.main(["list"])
