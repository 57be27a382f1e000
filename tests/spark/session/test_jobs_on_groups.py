"""Each job as a command, on a Redis Cluster and with Sentinels."""

from __future__ import annotations

import json
import sys

import pytest

from rsmq import RSMQ
from rsmq.cli import run_pipeline
from rsmq.spark import pipelines


class Place:
    """
    A namespace on several servers.

    Attributes:
        rsmq: its client.
    """

    def __init__(self, group, ns, raw):
        self.rsmq = RSMQ.from_url(group.url, ns=ns)
        self._group, self._ns, self._raw = group, ns, raw

    def location(self, prefix="--"):
        """Return the arguments of a command for this namespace."""
        return [f"{prefix}url", self._group.url, f"{prefix}ns", self._ns]

    def bodies(self, queue):
        """Return the bodies in a queue, from its raw keys."""
        ids = self._raw.zrange(f"{self._ns}:{queue}", 0, -1)
        bodies = self._raw.hmget(f"{self._ns}:{queue}:Q", ids) if ids else []
        return [body.decode() for body in bodies]

    def keys_beside(self, queue):
        """The keys of a queue beside it and its history."""
        keys = self._raw.keys(f"{self._ns}:{queue}:x:*")
        return [key for key in keys if not key.endswith((b":x:calls", b":x:call_times"))]

    def close(self):
        for queue in self.rsmq.list_queues():
            self.rsmq.delete_queue(queue)
        self.rsmq.close()


@pytest.fixture(params=["cluster", "sentinels"])
def places(request):
    """Two namespaces; on a cluster they are usually on different servers."""
    group = request.getfixturevalue(request.param)
    raw = group.raw if request.param == "cluster" else group.raw()
    names = ["{jobs}", "{copies}"] if request.param == "cluster" else ["jobs", "copies"]
    made = [Place(group, name, raw) for name in names]
    yield made
    for place in made:
        place.close()


@pytest.fixture
def run(spark, monkeypatch, capsys):
    """Return a function that runs a job and returns its result."""
    monkeypatch.setattr(pipelines, "session", lambda *_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)

    def run(*arguments):
        assert run_pipeline([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])["result"]

    return run


def test_each_command_runs_on_several_servers(run, places, tmp_path, monkeypatch):
    place, other = places
    here, there = place.location(), other.location("--to-")
    (tmp_path / "work_on_groups.py").write_text(
        "def upper(frame):\n    return frame.selectExpr('upper(message) AS message')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    archive, drained = str(tmp_path / "archive"), str(tmp_path / "drained")
    transform, redrive = str(tmp_path / "transform"), str(tmp_path / "redrive")
    sent = [f"m{number}" for number in range(12)]
    place.rsmq.create_queue("q")
    place.rsmq.create_queue("dead")
    place.rsmq.send_messages("q", sent)

    assert run("archive", *here, "q", archive)["messages"] == 12
    assert (place.bodies("q"), place.keys_beside("q")) == ([], [])
    replay = ["replay", *here, archive, "--queue", "q", "--write-id", "w"]
    assert run(*replay)["messages"] == 12
    assert run(*replay)["done_before"]
    assert place.bodies("q") == sent

    migrated = run("migrate", *place.location("--from-"), *there)
    assert (migrated["messages"], migrated["verified"]) == (12, True)
    assert other.bodies("q") == sent

    job = ["transform", *here, "q", "work_on_groups:upper", *there, "--to", "upper", "--create"]
    assert run(*job, "--checkpoint", transform)["messages"] == 12
    sys.modules.pop("work_on_groups")
    assert sorted(other.bodies("upper")) == sorted(body.upper() for body in sent)
    assert (place.bodies("q"), other.keys_beside("upper")) == ([], [])

    place.rsmq.send_messages("dead", ["timeout", "broken"])
    place.rsmq.create_queue("rest")
    to = ["--to", "CASE WHEN message = 'timeout' THEN 'q' END", "--otherwise", "rest"]
    assert run("redrive", *here, "dead", *to, "--checkpoint", redrive)["messages"] == 2
    assert (place.bodies("q"), place.bodies("rest")) == (["timeout"], ["broken"])

    queues = run("report", *here)["queues"]
    assert {row["queue"]: row["messages"] for row in queues} == {"q": 1, "dead": 0, "rest": 1}

    assert run("drain", *here, "q,rest", "--path", drained)["messages"] == 2
    assert place.bodies("q") + place.bodies("rest") == []
