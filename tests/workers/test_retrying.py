"""Messages that wait for a retry: neither in flight nor work for a scaler."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from rsmq.metrics import QueueMetrics
from rsmq.worker import Defer, Retry
from tests.workers.polling import wait_until


@pytest.fixture(params=["redis", "memory"])
def backend(request):
    return request.param


def stored_error(env, id):
    return env.raw.hget(f"{env.ns}:q:x:retrying", id)


@pytest.mark.parametrize("kind", ["thread", "task", "batch"])
def test_failed_message_waits_with_its_error_and_its_next_time(env, rsmq, kind):
    env.create_queues("q")
    text = "é" * 600

    def handle(body, message):
        raise ValueError(text)

    async def handle_later(body, message):
        raise ValueError(text)

    def handle_batch(bodies, messages):
        raise ValueError(text)

    worker = env.create_worker(name="w")
    handler = {"thread": handle, "task": handle_later, "batch": handle_batch}[kind]
    options = {"batch": 10} if kind == "batch" else {}
    worker.listener("q", retry_forever=True, backoff=3600, **options)(handler)
    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.retried == 1)

    expected = "ValueError: " + "é" * 488
    assert stored_error(env, id) == f"1:{expected}".encode()
    message = rsmq.get_message("q", id)
    assert (message.state, message.last_error) == ("retrying", expected)
    assert message.visible_at_ms == env.raw.zscore(env.queue_key("q"), id)
    counts = rsmq.count_messages("q")
    assert (counts.visible, counts.in_flight, counts.retrying, counts.delayed) == (0, 0, 1, 0)


def test_retry_that_a_handler_asks_for_has_its_reason(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q")
    def handle(body, message):
        raise Retry("not yet", after=3600)

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.retried == 1)

    assert rsmq.get_message("q", id).last_error == "Retry: not yet"


def test_message_that_is_handled_at_last_leaves_no_error(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", retry_forever=True, backoff=0.01)
    def handle(body, message):
        if message.attempt < 3:
            raise ValueError(message.attempt)

    id = rsmq.send_message("q", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)

    assert env.is_empty("q")
    assert stored_error(env, id) is None


def test_messages_that_never_fail_store_nothing(env, rsmq):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q")
    def handle(body, message):
        if body == "later" and message.receive_count == 1:
            raise Defer("locked", after=0)

    rsmq.send_messages("q", ["x", "later"])
    worker.start()
    wait_until(lambda: worker.numbers.handled == 2)

    assert not env.raw.exists(f"{env.ns}:q:x:retrying")


def test_metrics_and_the_number_for_scalers_tell_them_apart(env, rsmq, gate, monkeypatch):
    monkeypatch.setattr("rsmq.figures.reader.FRESH_SECONDS", 0)
    env.create_queues("q")
    worker = env.create_worker(concurrency=2)

    @worker.listener("q", retry_forever=True, backoff=3600)
    def handle(body, message):
        if body == "bad":
            raise ValueError(body)
        gate()

    rsmq.send_messages("q", ["bad", "bad", "slow"])
    worker.start()
    gate.wait_for(1)
    wait_until(lambda: worker.numbers.retried == 2)
    registry = CollectorRegistry()
    metrics = QueueMetrics(rsmq, registry=registry, interval=1)

    def value(name):
        return registry.get_sample_value(f"rsmq_queue_{name}", {"ns": env.ns, "queue": "q"})

    wait_until(lambda: value("messages") == 3)
    found = {name: value(name) for name in ("hidden", "in_flight", "retrying", "unfinished")}
    metrics.close()
    assert found == {"hidden": 3, "in_flight": 1, "retrying": 2, "unfinished": 1}


def test_metrics_of_a_long_queue_leave_out_what_they_do_not_count(env, rsmq, monkeypatch):
    monkeypatch.setattr("rsmq.figures.reader.MAX_WALKED_MESSAGES", 2)
    env.create_queues("q")
    rsmq.send_messages("q", ["x"] * 3)
    registry = CollectorRegistry()
    metrics = QueueMetrics(rsmq, registry=registry, interval=1)
    wait_until(
        lambda: registry.get_sample_value("rsmq_queue_messages", {"ns": env.ns, "queue": "q"}) == 3
    )
    retrying = registry.get_sample_value("rsmq_queue_retrying", {"ns": env.ns, "queue": "q"})
    metrics.close()

    assert retrying is None


def test_a_worker_reports_the_last_failures_of_its_queues(env, rsmq):
    names = [f"q{number}" for number in range(6)]
    env.create_queues(*names, "calm")
    worker = env.create_worker(name="w")
    reason = []

    @worker.listener("calm")
    def succeed(body):
        pass

    for name in names:

        @worker.listener(name, retry_forever=True, backoff=3600)
        def fail(body):
            raise TimeoutError(f"no answer\nto {body}{reason}")

    def failures():
        return {name: each.error for name, each in rsmq.workers.list()[0].failures.items()}

    rsmq.send_message("calm", "x")
    worker.start()
    wait_until(lambda: worker.numbers.handled == 1)
    assert b"failures" not in env.raw.hget(f"{env.ns}:x:workers", "w")
    for name in names:
        rsmq.send_message(name, name)
        wait_until(lambda name=name: name in failures())
    # One line each, of the five queues that failed last.
    assert failures() == {name: f"TimeoutError: no answer to {name}[]" for name in names[1:]}
    reason.append("x" * 900)
    rsmq.send_message("q1", "again")
    wait_until(lambda: "again" in failures()["q1"])
    assert len(failures()["q1"]) <= 300
    assert [each.kind for each in rsmq.workers.list()[0].failures.values()] == ["TimeoutError"] * 5
