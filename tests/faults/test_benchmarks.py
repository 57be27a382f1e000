"""The parts of the benchmarks that do more than call the clients do what their pages say."""

from __future__ import annotations

import socket
import time

import pytest
import redis

from rsmq import RSMQ, Partitions
from scripts.benchmark import mixed
from scripts.benchmark.compare import compare
from scripts.benchmark.delay import DelayProxy
from scripts.benchmark.scale_partitions import (
    BATCH,
    Control,
    against_control,
    in_batches,
    one_by_one,
)
from tests.nodes import wait_until

COUNT = 6


@pytest.mark.parametrize(("batch", "work"), [(1, one_by_one), (BATCH, in_batches)])
def test_the_control_sends_receives_and_deletes_in_each_partition(cluster, batch, work):
    ns = f"control-{batch}"
    with Partitions.from_url(cluster.url, ns=ns, count=COUNT) as partitions:
        partitions.create_queue("q")
        work(partitions)  # loads the scripts
        before = [each.get_queue_attributes("q").total_sent for each in partitions.clients]
        control = Control(cluster, partitions.namespaces, batch)
        assert control.run([0, 1, 2, 3, 4, 5, 5]) == 7 * batch
        control.close()
        after = [each.get_queue_attributes("q") for each in partitions.clients]
    sent = [each.total_sent - earlier for each, earlier in zip(after, before, strict=True)]

    assert sent == [batch] * 5 + [2 * batch]
    assert [each.total_received for each in after] == [each.total_sent for each in after]
    for name in partitions.namespaces:
        assert cluster.raw.zcard(f"{name}:q") == 0
        assert not [field for field in cluster.raw.hkeys(f"{name}:q:Q") if len(field) >= 32]


def test_the_control_fails_without_its_scripts(cluster):
    with RSMQ.from_url(cluster.url, ns="{control}") as one:
        one.create_queue("q")
    for node in cluster.masters:
        node.ask("SCRIPT", "FLUSH")
    control = Control(cluster, ["{control}"], 1)

    with pytest.raises(Exception, match="NOSCRIPT"):
        control.run([0])
    control.close()


def test_the_price_of_the_control_is_added_to_that_of_one_namespace():
    one, many = (60e-6, 40e-6), (64e-6, 56e-6)
    control_one, control_many = (20e-6, 40e-6), (24e-6, 56e-6)

    assert against_control([(one, many, control_one, control_many)] * 3) == pytest.approx(1.0)
    assert against_control([(one, many, control_one, control_one)]) == pytest.approx(1.2)


def test_the_proxy_delays_both_directions_and_keeps_the_order(server):
    with DelayProxy(server.port, 0.05) as proxy:
        connection = redis.Connection(port=proxy.port, protocol=2)
        connection.connect()
        begin = time.monotonic()
        for number in range(300):
            connection.send_command("ECHO", f"{number:05}" * 1000)
        replies = [connection.read_response() for _ in range(300)]
        seconds = time.monotonic() - begin
        connection.disconnect()

    assert replies == [f"{number:05}".encode() * 1000 for number in range(300)]
    assert seconds >= 0.05


def test_the_proxy_closes_what_a_side_closes(server):
    with DelayProxy(server.port, 0.001) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
            connection.sendall(b"PING\r\nQUIT\r\n")
            answer = connection.makefile("rb").read()
        gone = redis.Redis(port=proxy.port, client_name="gone")
        gone.ping()
        gone.close()
        with server.raw() as raw:
            wait_until(lambda: not [each for each in raw.client_list() if each["name"] == "gone"])

    assert answer == b"+PONG\r\n+OK\r\n"


def test_mixed_traffic_of_all_clients_is_measured(monkeypatch):
    monkeypatch.setattr(mixed, "AT_A_TIME", (4,))
    monkeypatch.setattr(mixed, "ROUND_TRIP_SECONDS", 0.002)
    results = mixed.measure(2, 5, lambda schedule, description: schedule)

    assert [each["contender"] for each in results] == [*mixed.KINDS]
    for each in results:
        assert each["call_p99_ms"] >= each["call_p50_ms"] >= 2
        assert 0 < each["messages_per_second"]["median"] <= 4 / 0.006
        assert each["client_cpu_us"] > 0
    text = mixed.report(results)
    assert [line.split(" | ")[:2] for line in text.splitlines()[2:5]] == [
        [f"| {kind}", "4"] for kind in mixed.KINDS
    ]


def test_mixed_traffic_is_compared_with_a_saved_run():
    def run(rate):
        rates = {"median": rate, "middle_half": [rate * 0.99, rate * 1.01], "readings": [rate] * 5}
        figures = dict.fromkeys(mixed.KINDS, rates)
        figures[mixed.NODE] = {**rates, "median": 100, "middle_half": [99, 101]}
        return {
            "command": "scripts/bench", "date": "2026-12-01", "quick": False, "versions": {},
            "machine": {"cpu": "CPU", "system": "Linux"},
            "mixed": [
                {"contender": kind, "at_a_time": 50, "messages_per_second": found}
                for kind, found in figures.items()
            ],
        }  # fmt: skip

    text = compare(run(200), run(300))
    assert "| mixed traffic, 50 at a time: rsmq, threads | 200 | 300 | 1.50x |" in text
