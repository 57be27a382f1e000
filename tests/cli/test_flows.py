"""``rsmq flow``."""

from __future__ import annotations

import pytest

from rsmq.tasks import RESULT, Tasks, chain
from rsmq.worker import Discard


@pytest.fixture
def flow(rsmq):
    """A flow whose second task gives up, and that was not run yet."""
    tasks = Tasks(rsmq)

    @tasks.task(queue="q", name="first", track=True)
    def first(number: int) -> list[int]:
        return [number]

    @tasks.task(queue="q", name="second", track=True)
    def second(numbers: list[int]) -> None:
        raise Discard("no")

    last = first.signature(9)
    flow = chain(first.signature(1), second.signature(RESULT), last, finally_=last).send()
    flow.tasks = tasks
    return flow


def test_a_flow_is_shown(cli, flow):
    shown = cli("flow", flow.id).lines
    assert shown[:2] == ["state     running", "nodes     0 of 4 have ended: 3 pending, 1 sent"]
    assert shown[4].split() == ["NODE", "STATE", "AFTER", "TASK", "QUEUE", "ID", "ERROR"]
    assert shown[5].split()[:5] == ["0", "waiting", "-", "first", "q"]
    assert cli("flow", flow.id, "--wait", "10ms").code == 1
    flow.tasks.run_all()
    run = cli("flow", flow.id, "--wait", "30s")
    assert run.code == 0
    assert run.lines[0] == "state     failed"
    assert "Discard: no" in run.lines[7]
    assert "first (finally)" in run.lines[9]
    document = cli("flow", flow.id, "--json").json
    assert (document["done"], document["counts"]["skipped"]) == (4, 1)
    assert document["nodes"][0]["result"] == [1]
    assert document["nodes"][1]["after"] == [0]


def test_flows_are_listed(cli, flow):
    heading, row = cli("flows").lines
    assert heading.split() == [
        "ID", "STATE", "DONE", "FAILED", "SENT", "ENDED", "FIRST", "TASK"
    ]  # fmt: skip
    assert row.split()[:6] == [flow.id, "running", "0", "of", "4", "0"]
    assert row.split()[-1] == "first"
    [document] = cli("flows", "--state", "running", "-n", "1", "--json").json
    assert (document["id"], document["total"], document["task"]) == (flow.id, 4, "first")
    assert "nodes" not in document
    assert cli("flows", "--state", "failed", "--json").json == []
    assert cli("flows", "--count", "1001").code == 2


def test_a_flow_is_cancelled(cli, flow):
    run = cli("flow", flow.id, "--cancel")
    assert run.code == 0
    assert "1 cancelled" in run.lines[1]
    assert cli("flow", "0" * 22).code == 1
    assert cli("flow", "short").code != 0
