"""Runs of pytest on tests that are planted, to see what becomes of those around them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

_FIXTURES = "from tests.conftest import *\n"


def run_planted(
    folder: Path, fixtures: str, text: str, *options: str
) -> tuple[dict[str, set[str]], str]:
    """
    Run planted tests with the fixtures and the settings of all tests.

    Args:
        folder: an empty folder.
        fixtures: the imports of more fixtures.
        text: the file of tests.
        options: options of pytest.

    Returns:
        The outcomes of each test, such as ``{"test_a": {"PASSED"}}``, and the output. A test also
        fails if its setup or teardown does.
    """
    (folder / "conftest.py").write_text(_FIXTURES + fixtures)
    (folder / "test_planted.py").write_text(text)
    run = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-rA",
            "-p", "no:cacheprovider", f"--rootdir={folder}", "--confcutdir", folder, *options,
            folder,
        ],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    outcomes: dict[str, set[str]] = {}
    for outcome, name in re.findall(r"^([A-Z]+) \S+::(\w+)", run.stdout, re.MULTILINE):
        outcomes.setdefault(name, set()).add(outcome.replace("ERROR", "FAILED"))
    return outcomes, run.stdout
