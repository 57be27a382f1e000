"""The metrics of webhooks."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from rsmq.metrics import Metrics
from rsmq.worker import Middleware
from tests.push.conftest import wait_until
from tests.push.receiver import OK, Reply, reply
from tests.scale import WAIT_SECONDS


def test_pushes_by_status_their_duration_and_the_state_of_the_target(
    raw, ns, rsmq, receiver, make_worker
):
    answers = {b"a": OK, b"b": reply(404), b"c": reply(500), b"d": Reply(b"", close=True)}
    receiver.answer = lambda request: answers[request.body]
    registry = CollectorRegistry()
    rsmq.send_messages("q", ["a", "b", "c", "d", "a"])
    worker = make_worker(
        f"{receiver.url}?token=1", max_retries=0, middleware=[Metrics(registry)], concurrency=1
    )
    worker.run(until_empty=True, timeout=WAIT_SECONDS)

    def value(name, **labels):
        return registry.get_sample_value(
            name, {"ns": ns, "queue": "q", "target": f"{receiver.url}?***", **labels}
        )

    assert {
        status: value("rsmq_pushes_total", status=status)
        for status in ("2xx", "4xx", "5xx", "none")
    } == {"2xx": 2, "4xx": 1, "5xx": 1, "none": 1}
    assert value("rsmq_push_duration_seconds_count") == 5
    assert value("rsmq_push_target_state", state="closed") == 1
    assert value("rsmq_push_target_state", state="open") == 0

    answers[b"a"] = reply(410)
    rsmq.send_message("q", "a")
    with worker:
        wait_until(lambda: value("rsmq_push_target_state", state="gone") == 1)
    assert value("rsmq_push_target_state", state="closed") == 0
    assert b"token" not in generate_latest(registry)


def test_hooks_of_webhooks(rsmq, receiver, make_worker):
    calls = []

    class Recording(Middleware):
        def after_push(self, message, target, status, seconds):
            calls.append((message.id, target, status, seconds >= 0))

        def after_target_change(self, queue, target, state, answer):
            calls.append((queue, target, state, answer))

    id = rsmq.send_message("q", "x")
    make_worker(receiver.url, middleware=[Recording()]).run(until_empty=True, timeout=WAIT_SECONDS)

    assert calls == [("q", receiver.url, "closed", ""), (id, receiver.url, 204, True)]
