"""The processes of scripts/chaos end well whenever they are stopped."""

from __future__ import annotations

import random
import signal
import sys

import pytest

from scripts.chaos_runner import client, node_client, task_client, worker
from scripts.chaos_runner.fleet import Fleet, Member

#: A program that heeds SIGTERM once its file exists, and takes a while until then.
PROGRAM = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
pathlib.Path(sys.argv[1]).touch()
signal.pause()
"""


def test_a_process_that_was_just_started_again_ends_well(tmp_path):
    member = Member("worker", [sys.executable, "-c", PROGRAM, "FILE"])
    fleet = Fleet(tmp_path, [], [member])
    fleet.start()
    try:
        facts = fleet.kill(random.Random(1))
        assert fleet.stop([member]) == []
    finally:
        fleet.kill_all()

    assert facts == {"target": "worker", "client": "worker-1"}
    assert (tmp_path / "worker-2.jsonl").exists()


def test_a_process_that_does_not_start_is_a_problem(tmp_path):
    member = Member("worker", [sys.executable, "-c", "raise SystemExit('no such queue')"])
    fleet = Fleet(tmp_path, [], [member])
    with pytest.raises(SystemExit, match="worker does not start:\nno such queue"):
        fleet.start()

    (problem,) = fleet.stop([member])
    assert problem.startswith("worker has failed (1):\nno such queue")


class Started(Exception):
    pass


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (client, ("consumer", "threads", "redis://127.0.0.1:1/0", "ns", "FILE", "1", "1", "0")),
        (worker, ("redis://127.0.0.1:1/0", "ns", "FILE", "name", "1")),
        (task_client, ("threads", "redis://127.0.0.1:1/0", "ns", "FILE", "1", "1")),
        (node_client, ("consumer", "1", "ns", "FILE", "1")),
    ],
)
def test_a_program_heeds_sigterm_before_its_file_says_so(monkeypatch, module, arguments):
    def make_file(_path):
        raise Started(signal.getsignal(signal.SIGTERM))

    monkeypatch.setattr(module, "Recorder", make_file)
    monkeypatch.setattr(node_client, "Node", lambda *_: None)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(Started) as started:
            module.main(*arguments)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert callable(started.value.args[0])
    assert started.value.args[0] is not before
