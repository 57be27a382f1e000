"""tests/isolation.py: a test that breaks what tests share fails, and no other test."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.planted import run_planted

FIXTURES = """
import socket


@pytest.fixture(scope="session")
def connection(server):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        yield connection
"""
HEAD = """
import os
import signal
import threading

import pytest


def ask(connection, command):
    connection.sendall(f"{command}\\r\\n".encode())
    return connection.recv(1000)
"""
#: A test that uses what tests share.
OTHER = """

def test_{name}(connection, raw):
    assert ask(connection, "ECHO 1") == b"$1\\r\\n1\\r\\n"
    assert raw.config_get("requirepass") == {{"requirepass": ""}}
"""
PLANTED = """

@pytest.mark.timeout({limit})
def test_{name}(server, connection, raw):
{body}
"""

#: Bodies of tests, by what they leave.
ENDLESS = {
    "unread_reply": "ask(connection, 'BLPOP nothing 0')",
    "paused_server": "raw.client_pause(3_600_000)\nask(connection, 'ECHO 1')",
    "suspended_server": "os.kill(server.process.pid, signal.SIGSTOP)\nask(connection, 'ECHO 1')",
    "thread": "threading.Thread(target=threading.Event().wait).start()\nraw.blpop('nothing', 0)",
}
FAILING = {
    "password": "raw.config_set('requirepass', 'secret')\nraise ValueError",
    "no_server": "server.kill()\nraw.ping()",
    "suspended_server": "os.kill(server.process.pid, signal.SIGSTOP)\nraise ValueError",
    "closed_connection": "connection.close()\nask(connection, 'ECHO 1')",
}
DEAF = """
while True:
    try:
        threading.Event().wait()
    except BaseException:
        pass
"""


def planted(bodies, limit):
    """Return a file of tests with these bodies, each between two others."""
    parts = [HEAD, OTHER.format(name="first")]
    for name, body in bodies.items():
        parts += [
            PLANTED.format(name=name, body=indent(body, "    "), limit=limit),
            OTHER.format(name=f"after_{name}"),
        ]
    return "".join(parts)


def fail_alone(bodies):
    """Return the outcomes if each of these tests fails, and no other one."""
    return (
        {"test_first": {"PASSED"}}
        | {f"test_{name}": {"FAILED"} for name in bodies}
        | {f"test_after_{name}": {"PASSED"} for name in bodies}
    )


def test_tests_over_their_limit_fail_alone(tmp_path):
    outcomes, output = run_planted(tmp_path, FIXTURES, planted(ENDLESS, 1), "-n", "1")

    assert outcomes == fail_alone(ENDLESS), output


@pytest.mark.parametrize("scheduling", ["loadfile", "worksteal"])
def test_a_test_over_its_limit_is_run_once(tmp_path, scheduling):
    bodies = {"thread": ENDLESS["thread"]}
    text = planted(bodies, 1)
    outcomes, output = run_planted(tmp_path, FIXTURES, text, "-n", "1", "--dist", scheduling)

    assert outcomes == fail_alone(bodies), output
    assert output.count("exceeded its limit of time") == 1, output


def test_a_test_that_catches_the_alarm_fails_alone(tmp_path):
    fixtures = FIXTURES + "isolation.TEARDOWN_SECONDS = 1\n"
    outcomes, output = run_planted(tmp_path, fixtures, planted({"deaf": DEAF}, 1), "-n", "1")

    assert outcomes == fail_alone({"deaf": DEAF}), output


@pytest.mark.parametrize("processes", ["0", "1"])
def test_failing_tests_fail_alone(tmp_path, processes):
    outcomes, output = run_planted(tmp_path, FIXTURES, planted(FAILING, 600), "-n", processes)

    assert outcomes == fail_alone(FAILING), output


def test_without_other_processes_a_test_over_its_limit_is_the_last_one(tmp_path):
    outcomes, output = run_planted(tmp_path, FIXTURES, planted(ENDLESS, 1), "-n", "0")

    assert outcomes == {"test_first": {"PASSED"}, "test_unread_reply": {"FAILED"}}, output
    assert "test_unread_reply exceeded its limit of time: its process ends." in output
