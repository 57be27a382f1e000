"""What the contract over HTTP leaves out, and that no more than that is left out."""

import ast
import inspect
from pathlib import Path

from rsmq import AsyncRSMQ
from rsmq.schedules.asyncio_ import AsyncSchedules
from tests.contract.over_http.adapter import HttpClient, HttpSchedules
from tests.contract.over_http.left_out import LEFT_OUT

#: By reason. Whoever leaves out a further test changes a number here.
_NUMBERS = [1, 2, 1, 7, 56, 3, 8, 2, 1, 1, 1, 1, 1, 4, 3]
#: Methods without an equal in the adapter: those without a route, handles on jobs and flows, and
#: what no test of the contract calls.
_MISSING = {
    "from_url", "consume", "processing", "flow", "flows", "job", "jobs", "wait_for_jobs", "history",
    "task_figures", "mark",
    "schedules.declare", "with_reply_timeout",
}  # fmt: skip


def test_as_many_tests_are_left_out_as_this_file_says():
    assert [len(tests) for tests in LEFT_OUT.values()] == _NUMBERS


def test_each_test_that_is_left_out_exists():
    for each in (each for tests in LEFT_OUT.values() for each in tests):
        file, _, function = each.partition("[")[0].partition("::")
        tree = ast.parse((Path(__file__).parent / file).read_text())
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not function or function in names, each


def test_the_adapter_has_each_method_of_the_client_that_has_a_route():
    def methods(cls, prefix=""):
        return {
            prefix + name
            for name in dir(cls)
            if inspect.isroutine(getattr(cls, name)) and not name.startswith("_")
        }

    public = methods(AsyncRSMQ) | methods(AsyncSchedules, "schedules.")
    there = methods(HttpClient) | methods(HttpSchedules, "schedules.")
    assert public - there == _MISSING
