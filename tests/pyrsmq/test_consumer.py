"""PyRSMQ's consumers: the outcome of messages, errors, and stop."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from rsmq import RSMQ
from rsmq.pyrsmq import InvalidParameterValue, RedisSMQConsumer, RedisSMQConsumerThread
from rsmq.transport import signals
from tests.bytecodes import signal_at
from tests.contract.conftest import CONSUMER
from tests.scale import WAIT_SECONDS


@pytest.fixture
def raw(server):
    client = server.raw()
    yield client
    for key in client.scan_iter("pc:*"):
        client.delete(key)
    client.close()


@pytest.fixture
def rsmq(server, raw):
    with RSMQ.from_url(server.url, ns="pc") as client:
        yield client


@pytest.fixture
def consume(server, raw):
    """A function that starts consumers, which stop at the end of the test."""
    started = []

    def start(processor, kind=RedisSMQConsumerThread, **options):
        options = {"port": server.port, "ns": "pc", "empty_queue_delay": 0.01, **options}
        consumer = kind("q", processor, **options)
        consumer.start()
        started.append(consumer)
        return consumer

    yield start
    for consumer in started:
        assert consumer.stop(10), "the consumer does not stop"
        consumer.join(WAIT_SECONDS)
        consumer.rsqm.quit()


def wait_for(condition, seconds=WAIT_SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition stays false"
        time.sleep(0.005)


def find_renewal_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("extends ")]


def test_processed_message_is_deleted(rsmq, raw, consume):
    seen = []

    def processor(id, message, rc, ts):
        seen.append((id, message, rc, ts))
        return True

    consume(processor)
    wait_for(lambda: raw.exists("pc:q:Q"))
    assert raw.smembers("pc:QUEUES") == {b"q"}
    ids = [rsmq.send_message("q", body) for body in ('{"a": 1}', "no json", "5")]
    wait_for(lambda: len(seen) == 3 and not raw.exists("pc:q"))

    assert [(id, message, rc) for id, message, rc, _ in seen] == [
        (ids[0], {"a": 1}, 1), (ids[1], "no json", 1), (ids[2], 5, 1),
    ]  # fmt: skip
    assert all(isinstance(ts, int) for _, _, _, ts in seen)
    assert find_renewal_threads() == []


def test_body_stays_text_without_decode(rsmq, raw, consume):
    seen = []
    rsmq.create_queue("q")
    rsmq.send_message("q", '{"a": 1}')
    consume(lambda message, **_: seen.append(message) or True, decode=False)
    wait_for(lambda: not raw.exists("pc:q"))

    assert seen == ['{"a": 1}']


@pytest.mark.parametrize("outcome", [False, None, ValueError("broken")])
def test_failed_message_is_received_again(rsmq, raw, consume, caplog, outcome):
    counts = []

    def processor(rc, **_):
        counts.append(rc)
        if len(counts) == 3:
            return True
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    rsmq.create_queue("q", vt=600)
    rsmq.send_message("q", "m")
    with caplog.at_level(logging.WARNING):
        consume(processor)
        wait_for(lambda: not raw.exists("pc:q"))

    assert counts == [1, 2, 3]
    assert find_renewal_threads() == []
    assert "Failed to process message" in caplog.text
    assert ("broken" in caplog.text) == isinstance(outcome, Exception)


def test_failed_message_waits_for_retry_delay(rsmq, raw, consume):
    done = threading.Event()
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "m")
    consume(lambda **_: done.set(), retry_delay="500")
    assert done.wait(WAIT_SECONDS)
    wait_for(lambda: raw.zscore("pc:q", id) > (time.time() + 400) * 1000)

    assert raw.hget("pc:q:Q", f"{id}:rc") == b"1"


def test_lease_is_renewed_while_the_processor_runs(rsmq, raw, consume):
    release = threading.Event()
    rsmq.create_queue("q", vt=1)
    id = rsmq.send_message("q", "m")
    consume(lambda **_: release.wait(WAIT_SECONDS))
    wait_for(lambda: raw.hexists("pc:q:Q", f"{id}:rc"))
    first = raw.zscore("pc:q", id)
    wait_for(lambda: raw.zscore("pc:q", id) > first + 900)

    assert rsmq.receive_message("q") is None
    assert raw.hget("pc:q:Q", f"{id}:rc") == b"1"
    release.set()
    wait_for(lambda: not raw.exists("pc:q"))
    assert find_renewal_threads() == []


def test_message_with_a_lost_lease_is_not_changed(rsmq, raw, consume, caplog):
    at_work, release = threading.Event(), threading.Event()

    def processor(**_):
        at_work.set()
        return release.wait(WAIT_SECONDS)

    rsmq.create_queue("q", vt=600)
    id = rsmq.send_message("q", "m")
    consume(processor)
    assert at_work.wait(WAIT_SECONDS)
    rsmq.change_message_visibility("q", id, 0)
    theirs = rsmq.receive_message("q")
    with caplog.at_level(logging.WARNING):
        release.set()
        wait_for(lambda: "another consumer" in caplog.text)

    assert raw.zscore("pc:q", id) > (time.time() + 500) * 1000
    assert rsmq.delete_message(theirs) is True


def test_vt_is_the_consumers_or_the_queues(rsmq, raw, server):
    options = {"port": server.port, "ns": "pc"}
    assert RedisSMQConsumer("q", print, vt=7, **options).vt == 7
    assert RedisSMQConsumer("q", print, **options).vt == 30
    rsmq.create_queue("q", vt=11)
    assert RedisSMQConsumer("q", print, **options).vt == 11


def test_consumer_survives_deletion_of_its_queue(rsmq, raw, consume, caplog):
    seen = []
    consume(lambda message, **_: seen.append(message) or True)
    wait_for(lambda: raw.exists("pc:q:Q"))
    with caplog.at_level(logging.WARNING):
        rsmq.delete_queue("q")
        wait_for(lambda: "does not exist" in caplog.text)
    rsmq.create_queue("q", exist_ok=True)
    rsmq.send_message("q", "after")
    wait_for(lambda: seen == ["after"])


def test_stop_ends_waiting_and_working_consumers(rsmq, raw, consume):
    consumer = consume(lambda **_: True, empty_queue_delay=3600)
    wait_for(lambda: raw.exists("pc:q:Q"))
    assert consumer.stop(30) is True
    consumer.join(WAIT_SECONDS)
    assert not consumer.is_alive()

    at_work, release = threading.Event(), threading.Event()
    worker = consume(lambda **_: at_work.set() or release.wait(WAIT_SECONDS))
    rsmq.send_message("q", "m")
    assert at_work.wait(WAIT_SECONDS)
    assert worker.stop() is False
    release.set()
    assert worker.stop(10) is True
    assert not raw.exists("pc:q")  # the message that was being processed is deleted


def test_run_in_the_calling_thread_ends_after_stop(rsmq, server):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    consumer = RedisSMQConsumer(
        "q", lambda **_: consumer.stop() or True, port=server.port, ns="pc", trace=True
    )
    consumer.run()
    consumer.rsqm.quit()

    assert rsmq.get_queue_attributes("q").messages == 0
    assert consumer.stop() is True


def test_stop_works_in_a_signal_handler_at_any_point(server, raw):
    consumer = RedisSMQConsumer(
        "q", lambda **_: True, port=server.port, ns="pc", empty_queue_delay=0.001
    )
    files = signals.__file__, threading.__file__
    for number in range(1, 1500, 7):
        with signal_at(number, *files, handler=consumer.stop) as was_signalled:
            consumer.run()  # it returns
        assert was_signalled
    consumer.rsqm.quit()


def test_hooks_of_a_subclass_are_called(rsmq, raw, consume):
    calls = []

    class Mine(RedisSMQConsumerThread):
        def on_success(self, msg):
            calls.append(("success", msg["message"]))
            super().on_success(msg)

        def on_failure(self, msg):
            calls.append(("failure", msg["message"]))
            super().on_failure(msg)

    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    consume(lambda rc, **_: rc > 1, kind=Mine)
    wait_for(lambda: not raw.exists("pc:q"))

    assert calls == [("failure", "m"), ("success", "m")]


def test_hook_that_raises_does_not_end_the_consumer(rsmq, raw, consume, caplog):
    class Mine(RedisSMQConsumerThread):
        def on_success(self, msg):
            if msg["message"] == "first":
                raise KeyError("metrics")
            super().on_success(msg)

    rsmq.create_queue("q", vt=600)
    rsmq.send_message("q", "first")
    rsmq.send_message("q", "second")
    with caplog.at_level(logging.WARNING):
        consume(lambda **_: True, kind=Mine)
        wait_for(lambda: len(raw.zrange("pc:q", 0, -1)) == 1)

    assert "metrics" in caplog.text


def test_body_that_json_cannot_parse_is_processed_as_text(rsmq, raw, consume):
    seen = []
    rsmq.create_queue("q", maxsize=-1)
    rsmq.send_message("q", "[" * 100_000)
    rsmq.send_message("q", "after")
    consume(lambda message, **_: seen.append(message) or True)
    wait_for(lambda: len(seen) == 2 and not raw.exists("pc:q"))

    assert seen == ["[" * 100_000, "after"]


def test_empty_queue_delay_none_is_no_delay(rsmq, raw, consume):
    seen = []
    consume(lambda message, **_: seen.append(message) or True, empty_queue_delay=None)
    wait_for(lambda: raw.exists("pc:q:Q"))
    rsmq.send_message("q", "m")
    wait_for(lambda: seen == ["m"])


def test_retry_delay_none_is_the_visibility_timeout(rsmq, raw, consume):
    done = threading.Event()
    rsmq.create_queue("q", vt=700)
    id = rsmq.send_message("q", "m")
    consumer = consume(lambda **_: done.set(), retry_delay=None)
    assert done.wait(WAIT_SECONDS)
    wait_for(lambda: raw.zscore("pc:q", id) > (time.time() + 600) * 1000)

    consumer.vt = 5
    assert consumer.vt == 5


def test_processor_can_delete_its_message(rsmq, raw, consume, caplog):
    rsmq.create_queue("q")
    with caplog.at_level(logging.WARNING):
        consume(lambda id, **_: rsmq.delete_message("q", id))
        rsmq.send_message("q", "m")
        wait_for(lambda: rsmq.get_queue_attributes("q").total_received and not raw.exists("pc:q"))

    assert caplog.text == ""


def test_hooks_can_be_called_with_only_an_id(rsmq, raw, server):
    rsmq.create_queue("q")
    consumer = RedisSMQConsumer("q", print, port=server.port, ns="pc", retry_delay=500)
    id = rsmq.send_message("q", "m")
    consumer.on_failure({"id": id})
    assert raw.zscore("pc:q", id) > (time.time() + 400) * 1000
    consumer.on_success({"id": id})
    assert not raw.exists("pc:q")
    consumer.on_success(None)
    consumer.on_failure(None)
    consumer.rsqm.quit()


def test_consumer_without_right_to_create_consumes_an_existing_queue(rsmq, raw, consume, caplog):
    rsmq.create_queue("q")
    raw.execute_command(
        "ACL", "SETUSER", "pc-consumer", "on", ">secret", "~pc:*", "-@all", *CONSUMER.split()
    )
    seen = []
    with caplog.at_level(logging.WARNING):
        consume(
            lambda message, **_: seen.append(message) or True,
            vt=30,
            options={"username": "pc-consumer", "password": "secret"},
        )
        rsmq.send_message("q", "m")
        wait_for(lambda: seen == ["m"])

    assert "was not created" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("name", ["retry_delay", "vt"])
def test_invalid_number_is_refused_by_the_constructor(server, name):
    with pytest.raises(InvalidParameterValue, match=f"'{name}'"):
        RedisSMQConsumer("q", print, port=server.port, **{name: -1})


def test_result_without_truth_value_is_a_failure(rsmq, raw, consume):
    class Neither:
        def __bool__(self):
            raise ValueError("neither")

    rsmq.create_queue("q", vt=600)
    rsmq.send_message("q", "m")
    consume(lambda rc, **_: Neither() if rc == 1 else True)
    wait_for(lambda: not raw.exists("pc:q"))


def test_keyboard_interrupt_releases_the_message(rsmq, raw, server):
    def processor(**_):
        raise KeyboardInterrupt

    rsmq.create_queue("q", vt=600)
    id = rsmq.send_message("q", "m")
    consumer = RedisSMQConsumer("q", processor, port=server.port, ns="pc")
    with pytest.raises(KeyboardInterrupt):
        consumer.run()
    consumer.rsqm.quit()

    assert rsmq.receive_message("q").id == id
    assert find_renewal_threads() == []


def test_consumer_thread_is_a_daemon(consume):
    consumer = consume(lambda **_: True)

    assert consumer.daemon
    assert consumer.name == "RedisSMQConsumer:q"
