"""tests/isolation.py: a test that breaks the shared browser fails, and no other test."""

from __future__ import annotations

from tests.planted import run_planted

FIXTURES = "from tests.browser.conftest import *\n"

PLANTED = """
import socket

import pytest

PAGE = "data:text/html,words"


def test_first(chromium):
    assert chromium.visit(PAGE) == ("words", [])


@pytest.mark.timeout(1)
def test_over_its_limit(chromium):
    chromium.driver.set_page_load_timeout(3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        chromium.visit("http://127.0.0.1:{}".format(silent.getsockname()[1]))


def test_next(chromium):
    assert chromium.visit(PAGE) == ("words", [])


def test_of_killed_browser(chromium):
    chromium.driver.service.process.kill()
    chromium.visit(PAGE)


def test_last(chromium):
    assert chromium.visit(PAGE) == ("words", [])
"""


def test_a_test_that_breaks_the_browser_fails_alone(tmp_path):
    outcomes, output = run_planted(tmp_path, FIXTURES, PLANTED, "-n", "1", "--dist", "loadfile")

    assert outcomes == {
        "test_first": {"PASSED"},
        "test_over_its_limit": {"FAILED"},
        "test_next": {"PASSED"},
        "test_of_killed_browser": {"FAILED"},
        "test_last": {"PASSED"},
    }, output
