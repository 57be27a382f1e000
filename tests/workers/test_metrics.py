"""The metrics that Prometheus reads, after programs with known numbers."""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from rsmq import BYTES, JSON, RSMQ, __version__
from rsmq.metrics import Metrics, QueueMetrics, queues, serve
from rsmq.metrics import workers as metric_workers
from rsmq.worker import DeadLetter, Defer, Discard, Middleware, Retry, Worker, event_payload
from tests.ports import free_port
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.workers.polling import wait_until


@pytest.fixture
def registry():
    return CollectorRegistry()


def sample_value(registry, name, **labels):
    """Return a value by its labels, which are complete but for the namespace; None without one."""
    found = [
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == f"rsmq_{name}"
        and {**sample.labels, "ns": labels.get("ns")} == {"ns": None, **labels}
        if "ns" not in labels or sample.labels["ns"] == labels["ns"]
    ]
    assert len(found) <= 1, found
    return found[0] if found else None


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
    } == {"ValueError": 1, "Retry": None, "DeadLetter": 1, "Discard": None}
    assert sample_value(registry, "messages_handled_total", queue="other") == 1
    assert sample_value(registry, "handler_duration_seconds_count", queue="q") == 7
    assert sample_value(registry, "handler_duration_seconds_count", queue="other") == 1
    assert 0.02 <= sample_value(registry, "handler_duration_seconds_sum", queue="other") < 1
    assert sample_value(registry, "handler_duration_seconds_bucket", queue="other", le="0.01") == 0
    assert sample_value(registry, "handler_duration_seconds_bucket", queue="other", le="+Inf") == 1
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

    @worker.listener("q", vt=5, max_runtime=0.05, backoff=0)
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


def test_names_of_exceptions_are_bounded(env, rsmq, registry):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)])

    @worker.listener("q", drop=True, max_retries=0)
    def handle(body):
        raise type(f"Error{body}", (Exception,), {})

    rsmq.send_messages("q", [f"{number}" for number in range(130)])
    worker.run(until_empty=True)

    names = {
        sample.labels["exception"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "rsmq_messages_failed_total"
    }
    assert (len(names), names.pop("other")) == (101, 30)
    assert set(names.values()) == {1}


def test_requested_retry_is_no_failure(env, rsmq, registry):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)])

    @worker.listener("q")
    def handle(body, message):
        if message.attempt == 1:
            raise Retry(after=0)

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)

    assert worker.numbers.failed == 0
    assert sample_value(registry, "messages_retried_total", queue="q") == 1
    assert sample_value(registry, "messages_failed_total", queue="q", exception="Retry") is None


def test_a_deferral_is_no_failure(env, rsmq, registry):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)])

    @worker.listener("q")
    def handle(body, message):
        if message.receive_count == 1:
            raise Defer(after=0)

    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)

    assert sample_value(registry, "messages_deferred_total", queue="q") == 1
    assert sample_value(registry, "messages_retried_total", queue="q") == 0
    assert sample_value(registry, "messages_failed_total", queue="q", exception="Defer") is None


def test_wait_of_a_message_is_measured_at_its_first_attempt(env, rsmq, registry):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)])

    @worker.listener("q", backoff=0)
    def handle(body, message):
        if message.attempt == 1:
            raise ValueError

    rsmq.send_message("q", "x", delay=1)
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)
    name = "message_wait_duration_seconds"

    assert sample_value(registry, f"{name}_count", queue="q") == 1
    assert 1 <= sample_value(registry, f"{name}_sum", queue="q") < 10
    assert sample_value(registry, "handler_duration_seconds_count", queue="q") == 2


