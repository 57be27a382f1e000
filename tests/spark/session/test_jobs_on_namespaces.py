"""The jobs on several namespaces, as commands."""

from __future__ import annotations

import json
import sys

import pytest

from rsmq import RSMQ
from rsmq.cli import run_pipeline
from rsmq.spark import pipelines


class Place:
    """Two namespaces with a queue ``q``, of which each has a client."""

    def __init__(self, server, ns):
        self.server = server
        self.names = [f"{ns}-a", f"{{{ns}}}-b"]
        self.clients = [RSMQ.from_url(server.url, ns=name) for name in self.names]
        self.raw = server.raw()
        for client in self.clients:
            client.create_queue("q")

    def send(self, number, queue="q"):
        for client, letter in zip(self.clients, "ab", strict=True):
            client.send_messages(queue, [f"{letter}{each}" for each in range(number)])

    def messages(self, queue="q"):
        """Return the ids and bodies of each namespace, as Redis stores them."""
        found = []
        for name in self.names:
            ids = self.raw.zrange(f"{name}:{queue}", 0, -1)
            found.append({id: self.raw.hget(f"{name}:{queue}:Q", id) for id in ids})
        return found

    def close(self):
        for client, name in zip(self.clients, self.names, strict=True):
            client.close()
            for key in self.raw.keys(f"{name}:*"):
                self.raw.unlink(key)
        self.raw.close()


@pytest.fixture
def place(server, ns):
    place = Place(server, ns)
    yield place
    place.close()


@pytest.fixture
def run(spark, place, monkeypatch, capsys):
    """Return a function that runs a job, and returns its result, or its error."""
    monkeypatch.setattr(pipelines, "session", lambda *_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)

    def run(job, *arguments, ns=None, code=0):
        places = ["--url", place.server.url, "--ns", ns or ", ".join(place.names)]
        places = [] if job == "migrate" else places
        assert run_pipeline([job, *places, "--json", *arguments]) == code
        captured = capsys.readouterr()
        if code:
            return json.loads(captured.err.splitlines()[-1])
        return json.loads(captured.out.splitlines()[-1])["result"]

    return run


def test_an_archive_is_moved_and_restored_into_each_namespace(run, place, spark, tmp_path):
    place.send(30)
    before, path = place.messages(), str(tmp_path / "archive")
    assert run("archive", "q", path, "--batch", "25")["messages"] == 60
    assert place.messages() == [{}, {}]
    rows = spark.read.parquet(path).groupBy("ns").count().collect()
    assert sorted(map(tuple, rows)) == sorted((name, 30) for name in place.names)
    for name in place.names:
        replay = ["replay", path, "--restore", "--where", f"ns = '{name}'"]
        assert run(*replay, ns=name)["messages"] == 30
    assert place.messages() == before


def test_kept_messages_stay_in_each_namespace(run, place, spark, tmp_path):
    place.send(5)
    before, path = place.messages(), str(tmp_path / "copy")
    assert run("archive", "q", path, "--keep")["messages"] == 10
    assert place.messages() == before
    ids = {(row["ns"], row["id"].encode()) for row in spark.read.parquet(path).collect()}
    assert ids == {
        (name, id) for name, found in zip(place.names, before, strict=True) for id in found
    }


def test_an_archive_of_one_namespace_has_no_such_column(run, place, spark, tmp_path):
    place.send(2)
    assert run("archive", "q", str(tmp_path / "one"), ns=place.names[0])["messages"] == 2
    assert "ns" not in spark.read.parquet(str(tmp_path / "one")).columns


def test_all_namespaces_are_drained(run, place, tmp_path):
    place.send(10)
    path = tmp_path / "drained"
    assert run("drain", "q", "--path", str(path))["messages"] == 20
    lines = [
        json.loads(line) for file in path.glob("*.json") for line in file.read_text().splitlines()
    ]
    assert sorted((line["ns"], line["message"]) for line in lines) == sorted(
        (name, f"{letter}{each}")
        for name, letter in zip(place.names, "ab", strict=True)
        for each in range(10)
    )
    assert place.messages() == [{}, {}]


def test_a_report_names_the_queues_of_each_namespace(run, place):
    place.send(3)
    place.clients[0].create_queue("only")
    for client in place.clients:
        client.create_queue("dead")
    id, _ = [client.send_message("dead", "x") for client in place.clients]
    reason = {
        "queue": "q", "text": "failed", "exception": "ValueError: no", "traceback": None,
        "worker": "w", "attempts": 3,
    }  # fmt: skip
    place.raw.hset(f"{place.names[0]}:dead:x:reasons", id, f"1767225600000:{json.dumps(reason)}")
    first, second = place.names
    for queues in ([], ["q,dead"]):
        result = run("report", *queues)
        counts = {row["queue"]: row["messages"] for row in result["queues"]}
        counts.pop(f"{first}:only", None)
        assert counts == {
            f"{first}:q": 3,
            f"{first}:dead": 1,
            f"{second}:q": 3,
            f"{second}:dead": 1,
        }
        dead = [(row["queue"], row["cause"], row["messages"]) for row in result["dead_by_cause"]]
        assert dead == [(f"{first}:dead", "ValueError", 1)]
    sizes = {row["queue"]: row["bytes"] for row in run("report")["queues"]}
    assert sizes[f"{second}:q"] == 6
    assert sizes[f"{first}:only"] == 0


def test_messages_of_all_namespaces_are_transformed(run, place, tmp_path, monkeypatch):
    (tmp_path / "work_on_namespaces.py").write_text(
        "def add(frame):\n    return frame.selectExpr(\"concat(ns, ' ', message) AS message\")\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    place.send(4)
    checkpoint = ["--checkpoint", str(tmp_path / "checkpoint")]
    job = ["transform", "q", "work_on_namespaces:add", "--to", "new", *checkpoint]
    error = run(*job, "--create", code=2)
    assert "names several namespaces" in error["message"]
    assert run(*job, "--create", "--to-ns", place.names[1]) == {"messages": 8, "lost": 0}
    sys.modules.pop("work_on_namespaces")
    assert place.messages() == [{}, {}]
    assert sorted(body.decode() for body in place.messages("new")[1].values()) == sorted(
        f"{name} {letter}{each}"
        for name, letter in zip(place.names, "ab", strict=True)
        for each in range(4)
    )


def test_jobs_that_write_refuse_several_namespaces(run, place, tmp_path):
    both = ",".join(place.names)
    place.send(1)
    before = place.messages()
    (tmp_path / "rows.json").write_text('{"message": "a"}\n')
    url = place.server.url
    for job in (
        ["replay", str(tmp_path), "--kind", "json", "--queue", "q"],
        ["redrive", "q", "--to", "'q'", "--otherwise", "rest", "--checkpoint", str(tmp_path / "c")],
        ["migrate", "--from-url", url, "--from-ns", both, "--to-url", url, "--to-ns", "other"],
        [
            "migrate",
            "--from-url",
            url,
            "--from-ns",
            place.names[0],
            "--to-url",
            url,
            "--to-ns",
            both,
        ],
    ):
        error = run(*job, code=2)
        assert "names several namespaces, and this job writes into one" in error["message"]
    assert place.messages() == before
