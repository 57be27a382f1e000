"""The program of scripts/chaos: its options, and the history that it writes."""

from __future__ import annotations

import json

import pytest
import redis.exceptions as redis_errors

from rsmq import QueueNotFound
from scripts.chaos_checker.history import read_history
from scripts.chaos_runner.__main__ import main
from scripts.chaos_runner.client import outcome_of
from scripts.chaos_runner.recorder import Recorder, write_history


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--faults failover", "no failover here; possible are kill, restart, cut, delay"),
        ("--faults kill,boom", "no fault 'boom': use kill, restart"),
        ("--against rq --faults cut", "no cut here; possible are kill, restart"),
        ("--against rq --topology cluster", "--against: needs --topology plain"),
    ],
)
def test_a_fault_that_cannot_be_made_is_refused(options, text, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["scripts/chaos", *options.split()])
    with pytest.raises(SystemExit, match="2"):
        main()

    assert text in capsys.readouterr().err


def test_the_records_of_all_processes_become_one_history(tmp_path):
    one, other = Recorder(tmp_path / "one.jsonl"), Recorder(tmp_path / "other.jsonl")
    first = one.begin("send", body="a")
    second = other.begin("send", body="b")
    other.end(second, "unknown")
    one.end(first, id="id of a")
    with (tmp_path / "other.jsonl").open("a") as file:
        file.write('{"record": "begin", "op"')  # the process is killed
    left = [{"id": "id of b", "body": "b", "count": 0}]
    write_history(tmp_path / "history", {"topology": "plain"}, tmp_path, left)
    lines = (tmp_path / "history").read_text().splitlines()
    history = read_history(lines)

    times = [json.loads(each)["at"] for each in lines if "at" in json.loads(each)]
    assert times == sorted(times)
    assert [(each.body, each.id, each.outcome) for each in history.calls] == [
        ("a", "id of a", "ok"),
        ("b", None, "unknown"),
    ]
    assert [each.id for each in history.left] == ["id of b"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (QueueNotFound("q", "ns"), "error"),
        (redis_errors.OutOfMemoryError(), "error"),
        (redis_errors.ConnectionError(), "unknown"),
        (redis_errors.TimeoutError(), "unknown"),
    ],
)
def test_a_call_has_certainly_not_run_only_if_its_error_says_so(error, outcome):
    assert outcome_of(error) == outcome