def test_dead_letters_have_a_series_before_the_first_one(env, rsmq, registry):
    """An increase from 0 is seen by ``increase()``; a series that begins with 1 has none."""
    env.create_queues("q", "other", "none", "dead", "of-policy")
    rsmq.set_dead_letter_policy("other", "of-policy", 3)
    worker = env.create_worker(middleware=[Metrics(registry)])
    worker.listener("q", dead_letter_queue="dead")(print)
    worker.listener("other")(print)
    worker.listener("none", drop=True)(print)
    worker.start()
    worker.stop()

    targets = {
        (sample.labels["queue"], sample.labels["target"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "rsmq_messages_dead_lettered_total"
    }
    assert targets == {("q", "dead"): 0, ("other", "of-policy"): 0}


def test_running_workers_have_an_info_metric(env, registry):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)], name="w")
    worker.listener("q")(lambda body: None)
    worker.start()
    labels = {
        "worker": "w", "host": socket.gethostname(), "pid": str(os.getpid()),
        "version": __version__,
    }  # fmt: skip
    assert sample_value(registry, "worker_info", **labels) == 1
    worker.stop()

    assert sample_value(registry, "worker_info", **labels) == 0


def test_no_series_has_a_creation_time(env, rsmq, registry):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry, queues=True)])
    worker.listener("q")(lambda body: None)
    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)

    assert "_created" not in generate_latest(registry).decode()


def test_each_metric_in_the_documentation_exists(env, registry):
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "workers.md").read_text() + (docs / "webhooks.md").read_text()
    documented = set(re.findall(r"`(rsmq_[a-z_]+)`", text))
    documented |= {f"rsmq_messages{name}" for name in re.findall(r"`(_[a-z]+_total)`", text)}
    documented |= set(re.findall(r"sum\((rsmq_[a-z_]+)", text))
    Metrics(registry, queues=True)
    existing = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for collector in list(registry._collector_to_names)
        for family in collector.describe()
    }

    assert documented == existing


# Queues.


@pytest.fixture
def queue_metrics(env, registry, monkeypatch):
    """Return a function that creates metrics of queues, which are read every 10 ms."""
    monkeypatch.setattr(queues, "check_duration", lambda item, value, low: 0.01)
    monkeypatch.setattr("rsmq.figures.reader.FRESH_SECONDS", 0)
    created = []

    def create(*names, rsmq=env.rsmq):
        created.append(QueueMetrics(rsmq, *names, registry=registry))
        return created[-1]

    yield create
    for each in created:
        with suppress(KeyError):
            each.close()


def test_the_lag_of_consumers_does_not_include_delayed_messages(env, rsmq, registry, queue_metrics):
    env.create_queues("late", "delayed")
    (id,) = rsmq.send_messages("late", ["x"])
    rsmq.send_message("late", "delayed", delay=9999)
    rsmq.send_message("delayed", "x", delay=9999)
    env.raw.zincrby(env.queue_key("late"), -5_000_000, id)
    rsmq.pause_queue("delayed")
    queue_metrics()
    wait_until(lambda: sample_value(registry, "queue_messages", queue="late") == 2)
    wait_until(lambda: sample_value(registry, "queue_messages", queue="delayed") is not None)

    assert sample_value(registry, "queue_oldest_due_seconds", queue="late") >= 5000
    assert sample_value(registry, "queue_oldest_seconds", queue="late") < 5000
    assert sample_value(registry, "queue_oldest_due_seconds", queue="delayed") == 0
    assert sample_value(registry, "queue_paused", queue="late") == 0
    assert sample_value(registry, "queue_paused", queue="delayed") == 1


def test_queue_gauges_show_the_current_state(env, rsmq, registry, queue_metrics):
    env.create_queues("q", "dead")
    rsmq.set_dead_letter_policy("q", "dead", 3)
    rsmq.send_messages("dead", ["x"] * 2)
    rsmq.send_messages("q", ["x"] * 3)
    rsmq.receive_message("q", vt=100)
    rsmq.send_message("q", "later", delay=100)
    queue_metrics()
    wait_until(lambda: sample_value(registry, "queue_messages", queue="q") == 4)

    assert sample_value(registry, "queue_visible", queue="q") == 2
    assert sample_value(registry, "queue_hidden", queue="q") == 2
    assert sample_value(registry, "queue_in_flight", queue="q") == 1
    assert sample_value(registry, "queue_unfinished", queue="q") == 3
    assert 0 <= sample_value(registry, "queue_oldest_seconds", queue="q") < 20
    assert 0 <= sample_value(registry, "queue_oldest_due_seconds", queue="q") < 20
    assert sample_value(registry, "queue_paused", queue="q") == 0
    assert sample_value(registry, "queue_dead_letters", queue="q") == 2
    assert sample_value(registry, "queue_dead_letters", queue="dead") is None
    assert 0 <= sample_value(registry, "queue_read_age_seconds", queue="q") < 20
    assert sample_value(registry, "up") == 1
    env.create_queues("new")
    wait_until(lambda: sample_value(registry, "queue_messages", queue="new") == 0)
    assert sample_value(registry, "queue_oldest_seconds", queue="new") == 0
    rsmq.delete_queue("new")
    wait_until(lambda: sample_value(registry, "queue_messages", queue="new") is None)


