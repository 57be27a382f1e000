"""The command that tests the newest client of npm."""

import os
import stat
from pathlib import Path

import pytest

from scripts import track_node

ROOT = Path(__file__).parents[2]


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Return a function that replaces ``npm`` by a shell script with these lines."""

    def replace(*lines):
        program = tmp_path / "npm"
        program.write_text("\n".join(["#!/bin/sh", *lines]))
        program.chmod(program.stat().st_mode | stat.S_IEXEC)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return replace


def test_newest_version_is_the_one_that_npm_installs(npm):
    npm('[ "$*" = "view rsmq@latest version" ] && echo 0.12.4')
    assert track_node.find_version(None) == "0.12.4"


def test_no_answer_of_npm_is_another_exit_code_than_a_failed_test(npm, monkeypatch, capsys):
    npm('echo "No match found for version 0.99" >&2', "exit 1")
    monkeypatch.setattr("sys.argv", ["track-node", "0.99"])
    assert track_node.main() == 2
    error = capsys.readouterr().err
    assert error == "npm view rsmq@0.99 version: No match found for version 0.99\n"


def test_readme_of_the_repository_has_the_sentence_that_is_changed():
    readme = (ROOT / "README.md").read_text()
    changed = track_node.with_result(readme, "0.13.0", "2027-01-02")
    assert "npm's newest, 0.13.0, on 2027-01-02" in changed
    assert track_node.with_result(changed, "0.12.4", "2026-11-26").count("npm's newest") == 1


def test_readme_without_the_sentence_is_an_error():
    with pytest.raises(ValueError, match="0 times"):
        track_node.with_result("nothing", "0.13.0", "2027-01-02")
