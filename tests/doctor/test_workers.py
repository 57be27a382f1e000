"""An entry of the registry that another program has written hides no worker and ends nothing."""

import json
import logging

import pytest
from prometheus_client import CollectorRegistry

from rsmq.doctor import examine
from rsmq.metrics import QueueMetrics, queues
from rsmq.worker import list_workers
from tests.workers.polling import wait_until

ALIVE = json.dumps({"queues": {"q": 1}, "host": "h", "pid": 1}).encode()
ENTRIES = [
    b"",
    b"text",
    b"soon:t:{}",
    b"9" * 5000 + b":t:{}",
    b"1:t:[]",
    b"1:t:no JSON",
    b"1:t:" + b"[" * 100_000,
    b'1:t:{"pid": "x"}',
    b'1:t:{"pid": null}',
    b'1:t:{"pid": 1e999}',
    b'1:t:{"queues": []}',
    b'1:t:{"queues": {"q": "many"}}',
    b'1:t:{"deaths": 1}',
    b"\xff:t:{}",
]


@pytest.fixture
def alive_ms(raw):
    return raw.time()[0] * 1000 + 3_600_000


@pytest.mark.parametrize("entry", ENTRIES, ids=range(len(ENTRIES)))
def test_an_entry_that_cannot_be_read_is_left_out_and_found_by_the_doctor(
    rsmq, raw, ns, cli, alive_ms, entry
):
    rsmq.create_queue("q")
    raw.hset(f"{ns}:x:workers", mapping={"bad": entry, "good": b"%d:t:%s" % (alive_ms, ALIVE)})

    assert [(each.name, each.queues) for each in list_workers(rsmq)] == [("good", {"q": 1})]
    found = {(each.code, each.text) for each in examine(rsmq).findings}
    assert [text for code, text in found if code == "unreadable-worker"] == [
        "the entry of worker bad in the registry can't be read"
    ]
    assert "good" in cli("workers").out
    assert cli("why", "q").code == 0


def test_the_exporter_outlives_what_it_cannot_read(rsmq, ns, monkeypatch, caplog):
    monkeypatch.setattr(queues, "check_duration", lambda item, value, low: 0.01)
    rsmq.create_queue("q")
    rounds = iter([None, ValueError("unexpected"), ValueError("unexpected")])

    def list_or_fail(client):
        error = next(rounds, None)
        if error is not None:
            raise error
        return list_workers(client)

    monkeypatch.setattr(queues, "list_workers", list_or_fail)
    registry = CollectorRegistry()
    with caplog.at_level(logging.WARNING, "rsmq.metrics"):
        metrics = QueueMetrics(rsmq, ["q"], registry=registry)
        wait_until(lambda: "can be read again" in caplog.text)
        wait_until(lambda: registry.get_sample_value("rsmq_up", {"ns": ns}) == 1)
    metrics.close()
    assert [each.getMessage() for each in caplog.records if not each.exc_info] == [
        f"metrics: the queues of {ns} can't be read: ValueError",
        f"metrics: the queues of {ns} can be read again",
    ]