def test_queues_are_chosen_by_names_and_patterns(env, registry, queue_metrics):
    env.create_queues("orders", "orders-dead", "mail", "other")
    queue_metrics(["orders*", "mail", "missing"])
    wait_until(lambda: sample_value(registry, "queue_messages", queue="orders-dead") == 0)
    wait_until(lambda: sample_value(registry, "queue_messages", queue="mail") == 0)
    found = {
        dict(labels)["queue"] for name, labels in samples(registry) if name == "rsmq_queue_messages"
    }

    assert found == {"orders", "orders-dead", "mail"}


def test_queues_that_can_not_be_read_do_not_hide_others(env, rsmq, registry, queue_metrics):
    env.create_queues("a", "policy", "dead", "z")
    rsmq.set_dead_letter_policy("policy", "dead", 3)
    rsmq.delete_queue("dead")
    env.raw.set(f"{env.ns}:broken:Q", "not a hash")
    env.raw.set(f"{env.ns}:x:workers", "not a hash")
    queue_metrics(["broken", "missing", "a", "policy", "z"])
    for queue in ("a", "policy", "z"):
        wait_until(lambda queue=queue: sample_value(registry, "queue_messages", queue=queue) == 0)

    assert sample_value(registry, "up") == 1
    assert sample_value(registry, "queue_dead_letters", queue="policy") is None


def test_long_queue_counts_the_messages_that_workers_have(
    env, rsmq, registry, queue_metrics, gate, monkeypatch
):
    monkeypatch.setattr("rsmq.figures.reader.MAX_WALKED_MESSAGES", 2)
    env.create_queues("q")
    worker = env.create_worker(concurrency=2)
    worker.listener("q")(lambda body: gate())
    rsmq.send_messages("q", ["x"] * 5)
    rsmq.send_message("q", "later", delay=100)
    worker.start()
    gate.wait_for(2)
    queue_metrics()
    wait_until(lambda: sample_value(registry, "queue_in_flight", queue="q") == 2)

    assert sample_value(registry, "queue_hidden", queue="q") == 3
    assert sample_value(registry, "queue_unfinished", queue="q") == 5


def test_scrape_makes_no_call_to_redis(env, rsmq, registry):
    env.create_queues("q")
    worker = env.create_worker(middleware=[Metrics(registry)])
    worker.listener("q")(lambda body: None)
    rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)
    worker.stop()
    watched = env.create_client()
    metrics = QueueMetrics(watched, registry=registry, interval=3600)
    wait_until(lambda: sample_value(registry, "queue_messages", queue="q") == 0)
    calls = []
    run = watched.run
    watched.run = lambda operation: calls.append(operation) or run(operation)
    before = env.raw.info("stats")["total_commands_processed"]
    for _ in range(20):
        generate_latest(registry)
    after = env.raw.info("stats")["total_commands_processed"]
    metrics.close()

    assert calls == []
    assert after - before == 1, "INFO itself"


