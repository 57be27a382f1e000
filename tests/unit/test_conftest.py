"""The preconditions of all tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_programs_can_be_interrupted_where_the_caller_ignores_sigint():
    """A script that runs ``nohup scripts/test &`` ignores SIGINT."""
    program = """
import signal, subprocess, sys
import tests.conftest

child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
subprocess.run([sys.executable, "-c", child], check=True)
"""
    result = subprocess.run(
        ["sh", "-c", 'trap \'\' INT; exec "$0" -c "$1"', sys.executable, program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout == "True\n"
