"""Metrics and gauges of sets of cells."""

from __future__ import annotations

import pytest
import redis
from prometheus_client import CollectorRegistry, generate_latest

from rsmq import Cells, CellsMismatch, QueueNotFound
from rsmq.figures import QueueReader
from rsmq.metrics import QueueMetrics, queues
from tests.ports import free_port
from tests.sets import SetOfCells, set_of_cells
from tests.workers.polling import wait_until


@pytest.fixture
def cells(server, raw, ns, monkeypatch):
    monkeypatch.setattr(queues, "check_duration", lambda item, value, low: 0.01)
    monkeypatch.setattr("rsmq.figures.reader.FRESH_SECONDS", 0)
    with set_of_cells(SetOfCells, server.url, raw, ns) as cells:
        cells.client.create_queue("q")
        cells.client.create_queue("dead")
        yield cells


@pytest.fixture
def partly(cells):
    """A client of the set that can't reach cell 2."""
    urls = [cells.url, cells.url, f"redis://127.0.0.1:{free_port()}"]
    with Cells.from_url(urls, cells=3, ns=cells.ns) as client:
        yield client


def count_commands(raw, call):
    """Return how many calls of scripts, and how many steps of lists, a call makes."""

    def count():
        stats = raw.info("commandstats")
        names = ("evalsha", "eval", "sscan")
        return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names)

    before = count()
    call()
    return count() - before


def test_figures_of_a_queue_are_sums(cells):
    cells.client.set_dead_letter_policy("q", "dead", 3)
    cells.send()
    cells.send("dead", 1)
    cells.client.receive_message("q", vt=100)
    registry = CollectorRegistry()
    metrics = QueueMetrics(cells.client, registry=registry)
    wait_until(lambda: registry.get_sample_value("rsmq_queue_in_flight", {"queue": "q"}) == 1)

    def value(name):
        return registry.get_sample_value(f"rsmq_queue_{name}", {"queue": "q"})

    assert (value("messages"), value("visible"), value("unfinished")) == (6, 5, 6)
    assert value("dead_letters") == 3
    assert 0 <= value("oldest_seconds") < 20
    text = generate_latest(registry).decode()
    metrics.close()
    assert "rsmq_up 1.0\n" in text
    assert [line for line in text.splitlines() if "cell=" in line] == [
        f'rsmq_cell_up{{cell="{cell}"}} 1.0' for cell in range(3)
    ]


def test_cell_that_is_down_is_left_out_and_reported(cells, partly):
    cells.send()
    registry = CollectorRegistry()
    metrics = QueueMetrics(partly, ["q"], registry=registry)
    wait_until(lambda: registry.get_sample_value("rsmq_queue_messages", {"queue": "q"}) == 4)
    wait_until(lambda: registry.get_sample_value("rsmq_cell_up", {"cell": "2"}) == 0)

    assert registry.get_sample_value("rsmq_cell_up", {"cell": "0"}) == 1
    assert registry.get_sample_value("rsmq_up") == 0
    assert registry.get_sample_value("rsmq_queue_messages", {"queue": "dead"}) is None
    metrics.close()


def test_round_takes_two_round_trips_for_each_cell(cells, raw):
    for number in range(20):
        cells.client.create_queue(f"q{number}")
    reader = QueueReader(cells.client)
    reader.begin_round([])

    assert count_commands(raw, lambda: reader.begin_round(["q", "*"])) == 6
    assert len(reader.list_queues()) == 22
    assert count_commands(raw, lambda: reader.get_queue_attributes("q7")) == 0


def test_round_of_named_queues_takes_one_round_trip_for_each_cell(cells, raw):
    reader = QueueReader(cells.client)
    reader.begin_round(["q"])

    assert count_commands(raw, lambda: reader.begin_round(["q", "dead"])) == 3


def test_round_of_a_plain_client_takes_a_round_trip_for_all_queues(rsmq, raw):
    for number in range(20):
        rsmq.create_queue(f"q{number}")
    reader = QueueReader(rsmq)

    assert count_commands(raw, lambda: reader.begin_round(["q7", "q8"])) == 1
    assert count_commands(raw, lambda: reader.begin_round(["q*"])) == 2
    assert count_commands(raw, lambda: reader.get_queue_attributes("q7")) == 0


def test_queue_that_only_some_cells_have_is_read(cells):
    cells.send()
    cells.client.cells[1].delete_queue("q")
    reader = QueueReader(cells.client)
    reader.begin_round([])
    attributes = reader.get_queue_attributes("q")

    assert attributes.messages == 4
    assert reader.read("q", attributes).oldest_seconds is not None
    assert reader.failures == {}


def test_queues_that_can_not_be_read_do_not_hide_others(cells, raw):
    raw.set(f"{cells.names[1]}:q", "another type")
    raw.hset(f"{cells.names[0]}:dead:Q", "vt", "soon")
    cells.client.create_queue("good")
    reader = QueueReader(cells.client)
    reader.begin_round(["missing", "*"])

    assert reader.get_queue_attributes("good").messages == 0
    assert reader.get_queue_attributes("q").vt == 30
    assert reader.get_queue_attributes("dead").vt == 30
    with pytest.raises(QueueNotFound):
        reader.get_queue_attributes("missing")


def test_unlisted_queue_is_read_when_it_is_asked_for(cells, raw):
    for name in cells.names:
        raw.srem(f"{name}:QUEUES", "dead")
    cells.send("dead", 1)
    reader = QueueReader(cells.client)
    reader.begin_round([])

    assert list(reader.list_queues()) == ["q"]
    assert reader.get_queue_attributes("dead").messages == 3


def test_long_queue_is_not_walked_through(cells, monkeypatch):
    monkeypatch.setattr("rsmq.figures.reader.MAX_WALKED_MESSAGES", 5)
    cells.send()
    reader = QueueReader(cells.client)
    reader.begin_round([])
    gauges = reader.read("q", reader.get_queue_attributes("q"))

    assert gauges.is_estimate
    assert gauges.oldest_seconds < 20


def test_reading_stores_no_records_and_refuses_another_set(cells, raw, server):
    with Cells.from_url(server.url, cells=2, ns=f"{cells.ns}-unused") as unused:
        QueueReader(unused).begin_round([])
        assert raw.keys(f"{{{cells.ns}-unused*") == []
    with (
        Cells.from_url(server.url, cells=4, ns=cells.ns) as wrong,
        pytest.raises(CellsMismatch, match="cell 0 of 3 of the set"),
    ):
        QueueReader(wrong).begin_round([])


def test_all_cells_down_is_an_error(cells):
    url = f"redis://127.0.0.1:{free_port()}"
    with Cells.from_url(url, cells=3, ns=cells.ns) as client:
        reader = QueueReader(client)
        with pytest.raises(redis.ConnectionError, match="refused"):
            reader.begin_round([])
        assert set(reader.failures) == {0, 1, 2}
