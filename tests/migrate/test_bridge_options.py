"""Bridges to streams, with a rate, with a limit, and their metrics."""

from __future__ import annotations

import pytest
import redis
from prometheus_client import CollectorRegistry, generate_latest

from rsmq import InvalidValue
from rsmq.metrics import BridgeMetrics
from rsmq.migrate import Bridge, Inward, Lists, Outward, ToList, ToStream
from rsmq.migrate.operations import OutgoingMessage, forward_messages
from tests.migrate.keyed_server import Server
from tests.migrate.stored import read_bodies
from tests.ports import free_port
from tests.workers.polling import wait_until


@pytest.mark.parametrize("is_remote", [False, True])
def test_bridge_adds_entries_to_a_stream(local, remote, raw, ns, is_remote):
    source = remote if is_remote else local
    source.rsmq.create_queue("q")
    contents = ["a", "", "ü", "{}"]
    ids = source.rsmq.send_messages("q", contents)
    moved = Bridge(Outward(source, "q", local, ToStream(f"{ns}:events")), limit=4).run()

    assert moved == 4
    entries = [fields for _, fields in raw.xrange(f"{ns}:events")]
    assert [each[b"body"].decode() for each in entries] == contents
    assert [each[b"id"].decode() for each in entries] == ids
    assert [each[b"receive_count"] for each in entries] == [b"1"] * 4
    assert [int(each[b"sent_ms"]) for each in entries] == [int(id[:10], 36) // 1000 for id in ids]
    assert entries[0].keys() == {b"body", b"id", b"receive_count", b"sent_ms"}
    assert source.raw.zcard(f"{ns}:q") == 0
    assert not any(id.encode() in source.raw.hgetall(f"{ns}:q:Q") for id in ids)


def test_repeated_forward_to_a_stream_adds_nothing(rsmq, raw, ns):
    rsmq.create_queue("q")
    rsmq.send_message("q", "a")
    message = rsmq.receive_message("q")
    to = ToStream(f"{ns}:events")
    operation = forward_messages(
        rsmq.namespace.queue("q"), to.shape, to.key, [to.departure(message)]
    )
    assert rsmq.run(operation) == b"1"
    before = dump_keys_of(raw, ns)

    assert rsmq.run(operation) == b"0"
    assert dump_keys_of(raw, ns) == before
    assert raw.xlen(f"{ns}:events") == 1


def test_forward_to_a_key_of_another_type_changes_nothing(rsmq, raw, ns):
    rsmq.create_queue("q")
    rsmq.send_message("q", "a")
    message = rsmq.receive_message("q")
    raw.set(f"{ns}:events", "text")
    operation = forward_messages(
        rsmq.namespace.queue("q"),
        "stream",
        f"{ns}:events".encode(),
        [OutgoingMessage(message, b"", b"", {b"body": b"a"})],
    )
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        rsmq.run(operation)

    assert read_bodies(raw, ns, "q") == [b"a"]


def dump_keys_of(raw, ns):
    return {key: raw.dump(key) for key in raw.scan_iter(f"{ns}:*")}


@pytest.mark.parametrize("is_inward", [True, False])
def test_bridge_ends_at_its_limit(local, raw, ns, is_inward):
    if is_inward:
        raw.lpush(f"{ns}:work", *range(10))
        side = Inward(Lists(local), f"{ns}:work", local, "q")
    else:
        local.rsmq.create_queue("q")
        local.rsmq.send_messages("q", [f"{number}" for number in range(10)])
        side = Outward(local, "q", local, ToList(f"{ns}:work"))
    bridge = Bridge(side, limit=7)

    assert bridge.run() == bridge.moved == 7
    in_queue, in_list = raw.zcard(f"{ns}:q"), raw.llen(f"{ns}:work")
    assert (in_queue, in_list) == ((7, 3) if is_inward else (3, 7))


def test_bridge_keeps_its_rate(local, raw, ns, monkeypatch):
    """After each step it pauses for as long as its messages may take."""
    raw.lpush(f"{ns}:work", *range(10))
    pauses = []
    bridge = Bridge(Inward(Lists(local), f"{ns}:work", local, "q"), rate=4, limit=10)
    monkeypatch.setattr(bridge, "_stopped", _Pauses(pauses))
    bridge.run()

    assert pauses == [1.0, 1.0]
    assert raw.zcard(f"{ns}:q") == 10


def test_slow_rate_moves_single_messages(local, raw, ns, monkeypatch):
    raw.lpush(f"{ns}:work", *range(3))
    pauses = []
    bridge = Bridge(Inward(Lists(local), f"{ns}:work", local, "q"), rate=0.1, limit=3)
    monkeypatch.setattr(bridge, "_stopped", _Pauses(pauses))
    bridge.run()

    assert pauses == [10.0, 10.0]


class _Pauses:
    """A flag that is never set, and records the timeouts of its waits."""

    def __init__(self, pauses):
        self._pauses = pauses

    @staticmethod
    def is_set():
        return False

    def wait(self, seconds):
        self._pauses.append(seconds)


@pytest.mark.parametrize("options", [
    {"rate": 0}, {"rate": -1}, {"rate": float("nan")}, {"rate": float("inf")}, {"limit": 0},
])  # fmt: skip
def test_wrong_rate_or_limit_is_refused(local, options):
    (name,) = options
    with pytest.raises(InvalidValue, match=name):
        Bridge(Outward(local, "q", local, ToList("l")), **options)


def test_error_names_what_was_moved(local, raw, ns):
    raw.lpush(f"{ns}:work", *range(5))
    steps = []

    def delete_target(moved):
        steps.append(moved)
        raw.set(f"{ns}:q2", "x")
        raw.rename(f"{ns}:q2", f"{ns}:q")
        raw.lpush(f"{ns}:work", "6")

    bridge = Bridge(Inward(Lists(local), f"{ns}:work", local, "q"), delete_target)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE") as caught:
        bridge.run()

    assert steps == [5]
    (note,) = caught.value.__notes__
    assert note == "5 messages moved before. Run it again: it continues."


def test_metrics_of_a_bridge(local, raw, ns):
    raw.lpush(f"{ns}:work", *range(5))
    registry = CollectorRegistry()
    bridge = Bridge(Inward(Lists(local), f"{ns}:work", local, "q"), limit=3)
    BridgeMetrics(bridge, "list:work", "q", registry)
    labels = '{source="list:work",target="q"}'

    def read():
        lines = generate_latest(registry).decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    before = read()
    assert before[f"rsmq_bridge_moved_total{labels}"] == "0.0"
    wait_until(lambda: read().get(f"rsmq_bridge_waiting{labels}") == "5.0")
    assert before[f"rsmq_bridge_last_move_timestamp_seconds{labels}"] == "0.0"
    bridge.run()
    after = read()
    assert after[f"rsmq_bridge_moved_total{labels}"] == "3.0"
    wait_until(lambda: read().get(f"rsmq_bridge_waiting{labels}") == "2.0")
    assert after[f"rsmq_bridge_reconnects_total{labels}"] == "0.0"
    assert float(after[f"rsmq_bridge_last_move_timestamp_seconds{labels}"]) > 1_700_000_000


def test_metrics_of_a_bridge_whose_server_is_away(local):
    registry = CollectorRegistry()
    with Server.from_url(f"redis://127.0.0.1:{free_port()}") as away:
        for number, side in enumerate(
            (Inward(Lists(away), "work", local, "q"), Outward(away, "q", local, ToList("l")))
        ):
            BridgeMetrics(Bridge(side), f"{number}", "q", registry)
        text = generate_latest(registry).decode()

    assert "rsmq_bridge_moved_total" in text
    assert "rsmq_bridge_waiting" not in text
