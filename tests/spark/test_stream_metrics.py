"""The listener that exports streams to Prometheus, with the progress of Spark."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from rsmq.spark import StreamMetrics


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def listener(registry):
    return StreamMetrics(registry)


def report(listener, sources, *, run="run", name="archive", seconds=1.5, rate=200.0):
    progress = {
        "id": "id", "runId": run, "name": name, "inputRowsPerSecond": rate,
        "processedRowsPerSecond": 150.0, "durationMs": {"triggerExecution": seconds * 1000},
        "sources": [{"latestOffset": each} for each in sources],
    }  # fmt: skip
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress))))


def exported(registry):
    lines = generate_latest(registry).decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_the_figures_of_the_last_progress_are_exported(env, queue, registry, listener):
    env.rsmq.send_messages("q", ["a", "b", "c"], groups=["g", "g", "g"])
    env.rsmq.send_message("q", "later", delay=100)
    query = env.query(maxMessagesPerTrigger=1)
    assert exported(registry) == {}
    query.run()
    report(listener, [json.dumps(query.progress), None, "{}", {"0": 5}])
    query.poll()
    report(listener, [query.progress], seconds=0.5)

    of, backlog = '{query="archive"}', query.progress["backlog"]["q"]
    assert backlog["held_back"] == 1
    assert exported(registry) == {
        f"rsmq_stream_input_per_second{of}": "200.0",
        f"rsmq_stream_processed_per_second{of}": "150.0",
        f"rsmq_stream_lag{of}": "1.0",
        f"rsmq_stream_acknowledged_total{of}": "1.0",
        f"rsmq_stream_lost_total{of}": "0.0",
        f"rsmq_stream_batch_seconds_count{of}": "2.0",
        f"rsmq_stream_batch_seconds_sum{of}": "2.0",
        **{
            f'rsmq_stream_messages{{query="archive",queue="q",state="{state}"}}': f"{number}.0"
            for state, number in backlog.items()
        },
    }


def test_a_query_that_has_ended_has_no_metrics(env, queue, registry, listener):
    env.rsmq.send_message("q", "m")
    query = env.query()
    query.run()
    for run in ("one", "two"):
        report(listener, [query.progress], run=run, name=None if run == "two" else run)
    assert {'rsmq_stream_lag{query="one"}', 'rsmq_stream_lag{query="id"}'} < set(exported(registry))
    listener.onQueryTerminated(SimpleNamespace(runId="one"))
    listener.onQueryTerminated(SimpleNamespace(runId="unknown"))
    assert not [name for name in exported(registry) if "one" in name]
    listener.onQueryTerminated(SimpleNamespace(runId="two"))
    assert exported(registry) == {}


def test_queries_without_a_source_of_queues_are_left_out(registry, listener):
    report(listener, [None, "7", {"lag": 3}, '{"backlog": {}}'])
    assert exported(registry) == {}


def test_the_progress_names_queues_namespace_and_group(env, queue):
    env.rsmq.send_message("q", "m")
    query = env.query(queue="", subscribePattern="q.*", consumerGroup="nightly")
    query.poll()
    assert query.progress["description"] == (
        f"rsmq queue q.* of namespace {env.ns}, consumerGroup nightly"
    )
