"""``rsmq worker``, ``rsmq workers`` and ``rsmq pipeline``, with the location of ``rsmq``."""

from __future__ import annotations

import os
import sys

import pytest

from rsmq.operations.worker import Identity, register_worker


@pytest.fixture
def spark():
    """Skip without pyspark, which the pipeline needs. No job is run here."""
    pytest.importorskip("pyspark")


def test_workers_are_shown(cli, rsmq):
    assert len(cli("workers").lines) == 1
    info = {
        "host": "a b",
        "pid": 7,
        "queues": {"q": 2},
        "handled": 5,
        "failed": 1,
        "since_ms": 1e12,
    }
    rsmq.run(register_worker(Identity(rsmq.namespace, "w", "t"), info, ttl=5, dead=""))
    (worker,) = cli("workers", "--json").json

    assert cli("workers").lines[1].split()[:3] == ["w", "yes", "2001-09-09T01:46:40Z"]
    assert {name: worker[name] for name in ("name", "alive", "pid", "queues", "handled")} == {
        "name": "w", "alive": True, "pid": 7, "queues": {"q": 2}, "handled": 5,
    }  # fmt: skip


def test_worker_gets_its_arguments_and_the_location(cli, rsmq, raw, ns):
    rsmq.create_queue("q")

    assert cli("worker", "--pause", "q").out == "q: paused\n"
    assert raw.hexists(f"{ns}:q:Q", "x:paused")
    assert cli("worker", "--pause", "none").code == 3
    assert cli("--ns", "none", "worker", "--list").out.split()[:2] == ["NAME", "ALIVE"]
    assert "worker_of_nobody" in cli("worker", "worker_of_nobody:worker").stderr


def test_wrong_usage_of_a_program_has_exit_code_2(cli, spark):
    for name in ("worker", "pipeline"):
        with pytest.raises(SystemExit) as result:
            cli(name, "--no-such-option")
        assert result.value.code == 2


def test_pipeline_gets_the_location_without_its_password(cli, spark, monkeypatch):
    passed = {}

    def run(_call, args):
        passed.update(vars(args))
        return 0

    monkeypatch.setattr("rsmq.cli.commands.pipeline.run", run)
    url = "redis://user:ge%3Aheim@127.0.0.1:6379/3?protocol=3"
    assert cli("--url", url, "--json", "--any-names", "pipeline", "report", "q").code == 0

    assert passed["url"] == "redis://user@127.0.0.1:6379/3?protocol=3"
    assert os.environ.pop(passed["password_env"]) == "ge:heim"
    assert (passed["json"], passed["any_names"], passed["queues"]) == (True, True, ["q"])
    cli("pipeline", "report", "--ns", "given")
    assert passed["ns"] == "given"


def test_pipeline_gets_the_password_of_sentinels_by_the_environment(cli, spark, monkeypatch):
    passed = {}

    def run(_call, args):
        passed.update(vars(args))
        return 0

    monkeypatch.setattr("rsmq.cli.commands.pipeline.run", run)
    url = "redis+sentinel://:x@h:1,h:2/my/0?sentinel_password=y%40&protocol=3"
    assert cli("--url", url, "pipeline", "report", "q").code == 0

    assert passed["url"] == "redis+sentinel://h:1,h:2/my/0?protocol=3"
    assert os.environ.pop(passed["password_env"]) == "x"
    assert os.environ.pop(passed["sentinel_password_env"]) == "y@"
    cli("--url", url, "pipeline", "report", "--sentinel-password-file", "f")
    assert os.environ.pop(passed["password_env"]) == "x"
    assert (passed["sentinel_password_env"], passed["sentinel_password_file"]) == (None, "f")


def test_pipeline_gets_the_location_of_a_set_of_cells(cli, spark, monkeypatch):
    passed = {}

    def run(_call, args):
        passed.update(vars(args))
        return 0

    monkeypatch.setattr("rsmq.cli.commands.pipeline.run", run)
    urls = ["--url", "redis://:x@127.0.0.1:6379/0", "--url", "redis://:x@127.0.0.1:6380/0"]
    assert cli(*urls, "--cells", "2", "pipeline", "report").code == 0
    assert passed["url"] == "redis://127.0.0.1:6379/0 redis://127.0.0.1:6380/0"
    assert (passed["cells"], os.environ.pop(passed["password_env"])) == (2, "x")

    assert cli("pipeline", "report", *urls, "--cells", "3").code == 0
    assert (passed["url"].count("redis://"), passed["cells"]) == (2, 3)
    monkeypatch.setenv("RSMQ_CELLS", "4")
    cli("pipeline", "report")
    assert passed["cells"] == 4
    cli("pipeline", "report", "--ns", "{shop.0.fjs}")
    assert passed["cells"] is None

    urls[1] = "redis://:other@127.0.0.1:6379/0"
    assert "have different passwords" in cli(*urls, "--cells", "2", "pipeline", "report").error


def test_missing_queue_of_the_pipeline_has_its_exit_code(cli, spark):
    assert cli("pipeline", "report", "none").code == 3
    assert "--from-url and --to-url" in cli("--ns", "x", "pipeline", "migrate").error


def test_a_missing_extra_is_one_line(cli, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("pyspark", "rsmq.spark"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    result = cli("pipeline", "report")

    assert result.code == 2
    assert result.error.endswith(
        "needs the extra 'spark'. In a clone of the repository: pip install '.[spark]'"
    )
