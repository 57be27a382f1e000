"""A short run of scripts/chaos: some faults once, without the clients of other languages."""

from __future__ import annotations

from collections import Counter

import pytest

from scripts.chaos_checker.history import read_history
from scripts.chaos_checker.verdict import check
from scripts.chaos_runner.run import Plan, run

pytestmark = pytest.mark.slow

FAULTS = ["kill", "restart", "cut", "flush"]


def test_a_short_run_breaks_no_promise(tmp_path):
    plan = Plan(
        "plain", FAULTS, seconds=0, rate=40, seed=1, appendfsync="always", calm=0,
        clients=("threads", "worker"), pauses=(0.1, 0.3),
        kinds=frozenset({"send", "receive", "delete", "handle"}),
    )  # fmt: skip
    problems = run(plan, tmp_path / "history.jsonl")
    history = read_history((tmp_path / "history.jsonl").read_text().splitlines())
    verdict = check(history)

    assert problems == []
    assert (verdict.violations, verdict.allowed) == ([], [])
    assert sorted(fault.name for fault in history.faults) == sorted(FAULTS)
    calls = Counter(each.kind for each in history.calls if each.is_ok)
    assert calls.keys() >= {"send", "receive", "delete", "handle", "job"}
    assert history.follows
    assert [each.name for each in history.schedules] == ["beat"]
    assert calls["send"] == verdict.figures["sends that were acknowledged"]
