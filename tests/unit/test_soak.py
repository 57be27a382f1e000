"""scripts/soak: its parts, and that no large test is left out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scripts.parts import soak


def write(root, name, text="from tests.scale import scaled\n\nCOUNT = scaled(1, 9)\n"):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_large_tests_are_found_by_their_counts(tmp_path):
    write(tmp_path, "compat/test_node.py")
    write(tmp_path, "tests/jobs/test_kills.py")
    write(tmp_path, "tests/jobs/test_small.py", "COUNT = 3\n")
    write(tmp_path, "tests/jobs/helpers.py")
    write(tmp_path, "tests/web/sqs/test_long.py", "LONG = os.environ.get('RSMQ_SOAK')\n")
    write(tmp_path, "tests/faults/test_cluster.py")
    write(tmp_path, "tests/faults/test_two_primaries.py", "def servers(engine):\n    ...\n")

    assert soak.large_tests(tmp_path) == {
        "compat": ["compat/test_node.py"],
        "jobs": ["tests/jobs/test_kills.py"],
        "web": ["tests/web/sqs/test_long.py"],
        "clusters": ["tests/faults/test_cluster.py", "tests/faults/test_two_primaries.py"],
    }


def test_a_folder_whose_conftest_chooses_the_counts_is_run_whole(tmp_path):
    write(tmp_path, "tests/browser/conftest.py", "ALL = SOAK\n")
    write(tmp_path, "tests/browser/pages/test_pages.py")
    write(tmp_path, "tests/contract/test_groups.py")

    assert soak.large_tests(tmp_path) == {
        "browser": ["tests/browser"],
        "contract": ["tests/contract/test_groups.py"],
    }


@pytest.fixture
def commands(monkeypatch):
    """Return commands of this test's choice in the place of the large tests."""
    chosen = {}
    monkeypatch.setattr(soak, "commands_of", lambda options=(): chosen)
    return chosen


def test_a_run_ends_with_a_table_of_all_its_parts(commands, monkeypatch, capfd):
    check = "import os; raise SystemExit(os.environ['RSMQ_SOAK'] != '1')"
    commands |= {
        "good": [sys.executable, "-c", check],
        "bad": [sys.executable, "-c", "raise SystemExit(3)"],
        "last": [sys.executable, "-c", "print('ran')"],
    }
    monkeypatch.setattr(sys, "argv", ["soak"])

    assert soak.main() == 1
    lines = capfd.readouterr().out.splitlines()
    assert "ran" in lines
    assert [line.split()[0::3] for line in lines[-3:]] == [
        ["good", "passed"],
        ["bad", "FAILED"],
        ["last", "passed"],
    ]


def test_an_unknown_part_is_refused_before_anything_runs():
    run = subprocess.run(
        [sys.executable, "-m", "scripts.parts.soak", "clusters", "nothing"],
        cwd=soak.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert run.returncode == 2
    assert "no part nothing; they are busy" in run.stderr
    assert run.stdout == ""


@pytest.mark.parametrize("words", [["large", "-k", "kill"], ["-k", "kill"]])
def test_options_of_pytest_go_to_the_large_tests(monkeypatch, capfd, words):
    code = "import sys; print('got', sys.argv[1:]); raise SystemExit(5)"
    monkeypatch.setattr(
        soak, "commands_of", lambda options=(): {
            "docs": [sys.executable, "-c", "print('ran docs')"],
            "large": [sys.executable, "-c", code, *options],
        },
    )  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["soak", *words])

    assert soak.main() == 0
    shown = capfd.readouterr().out
    assert "got ['-k', 'kill']" in shown
    assert "ran docs" not in shown
    assert shown.splitlines()[-1].split()[-2:] == ["no", "test"]