def test_numbers_vanish_and_their_age_stays_while_redis_hangs(
    env, registry, queue_metrics, monkeypatch
):
    monkeypatch.setattr(queues, "STALE_SECONDS", 0.3)
    monkeypatch.setattr(queues, "ROUND_SECONDS", 0.3)
    server = Server(redis_7())
    process = server.process
    with RSMQ.from_url(server.url) as rsmq:
        rsmq.create_queue("q")
        metrics = queue_metrics(rsmq=rsmq)
        wait_until(lambda: sample_value(registry, "queue_messages", queue="q") == 0)
        os.kill(process.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: sample_value(registry, "up") == 0)
            wait_until(lambda: sample_value(registry, "queue_messages", queue="q") is None)
            assert sample_value(registry, "queue_read_age_seconds", queue="q") > 0.3
        finally:
            os.kill(process.pid, signal.SIGCONT)
        wait_until(lambda: sample_value(registry, "queue_messages", queue="q") == 0)
        wait_until(lambda: sample_value(registry, "up") == 1)
        metrics.close()
    server.stop()


def test_workers_report_their_queues_if_this_is_wanted(env, registry, monkeypatch):
    monkeypatch.setattr(metric_workers, "INTERVAL_SECONDS", 0.01)
    env.create_queues("a", "b", "both")
    counted = Metrics(registry, queues=True)
    first, second = (env.create_worker(middleware=[counted]) for _ in range(2))
    for worker, queue in ((first, "a"), (second, "b")):
        worker.listener(queue)(lambda body: None)
        worker.listener("both")(lambda body: None)
        worker.start()
    for queue in ("a", "b", "both"):
        wait_until(lambda queue=queue: sample_value(registry, "queue_messages", queue=queue) == 0)
    found = samples(registry)
    assert len(found) == len(set(found))
    first.stop()
    wait_until(lambda: sample_value(registry, "queue_messages", queue="a") is None)
    assert sample_value(registry, "queue_messages", queue="both") == 0
    second.stop()
    assert sample_value(registry, "queue_messages", queue="both") is None


def test_a_namespace_that_fails_does_not_hide_the_others(env, server, registry, queue_metrics):
    env.create_queues("q")
    own_server = Server(redis_7())
    with RSMQ.from_url(own_server.url, ns="away", retry_deadline=0) as away:
        away.create_queue("q")
        metrics = queue_metrics(rsmq=[away, env.rsmq])
        for ns in ("away", env.ns):
            wait_until(lambda ns=ns: sample_value(registry, "up", ns=ns) == 1)
            assert sample_value(registry, "queue_messages", ns=ns, queue="q") == 0
        own_server.kill()
        env.rsmq.send_message("q", "x")
        wait_until(lambda: sample_value(registry, "up", ns="away") == 0)
        wait_until(lambda: sample_value(registry, "queue_messages", ns=env.ns, queue="q") == 1)
        assert sample_value(registry, "up", ns=env.ns) == 1
        metrics.close()
    own_server.stop()


def test_one_object_counts_the_workers_of_each_namespace(env, server, rsmq, registry):
    metrics = Metrics(registry)
    with RSMQ.from_url(server.url, ns=f"{env.ns}:other") as other:
        for number, client in enumerate((rsmq, other), 1):
            client.create_queue("q")
            client.send_messages("q", ["x"] * number)
            worker = Worker(client, middleware=[metrics])
            worker.listener("q")(lambda body: None)
            worker.run(until_empty=True, timeout=WAIT_SECONDS)
            ns = client.namespace.name
            assert sample_value(registry, "messages_handled_total", ns=ns, queue="q") == number


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

    assert f'rsmq_messages_handled_total{{ns="{env.ns}",queue="scraped"}} 1.0' in text
    assert (
        f'rsmq_handler_duration_seconds_bucket{{le="0.001",ns="{env.ns}",queue="scraped"}}' in text
    )


def test_port_in_use_is_an_error(env):
    with pytest.raises(OSError, match="in use"):
        serve(env.raw.connection_pool.connection_kwargs["port"])


def test_buckets_range_from_a_millisecond_to_an_hour():
    assert metric_workers.BUCKETS[0] == 0.001
    assert metric_workers.BUCKETS[-1] == 3600
    assert list(metric_workers.BUCKETS) == sorted(metric_workers.BUCKETS)
    assert not any(map(math.isinf, metric_workers.BUCKETS))


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
