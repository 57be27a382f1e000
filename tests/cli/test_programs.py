"""``rsmq worker``, ``rsmq workers`` and ``rsmq pipeline``, with the location of ``rsmq``."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys

import click
import pytest

from rsmq.cli.app.output import format_table
from rsmq.cli.commands.worker_control import _HEADINGS, _row
from rsmq.wire.workers import WorkerInfo
from rsmq.worker.operations import Identity, register_worker
from rsmq.worker.registry import read_workers


@pytest.fixture
def spark():
    """Skip without pyspark, which the pipeline needs. No job is run here."""
    pytest.importorskip("pyspark")


def test_workers_are_shown(cli, rsmq):
    assert len(cli("workers").lines) == 1
    info = {
        "host": "a b",
        "pid": 7,
        "queues": {"q": 2, "empty": 0},
        "handled": 5,
        "failed": 1,
        "since_ms": 1e12,
    }
    rsmq.run(register_worker(Identity(rsmq.namespace, "w", "t"), info, ttl=5, dead=""))
    (worker,) = cli("workers", "--json").json

    heading, line = cli("workers").lines
    assert heading.split() == [
        "NAME", "ALIVE", "FOR", "HANDLED", "FAILED", "HOLDS", "PROCESS", "HOST",
    ]  # fmt: skip
    assert line.split()[:2] == ["w", "yes"]
    assert "empty" not in line
    assert line.split()[-7:] == ["5", "1", "q:", "2", "7", "a", "b"]
    assert {name: worker[name] for name in ("name", "alive", "pid", "queues", "handled")} == {
        "name": "w", "alive": True, "pid": 7, "queues": {"q": 2, "empty": 0}, "handled": 5,
    }  # fmt: skip


def test_workers_fit_into_a_terminal(rsmq):
    host = "orders-7d9f8b6c5d-x2x4z"
    info = {"host": host, "pid": 7, "queues": {"orders": 2}, "handled": 5, "failed": 1}
    for name in ("shop-0", f"{host}-{12345}-a1b2c3"):
        worker = Identity(rsmq.namespace, name, "t")
        rsmq.run(register_worker(worker, {**info, "since_ms": 1e12}, ttl=5, dead=""))
    now, workers = read_workers(rsmq)
    rows = [_row(each, now) for each in workers]
    for width in (80, 70, 60):
        lines = format_table(_HEADINGS, rows, width=width)
        assert all(len(line) <= width for line in lines)
        assert lines[0].split()[:3] == ["NAME", "ALIVE", "FOR"]
    only_short = format_table(_HEADINGS, rows[1:], width=80)
    assert only_short[0].split()[-2:] == ["HOLDS", "PROCESS"]


@pytest.mark.parametrize(
    ("expires_ms", "alive", "age"), [(1_009_000, True, "10s"), (1_003_000, False, "6s")]
)
def test_the_age_of_a_worker_is_that_of_its_state(expires_ms, alive, age):
    """Of a dead worker it begins with the last sign of life."""
    worker = WorkerInfo(
        name="w", alive=alive, since_ms=994_000, seen_ms=expires_ms - 5000, host="h", pid=7,
        queues={}, handled=0, failed=0,
    )  # fmt: skip

    assert _row(worker, 1_004_000)[1:3] == (alive, age)
    paused = _row(dataclasses.replace(worker, paused=True), 1_004_000)[1]
    assert paused == ("paused" if alive else False)


def test_worker_gets_its_arguments_and_the_location(cli, rsmq, raw, ns):
    rsmq.create_queue("q")

    assert cli("worker", "--pause", "q").out == "q: paused\n"
    assert raw.hexists(f"{ns}:q:Q", "x:paused")
    assert cli("worker", "--pause", "none").code == 3
    assert cli("--ns", "none", "worker", "--list").out.split()[:2] == ["NAME", "ALIVE"]
    assert "worker_of_nobody" in cli("worker", "worker_of_nobody:worker").stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["shop", "restart"], "'restart' is not an order. The orders are pause, resume"),
        (["shop", "pause", "600"], "pause takes no number. It ends after --for"),
        (["shop", "stop", "5"], "stop takes no number."),
        (["app:worker", "restart"], "unexpected extra argument (restart)"),
    ],
)
def test_wrong_orders_to_workers_are_refused(cli, words, text):
    refused = cli("worker", *words)
    assert refused.code == 2
    assert text in refused.stderr


@pytest.mark.parametrize("name", ["worker", "pipeline", "pipeline report"])
def test_wrong_usage_of_a_program_has_exit_code_2(cli, name):
    result = cli(*name.split(), "--no-such-option")
    assert result.code == 2
    assert result.error.startswith("No such option")
    assert result.error.endswith(f"See rsmq {name} --help.")


@pytest.fixture
def passed(spark, monkeypatch):
    """The place that a job gets, which ends before it connects."""
    from rsmq.spark.pipelines.queues import Queues

    found = {}

    def reach(queues):
        found.clear()
        found.update(dataclasses.asdict(queues))
        raise click.exceptions.Exit(0)

    monkeypatch.setattr(Queues, "reach", reach)
    return found


def test_pipeline_gets_the_location_without_its_password(cli, passed):
    url = "redis://user:ge%3Aheim@127.0.0.1:6379/3?protocol=3"
    for arguments in (
        ("--url", url, "--any-names", "pipeline", "report", "q"),
        ("pipeline", "report", "q", "--url", url, "--any-names"),
    ):
        assert cli(*arguments).code == 0
        assert passed["url"] == "redis://user@127.0.0.1:6379/3?protocol=3"
        assert os.environ.pop(passed["password_env"]) == "ge:heim"
        assert not passed["strict_names"]
    cli("pipeline", "report", "--ns", "given")
    assert passed["ns"] == "given"


def test_pipeline_gets_the_password_of_sentinels_by_the_environment(cli, passed):
    url = "redis+sentinel://:x@h:1,h:2/my/0?sentinel_password=y%40&protocol=3"
    assert cli("--url", url, "pipeline", "report", "q").code == 0

    assert passed["url"] == "redis+sentinel://h:1,h:2/my/0?protocol=3"
    assert os.environ.pop(passed["password_env"]) == "x"
    assert os.environ.pop(passed["sentinel_password_env"]) == "y@"
    cli("--url", url, "pipeline", "report", "--sentinel-password-file", "f")
    assert os.environ.pop(passed["password_env"]) == "x"
    assert (passed["sentinel_password_env"], passed["sentinel_password_file"]) == (None, "f")


def test_a_place_with_a_prefix_is_that_of_its_options(cli, spark, monkeypatch):
    from rsmq.spark.pipelines.queues import Queues

    places = []
    monkeypatch.setattr(Queues, "reach", lambda queues: places.extend([queues]))
    monkeypatch.setattr(Queues, "require", lambda *_: None)
    session = importlib.import_module("rsmq.spark.pipelines.session")
    monkeypatch.setattr(session, "check_environment", lambda _: sys.exit(9))

    def run(*arguments):
        places.clear()
        with pytest.raises(SystemExit):
            cli("pipeline", *arguments)
        return places

    source, target = run(
        "migrate", "--from-url", "redis://a/0", "--from-ns", "old", "--to-url", "redis://b/0",
        "--to-password-env", "P", "--to-any-names",
    )  # fmt: skip
    assert source == Queues("redis://a/0", "old")
    assert target == Queues("redis://b/0", password_env="P", strict_names=False)
    arguments = ("transform", "q", "json:loads", "--to", "r", "--checkpoint", "c")
    own, target = run(*arguments, "--to-ns", "other")
    assert target == dataclasses.replace(own, ns="other")


def test_missing_queue_of_the_pipeline_has_its_exit_code(cli, spark):
    assert cli("pipeline", "report", "none").code == 3


def test_a_migration_with_one_place_is_refused(cli, spark):
    places = ("--from-url", "redis://a/0", "--to-url", "redis://b/0")
    for arguments in (
        ("--ns", "x", "pipeline", "migrate", *places),
        ("pipeline", "migrate", *places, "--profile", "x"),
    ):
        assert "--from-url and --to-url" in cli(*arguments).error


def test_a_missing_extra_is_one_line(cli, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("pyspark", "rsmq.spark"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    result = cli("pipeline", "report")

    assert result.code == 2
    assert result.error.endswith(
        "needs the extra 'spark'. In a clone of the repository: pip install '.[spark]'"
    )
