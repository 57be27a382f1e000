"""The states of hidden messages: exact for few, and within their margin for many."""

from __future__ import annotations

from rsmq import AsyncRSMQ
from rsmq.figures import HiddenCounts, QueueReader, operations
from rsmq.figures.operations import parse_hidden, sample_hidden
from rsmq.web import create_app
from rsmq.web.estimates import estimate_counts
from tests.web.asgi import Http


def test_a_sample_has_a_margin_and_few_messages_have_none():
    assert parse_hidden([0, 0, 0, 0, 0]) == HiddenCounts()
    assert parse_hidden([10, 10, 7, 1, 0]) == HiddenCounts(7, 1, 2, 0)
    found = parse_hidden([200_000, 400, 300, 40, 0])
    assert (found.in_flight, found.retrying, found.delayed) == (150_000, 20_000, 30_000)
    assert 200_000 * 0.04 < found.margin < 200_000 * 0.05
    # None of 400 may still be 3 in 400 of all.
    assert parse_hidden([200_000, 400, 400, 0, 0]) == HiddenCounts(200_000, 0, 0, 1500)


async def _fill(queues, ns):
    """Create a queue with 300 visible, 900 delayed and 300 received messages."""
    await queues.create_queue("q")
    for _ in range(3):
        await queues.send_messages("q", ["m"] * 100)
        received = await queues.receive_messages("q", 100, vt=900)
    await queues.send_messages("q", ["m"] * 300)
    await queues.send_messages("q", ["m"] * 900, delay=800)
    return received


async def test_a_long_queue_is_counted_by_a_sample(server, ns, monkeypatch):
    async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
        received = await _fill(queues, ns)
        exact = await queues.count_messages("q")
        assert (await estimate_counts(queues, "q")).counts == exact
        for module in (operations, "rsmq.web.estimates"):
            target = module if isinstance(module, str) else module.__name__
            monkeypatch.setattr(f"{target}.MAX_WALKED_MESSAGES", 1000)
        found = await estimate_counts(queues, "q")
        assert found.is_estimate
        assert 0 < found.margin < 100
        for name in ("in_flight", "delayed", "retrying"):
            difference = abs(getattr(found.counts, name) - getattr(exact, name))
            assert difference <= found.margin
        assert found.counts.visible == exact.visible
        http = Http(create_app(queues, auth=False))
        shown = (await http("GET", "/queues/q/counts?estimate=true")).json
        assert (shown["margin"], shown["is_estimate"]) == (found.margin, True)
        assert (await http("GET", "/queues/q/counts")).json["margin"] == 0
        scaling = (await http("GET", "/queues/q/scaling")).json
        assert scaling["messages"] == 1500
        assert abs(scaling["unfinished"] - 600) <= found.margin
        assert received


def test_metrics_and_top_read_the_same_sample(rsmq, monkeypatch):
    monkeypatch.setattr("rsmq.figures.reader.MAX_WALKED_MESSAGES", 10)
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["m"] * 30, delay=900)
    rsmq.send_messages("q", ["m"] * 20)
    rsmq.receive_messages("q", 20, vt=900)
    reader = QueueReader(rsmq)
    reader.begin_round(["q"])
    gauges = reader.read("q", reader.get_queue_attributes("q"))
    assert gauges.hidden == HiddenCounts(20, 0, 30)
    assert gauges.is_estimate
    assert rsmq.run(sample_hidden(rsmq.namespace.queue("q"))) == HiddenCounts(20, 0, 30)
