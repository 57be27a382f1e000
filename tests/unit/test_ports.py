"""Ports of the servers of tests."""

from __future__ import annotations

import subprocess
import sys

from tests.ports import BUS_OFFSET, free_port, reserve_port
from tests.servers import ROOT

RESERVE = """
import sys
from tests.ports import reserve_port

print(reserve_port(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_no_two_processes_get_the_same_port():
    port = free_port()
    assert not reserve_port(port)

    ours = subprocess.run(
        [sys.executable, "-c", RESERVE, str(port)],
        capture_output=True, stdin=subprocess.DEVNULL, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    assert ours.stdout == "False\n"


def test_the_port_of_a_process_that_ended_is_free():
    port = free_port() + BUS_OFFSET  # of this test alone: no test reserves ports up there
    with subprocess.Popen(
        [sys.executable, "-c", RESERVE, str(port)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "True\n"
        assert not reserve_port(port)
        process.stdin.close()
    assert reserve_port(port)
