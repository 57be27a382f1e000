"""The metrics that Prometheus reads, after programs with known numbers."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import threading
import urllib.request

import pytest
from prometheus_client import CollectorRegistry

from rsmq import BYTES, JSON, metrics
from rsmq.metrics import Metrics, serve
from rsmq.worker import DeadLetter, Discard, Middleware, Retry, event_payload
from tests.servers import free_port
from tests.workers.polling import wait_until


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def without_cache(monkeypatch):
    """Read queues at each scrape, without the cache."""
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 0)


def sample_value(registry, name, **labels):
    return registry.get_sample_value(f"rsmq_{name}", labels)


def samples(registry):
    """Return the name and labels of all samples, except the creation times of counters."""
    return [
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]


def test_all_outcomes_are_counted_by_queue(env, rsmq, registry):
    env.create_queues("q", "other", "dead")
    worker = env.create_worker(middleware=[Metrics(registry)])
    errors = {"discard": Discard(), "dead": DeadLetter("no"), "retry": Retry(after=500)}

    @worker.listener("q", dead_letter_queue="dead", backoff=500)
    def handle(body):
        if body == "value":
            raise ValueError
        if body in errors:
            raise errors[body]

    @worker.listener("other")
    async def later(body):
        await asyncio.sleep(0.02)

    rsmq.send_messages("q", [*errors, "value", "fine", "fine", "fine"])
    rsmq.send_message("other", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 4 and worker.numbers.retried == 2)
    wait_until(lambda: worker.numbers.dead == worker.numbers.dropped == 1)
    worker.stop()

    assert sample_value(registry, "messages_received_total", queue="q") == 7
    assert sample_value(registry, "messages_handled_total", queue="q") == 3
    assert sample_value(registry, "messages_retried_total", queue="q") == 2
    assert sample_value(registry, "messages_dead_lettered_total", queue="q", target="dead") == 1
    assert sample_value(registry, "messages_dropped_total", queue="q") == 1
    assert {
        kind: sample_value(registry, "messages_failed_total", queue="q", exception=kind)
        for kind in ("ValueError", "Retry", "DeadLetter", "Discard")
    } == {"ValueError": 1, "Retry": 1, "DeadLetter": 1, "Discard": None}
    assert sample_value(registry, "messages_handled_total", queue="other") == 1
    assert sample_value(registry, "handler_seconds_count", queue="q") == 7
    assert sample_value(registry, "handler_seconds_count", queue="other") == 1
    assert 0.02 <= sample_value(registry, "handler_seconds_sum", queue="other") < 1
    assert sample_value(registry, "handler_seconds_bucket", queue="other", le="0.01") == 0
    assert sample_value(registry, "handler_seconds_bucket", queue="other", le="+Inf") == 1
    assert sample_value(registry, "handlers_running", queue="q") == 0


def test_messages_without_a_handler_call_count_as_failed(env, rsmq, registry):
    class Refuses(Middleware):
        def before_handle(self, message):
            if message.raw == b'"refused:1"':
                raise ValueError

    env.create_queues("q", "dead", "lost")
    worker = env.create_worker(middleware=[Refuses(), Metrics(registry)])
    worker.router(
        "q", by=event_payload, codec=JSON, dead_letter_queue="dead", unroutable="lost", backoff=500
    ).on("a", "refused")(lambda payload: None)
    rsmq.send_messages("q", [b"{", b'"b:1"', b'"a:1"', b'"refused:1"'], codec=BYTES)
    worker.start()
    wait_until(lambda: worker.numbers.dead == 2 and worker.numbers.handled == 1)
    wait_until(lambda: worker.numbers.retried == 1)
    worker.stop()

    assert sample_value(registry, "handlers_running", queue="q") == 0
    assert sample_value(registry, "messages_handled_total", queue="q") == 1
    assert {
        kind: sample_value(registry, "messages_failed_total", queue="q", exception=kind)
        for kind in ("BodyNotDecodable", "Unroutable", "ValueError")
    } == {"BodyNotDecodable": 1, "Unroutable": 1, "ValueError": 1}
    assert sample_value(registry, "messages_dead_lettered_total", queue="q", target="dead") == 1
    assert sample_value(registry, "messages_dead_lettered_total", queue="q", target="lost") == 1


def test_batches_are_counted_per_message(env, rsmq, registry):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)], concurrency=1)

    @worker.listener("q", batch=10, backoff=500)
    def handle(bodies, messages):
        messages[0].fail(ValueError())

    rsmq.send_messages("q", ["x"] * 5)
    worker.start()
    wait_until(lambda: worker.numbers.handled == 4 and worker.numbers.retried == 1)
    worker.stop()

    assert sample_value(registry, "messages_received_total", queue="q") == 5
    assert sample_value(registry, "messages_handled_total", queue="q") == 4
    assert sample_value(registry, "messages_failed_total", queue="q", exception="ValueError") == 1
    assert sample_value(registry, "handlers_running", queue="q") == 0


def test_released_messages_and_lost_leases_are_counted(env, rsmq, registry, gate):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)], concurrency=1)
    worker.listener("q", batch=3)(lambda bodies: gate())
    rsmq.send_messages("q", ["x"] * 3)
    worker.start()
    gate.wait_for(1)
    assert sample_value(registry, "handlers_running", queue="q") == 3
    worker.stop(0)

    assert sample_value(registry, "messages_released_total", queue="q") == 3
    assert sample_value(registry, "leases_lost_total", queue="q") == 3
    gate.open()
    wait_until(lambda: sample_value(registry, "handlers_running", queue="q") == 0)


def test_hung_handler_and_its_next_attempt_are_counted_once_each(
    env, rsmq, registry, gate, fast_heartbeat
):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)], concurrency=1)
    calls = []

    @worker.listener("q", vt=0.2, max_runtime=0.05, backoff=0)
    def handle(body):
        calls.append(body)
        if len(calls) == 1:
            gate()

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)
    gate.open()
    wait_until(lambda: gate.passed == 1)
    worker.stop()

    assert (
        sample_value(registry, "messages_failed_total", queue="q", exception="HandlerTimedOut") == 1
    )
    wait_until(lambda: sample_value(registry, "handlers_running", queue="q") == 0)


def test_queue_gauges_show_the_current_state(env, rsmq, registry, without_cache):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)])
    started = threading.Event()
    worker.listener("q", backoff=500)(lambda body: started.set() or 1 / 0)
    rsmq.send_message("q", "fails")
    worker.start()
    wait_until(lambda: worker.numbers.retried == 1)
    rsmq.pause_queue("q")
    rsmq.send_message("q", "later", delay=100)
    old = rsmq.send_message("q", "x", delay=200)

    assert sample_value(registry, "queue_messages", queue="q") == 3
    assert sample_value(registry, "queue_visible", queue="q") == 0
    assert sample_value(registry, "queue_hidden", queue="q") == 3
    assert sample_value(registry, "queue_in_flight", queue="q") == 1
    assert 0 <= sample_value(registry, "queue_oldest_seconds", queue="q") < 20
    worker.stop()
    assert sample_value(registry, "queue_messages", queue="q") is None
    assert old


def test_an_empty_queue_has_no_oldest_message(env, rsmq, registry, without_cache):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)])
    worker.listener("q")(lambda body: None)
    worker.start()

    assert sample_value(registry, "queue_messages", queue="q") == 0
    assert sample_value(registry, "queue_oldest_seconds", queue="q") == 0


def test_large_queue_is_not_walked(env, rsmq, registry, without_cache, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_WALKED_MESSAGES", 2)
    env.create_queues("q")
    rsmq.pause_queue("q")
    rsmq.send_messages("q", ["x"] * 3)
    worker = env.create_worker(middleware=[Metrics(registry)])
    worker.listener("q")(lambda body: None)
    worker.start()

    assert sample_value(registry, "queue_messages", queue="q") == 3
    assert sample_value(registry, "queue_in_flight", queue="q") is None
    assert sample_value(registry, "queue_oldest_seconds", queue="q") is None


def test_queue_gauges_are_cached_for_some_seconds(env, rsmq, registry):
    env.create_queues("q")
    rsmq.pause_queue("q")
    worker = env.create_worker(middleware=[Metrics(registry)])
    worker.listener("q")(lambda body: None)
    worker.start()
    assert sample_value(registry, "queue_messages", queue="q") == 0
    rsmq.send_message("q", "x")

    assert sample_value(registry, "queue_messages", queue="q") == 0


def test_one_metrics_object_reports_each_queue_of_several_workers_once(
    env, rsmq, registry, without_cache
):
    env.create_queues("a", "b", "both")
    counted = Metrics(registry)
    first, second = (env.create_worker(middleware=[counted]) for _ in range(2))
    for worker, queue in ((first, "a"), (second, "b")):
        worker.listener(queue)(lambda body: None)
        worker.listener("both")(lambda body: None)
        worker.start()

    found = samples(registry)
    assert len(found) == len(set(found))
    assert {labels[0][1] for name, labels in found if name == "rsmq_queue_messages"} == {
        "a",
        "b",
        "both",
    }
    first.stop()
    assert sample_value(registry, "queue_messages", queue="a") is None
    assert sample_value(registry, "queue_messages", queue="both") == 0


def test_unreadable_queues_are_left_out(env, rsmq, registry, without_cache):
    env.create_queues("a", "b")
    worker = env.create_worker(middleware=[Metrics(registry)])
    worker.listener("a")(lambda body: None)
    worker.listener("b")(lambda body: None)
    worker.start()
    rsmq.delete_queue("a")

    assert sample_value(registry, "queue_messages", queue="a") is None
    assert sample_value(registry, "queue_messages", queue="b") == 0


def test_two_metrics_objects_need_two_registries(registry):
    Metrics(registry)
    Metrics(CollectorRegistry())

    with pytest.raises(ValueError, match="Duplicated timeseries"):
        Metrics(registry)


def test_metrics_are_scraped_over_http(env, rsmq):
    # The default registry belongs to the process; no other test uses it.
    env.create_queues("scraped")
    worker = env.create_worker(middleware=[Metrics()])
    worker.listener("scraped")(lambda body: None)
    worker.start()
    rsmq.send_message("scraped", "x")
    wait_until(lambda: worker.numbers.handled == 1)
    port = free_port()
    serve(port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()

    assert 'rsmq_messages_handled_total{queue="scraped"} 1.0' in text
    assert 'rsmq_queue_messages{queue="scraped"} 0.0' in text
    assert 'rsmq_handler_seconds_bucket{le="0.001",queue="scraped"}' in text


def test_port_in_use_is_an_error(env):
    with pytest.raises(OSError, match="in use"):
        serve(env.raw.connection_pool.connection_kwargs["port"])


def test_buckets_range_from_a_millisecond_to_an_hour():
    assert metrics._BUCKETS[0] == 0.001
    assert metrics._BUCKETS[-1] == 3600
    assert list(metrics._BUCKETS) == sorted(metrics._BUCKETS)
    assert not any(map(math.isinf, metrics._BUCKETS))


def test_without_prometheus_client_the_extra_is_named():
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "try:\n"
        "    import rsmq.metrics\n"
        "except ImportError as error:\n"
        "    print(type(error).__name__, error.text, error.hint, sep='|')\n"
        "import rsmq.worker, rsmq.cli.commands.worker\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert completed.stdout == (
        "MissingExtra|rsmq.metrics needs the extra 'metrics'|In a clone of the "
        "repository: pip install '.[metrics]'\n"
    )
