"""The jobs on sets of cells, as commands."""

from __future__ import annotations

import json
import sys

import pytest

from rsmq import Cells
from rsmq.cli import run_pipeline
from rsmq.spark import pipelines
from rsmq.wire.cells import cell_of_key, name_of_cell
from tests.ports import free_port
from tests.servers import Server, redis_7

NUMBER = 3


class Set:
    """
    A set of three cells, of which the last one is on another server.

    Attributes:
        urls: the URL of each cell.
        ns: the name of the set.
        cells: its client.
    """

    def __init__(self, servers, ns):
        self.urls = [server.url for server in servers]
        self.ns = ns
        self.cells = Cells.from_url(self.urls, cells=NUMBER, ns=ns)
        self._raws = [server.raw() for server in servers]

    def location(self, prefix="--"):
        """Return the arguments of a command for this set."""
        urls = [argument for url in self.urls for argument in (f"{prefix}url", url)]
        return [*urls, f"{prefix}ns", self.ns, f"{prefix}cells", str(NUMBER)]

    def queue(self, cell, queue):
        """Return the raw fields and the raw ids with scores of the queue of a cell."""
        key = f"{name_of_cell(self.ns, cell)}:{queue}"
        raw = self._raws[cell]
        fields = raw.hgetall(f"{key}:Q")
        fields.pop(b"modified", None)
        return fields, raw.zrange(key, 0, -1, withscores=True)

    def state(self, queue):
        return [self.queue(cell, queue) for cell in range(NUMBER)]

    def bodies(self, queue):
        """Return the bodies in each cell, in the order of the queue."""
        return [
            [fields[id].decode() for id, _ in ids]
            for fields, ids in (self.queue(cell, queue) for cell in range(NUMBER))
        ]

    def all_bodies(self, queue):
        """Return the bodies in all cells, sorted."""
        return sorted(body for bodies in self.bodies(queue) for body in bodies)

    def store_reason(self, cell, queue, id, text):
        key = f"{name_of_cell(self.ns, cell)}:{queue}:x:reasons"
        self._raws[cell].hset(key, id, text)

    def keys_of_jobs(self, cell, queue):
        """Return the keys beside a queue that jobs should have removed."""
        return self._raws[cell].keys(f"{name_of_cell(self.ns, cell)}:{queue}:x:*")

    def close(self):
        self.cells.close()
        for raw in self._raws:
            for key in raw.keys(f"{{{self.ns}.*"):
                raw.unlink(key)
            raw.close()


@pytest.fixture(scope="module")
def other():
    started = Server(redis_7())
    yield started
    started.stop()


@pytest.fixture
def place(server, other, ns):
    place = Set([server, server, other], ns)
    place.cells.create_queue("q")
    yield place
    place.close()


@pytest.fixture
def run(spark, place, monkeypatch, capsys):
    """Return a function that runs a job on the set, and returns its result."""
    monkeypatch.setattr(pipelines, "session", lambda *_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)

    def run(job, *arguments, location=None, code=0):
        location = place.location() if location is None else location
        assert run_pipeline([job, *location, "--json", *arguments]) == code
        captured = capsys.readouterr()
        if code:
            return captured.err
        return json.loads(captured.out.splitlines()[-1])["result"]

    return run


def send(place, number, queue="q"):
    """Send messages with ten keys."""
    for each in range(number):
        place.cells.send_message(queue, f"{each % 10} {each}", key=f"k{each % 10}")


def test_an_archive_is_moved_and_restored_into_the_same_cells(run, place, spark, tmp_path):
    send(place, 60)
    place.cells.create_queue("again")
    before, path = place.state("q"), str(tmp_path / "archive")
    assert run("archive", "q", path, "--batch", "25")["messages"] == 60
    assert place.bodies("q") == [[], [], []]
    assert [place.keys_of_jobs(cell, "q") for cell in range(NUMBER)] == [[], [], []]
    ids = [row["id"] for row in spark.read.parquet(path).select("id").collect()]
    assert len({id for id in ids if id[:2] in {"0-", "1-", "2-"}}) == 60

    replay = ["replay", path, "--restore", "--where", "queue = 'q'"]
    assert run(*replay)["messages"] == 60
    restored = place.state("q")
    assert [[id for id, _ in ids] for _, ids in restored] == [
        [id for id, _ in ids] for _, ids in before
    ]
    assert place.bodies("q") != [[], [], []]

    again = ["replay", path, "--queue", "again", "--write-id", "w"]
    assert [run(*again)["done_before"] for _ in range(2)] == [False, True]
    assert place.all_bodies("again") == place.all_bodies("q")


def test_kept_messages_stay_in_their_cells(run, place, tmp_path):
    send(place, 30)
    place.cells.receive_messages("q", 5, vt=100)
    before, path = place.state("q"), str(tmp_path / "copy")
    assert run("archive", "q", path, "--keep")["messages"] == 30
    assert place.state("q") == before
    place.cells.purge_queue("q")
    assert run("replay", path, "--restore")["messages"] == 30
    assert [ids for _, ids in place.state("q")] == [ids for _, ids in before]


