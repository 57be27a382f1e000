"""tests/isolation.py: a test that breaks the shared Spark session fails, and no other test."""

from __future__ import annotations

from tests.planted import run_planted

FIXTURES = "from tests.spark.session.conftest import *\n"

PLANTED = """
import pytest


def test_first(spark):
    assert spark.range(3).count() == 3


@pytest.mark.timeout(1)
def test_over_its_limit(spark):
    spark._jvm.java.lang.Thread.sleep(3_600_000)  # the reply is never read


def test_next(spark):
    assert spark.range(4).count() == 4


def test_of_killed_jvm(spark):
    spark.sparkContext._gateway.proc.kill()
    spark.range(3).count()


def test_last(spark):
    assert spark.range(5).count() == 5
"""


def test_a_test_that_breaks_the_session_fails_alone(tmp_path):
    outcomes, output = run_planted(tmp_path, FIXTURES, PLANTED, "-n", "1", "--dist", "loadfile")

    assert outcomes == {
        "test_first": {"PASSED"},
        "test_over_its_limit": {"FAILED"},
        "test_next": {"PASSED"},
        "test_of_killed_jvm": {"FAILED"},
        "test_last": {"PASSED"},
    }, output
