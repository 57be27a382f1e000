"""What every test relies on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_programs_can_be_interrupted_where_the_caller_ignores_sigint():
    """As in a script that runs ``nohup scripts/test &``."""
    program = """
import signal, subprocess, sys
import tests.conftest

child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
subprocess.run([sys.executable, "-c", child], check=True)
"""
    ended = subprocess.run(
        ["sh", "-c", 'trap \'\' INT; exec "$0" -c "$1"', sys.executable, program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout == "True\n"