def test_transform_sends_rows_to_the_cells_of_their_keys(run, place, tmp_path, monkeypatch):
    (tmp_path / "work_on_cells.py").write_text(
        "def add_key(frame):\n"
        "    return frame.selectExpr(\"concat('k', split(message, ' ')[0]) AS key\", 'message')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    send(place, 40)
    checkpoint = ["--checkpoint", str(tmp_path / "checkpoint")]
    job = ["q", "work_on_cells:add_key", "--to", "keyed", "--create", *checkpoint]
    assert run("transform", *job) == {"messages": 40, "lost": 0}
    sys.modules.pop("work_on_cells")
    assert place.bodies("q") == [[], [], []]
    for cell, bodies in enumerate(place.bodies("keyed")):
        assert {cell_of_key(f"k{body.split()[0]}", NUMBER) for body in bodies} <= {cell}
    assert sum(map(len, place.bodies("keyed"))) == 40


def test_redrive_keeps_messages_in_their_cells(run, place, tmp_path):
    for name in ("dead", "rest"):
        place.cells.create_queue(name)
    send(place, 40, "dead")
    before = place.bodies("dead")
    assert all(before)
    to = ["--to", "CASE WHEN message LIKE '%3' THEN 'q' END", "--otherwise", "rest"]
    done = run("redrive", "dead", *to, "--checkpoint", str(tmp_path / "checkpoint"))
    assert done == {"messages": 40, "lost": 0}
    assert place.bodies("dead") == [[], [], []]
    for cell, bodies in enumerate(before):
        expected = [body for body in bodies if body.endswith("3")]
        assert sorted(place.bodies("q")[cell]) == sorted(expected)
        assert sorted(place.bodies("rest")[cell]) == sorted(set(bodies) - set(expected))


def test_report_counts_all_cells(run, place):
    send(place, 30)
    place.cells.cells[2].create_queue("only")
    place.cells.cells[2].delete_queue("only")
    place.cells.create_queue("dead")
    id = place.cells.cells[2].send_message("dead", "x")
    reason = {"queue": "q", "text": "failed", "exception": "ValueError: no", "traceback": None}
    stored = json.dumps({**reason, "worker": "w", "attempts": 3})
    place.store_reason(2, "dead", id, f"1767225600000:{stored}")
    before = place.state("q"), place.state("dead")
    result = run("report")
    assert {row["queue"]: row["messages"] for row in result["queues"]} == {"q": 30, "dead": 1}
    assert [(row["queue"], row["cause"], row["messages"]) for row in result["dead_by_cause"]] == [
        ("dead", "ValueError", 1)
    ]
    assert (place.state("q"), place.state("dead")) == before


def test_all_cells_are_drained(run, place, tmp_path):
    send(place, 30)
    sent = place.all_bodies("q")
    path = tmp_path / "drained"
    assert run("drain", "q", "--path", str(path))["messages"] == 30
    lines = [
        json.loads(line) for file in path.glob("*.json") for line in file.read_text().splitlines()
    ]
    assert sorted(line["message"] for line in lines) == sent
    assert place.bodies("q") == [[], [], []]


def test_each_cell_is_migrated_to_the_cell_of_its_number(run, place, server, other, ns):
    place.cells.create_queue("dead")
    place.cells.set_dead_letter_policy("q", "dead", 5)
    place.cells.cells[1].set_queue_attributes("q", vt=77)
    send(place, 60)
    place.cells.receive_messages("q", 10, vt=100)
    before = place.state("q")
    target = Set([other, server, server], f"{ns}-other")
    places = [*place.location("--from-"), *target.location("--to-")]
    for _ in range(2):
        result = run("migrate", location=places)
        assert result["verified"]
        assert (result["messages"], len(result["queues"])) == (60, 2)
        assert target.state("q") == before
    assert place.state("q") == before
    assert target.cells.get_queue_attributes("q").messages == 60

    target.cells.cells[1].set_queue_attributes("q", vt=30)
    run("migrate", "--queues", "q", location=places, code=1)
    target.close()


def test_groups_of_each_cell_are_migrated_and_restored(run, place, server, other, ns, tmp_path):
    names = [f"{group}{number}" for number in range(3) for group in "abcdef"]
    for name in names:
        place.cells.send_message("q", name, group=name[0])
    assert place.cells.count_messages("q").held_back == 12
    target = Set([other, server, server], f"{ns}-other")
    places = [*place.location("--from-"), *target.location("--to-")]
    assert run("migrate", location=places)["verified"]
    path = str(tmp_path / "archive")
    assert run("archive", "q", path, "--keep")["messages"] == 18
    place.cells.purge_queue("q")
    assert run("replay", path, "--restore")["messages"] == 18
    for each in (target, place):
        assert each.cells.count_messages("q").held_back == 12
        bodies = []
        while (message := each.cells.receive_message("q")) is not None:
            bodies.append(message.body)
            each.cells.delete_message(message)
        assert sorted(bodies) == sorted(names)
        assert [[b for b in bodies if b[0] == g] for g in "abcdef"] == [
            [f"{g}{number}" for number in range(3)] for g in "abcdef"
        ]
    target.close()


def test_migration_to_another_number_of_cells_is_refused(run, place, server, ns):
    send(place, 3)
    to = ["--to-url", server.url, "--to-ns", f"{ns}-plain"]
    error = json.loads(run("migrate", location=[*place.location("--from-"), *to], code=2))
    assert "has no cells, and the source 3 cells" in error["message"]
    assert "archive --keep" in error["message"]


def test_places_of_a_set_are_checked_before_spark_starts(run, place, monkeypatch):
    monkeypatch.setattr(pipelines, "session", None)
    assert "queueNotFound" in run("drain", "none", "--kind", "none", "--checkpoint", "c", code=3)
    place.cells.cells[1].delete_queue("q")
    assert "queueNotFound" in run("report", "q", code=3)
    urls = [*place.urls[:2], f"redis://127.0.0.1:{free_port()}"]
    down = [argument for url in urls for argument in ("--url", url)]
    set_of_cells = ["--ns", place.ns, "--cells", "3"]
    assert "Cell 2, the namespace" in run("report", location=[*down, *set_of_cells], code=4)
    assert "has 2 URLs for 3 cells" in run("report", location=[*down[2:], *set_of_cells], code=2)
    assert "cellsMismatch" in run(
        "report", location=[*place.location()[:-1], "4", *down[:2]], code=2
    )
