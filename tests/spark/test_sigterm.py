"""The end of the process of a streaming source by SIGTERM, as Spark ends it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from rsmq.spark.operations.batches import MAX_PART_MESSAGES
from rsmq.spark.stream.background import SuccessiveThreads, Timer
from rsmq.spark.stream.parts import BatchParts

GROUP = "movers"

#: The end of Spark's runner: its socket was closed, and the signal arrives before it calls stop.
RUNNER = """
    import json, signal, sys
    from rsmq.spark import RsmqDataSource

    source = RsmqDataSource(json.loads(sys.argv[1]))
    reader = source.streamReader(source.schema())
    try:
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        reader.partitions(start, end)
        raise EOFError
    finally:
        signal.raise_signal(signal.SIGTERM)
        reader.stop()
"""


@pytest.fixture(autouse=True)
def _default_handler():
    """The first reader handles the signal in each test, as in a process of its own."""
    handler = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, handler)


def send_signal(function, times=1):
    """Return a function that raises SIGTERM in this process, and calls another one after that."""
    left = [times]

    def call(*args, **options):
        if left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGTERM)
        return function(*args, **options)

    return call


def fields(env, queue="q"):
    return env.raw.hkeys(env.keys(queue).leases)


def test_signal_does_not_interrupt_a_stop(env, queue, monkeypatch):
    """Spark closes the socket of the reader, and sends the signal at about the same time."""
    query = env.query(consumerGroup=GROUP)
    env.rsmq.send_message("q", "m")
    query.poll()
    background = query.reader.consumer.background
    monkeypatch.setattr(background, "finish", send_signal(background.finish))
    assert GROUP.encode() in fields(env)
    query.reader.stop()
    assert GROUP.encode() not in fields(env)


@pytest.mark.parametrize("target", [(Timer, "start"), (SuccessiveThreads, "finish")])
def test_signal_ends_a_call_after_the_call(env, queue, target, monkeypatch):
    """An interrupted call may have acquired the lease, or have begun a thread that acquires it."""
    owner, name = target
    monkeypatch.setattr(owner, name, send_signal(getattr(owner, name)))
    query = env.query(consumerGroup=GROUP)
    env.rsmq.send_message("q", "m")
    with pytest.raises(SystemExit):
        query.request_offset()
    assert query.reader.consumer.heartbeat.is_alive()
    assert GROUP.encode() in fields(env)
    query.reader.stop()
    assert GROUP.encode() not in fields(env)


def test_batch_whose_offset_spark_does_not_get_is_released(env, queue, monkeypatch):
    ids = env.rsmq.send_messages("q", ["m"] * 4)
    query = env.query(limit=ReadMaxRows(2))
    receive = BatchParts.receive

    def receive_then_signal(*args):
        received = receive(*args)
        signal.raise_signal(signal.SIGTERM)
        return received

    monkeypatch.setattr(BatchParts, "receive", receive_then_signal)
    with pytest.raises(SystemExit):
        query.request_offset()
    assert env.fields()["totalrecv"] == b"2"
    query.reader.stop()
    assert [message.id for message in env.rsmq.receive_messages("q", 4)] == ids
    assert fields(env) == []


def test_batch_ahead_whose_offset_spark_does_not_get_is_released(env, queue, monkeypatch):
    ids = env.rsmq.send_messages("q", ["m"] * 6)
    query = env.query(limit=ReadMaxRows(2))
    query.run()
    queues = query.reader.consumer.queues
    monkeypatch.setattr(queues, "have_visible", send_signal(queues.have_visible))
    with pytest.raises(SystemExit):
        query.request_offset()
    query.reader.stop()
    assert [message.id for message in env.rsmq.receive_messages("q", 6)] == ids[2:]


def test_signal_interrupts_a_wait_only_in_the_wait(env, queue, monkeypatch):
    """After a wait outside of all methods the signal has its effect again."""
    query = env.query(consumerGroup=GROUP)
    query.request_offset()
    query.reader.sigterm.sleep(0)
    with pytest.raises(SystemExit):
        signal.raise_signal(signal.SIGTERM)
    query.reader.stop()
    assert fields(env) == []


def test_signal_ends_the_receive_of_a_batch(env, queue, monkeypatch):
    """Without a limit it would receive all messages first, which stay hidden then."""
    env.rsmq.send_messages("q", ["m"] * (2 * MAX_PART_MESSAGES))
    query = env.query(limit=ReadAllAvailable())
    receive = BatchParts.receive
    monkeypatch.setattr(BatchParts, "receive", send_signal(receive))
    with pytest.raises(SystemExit):
        query.request_offset()
    assert env.fields()["totalrecv"] == b"%d" % MAX_PART_MESSAGES
    query.reader.stop()
    assert fields(env) == []


def test_signal_ends_the_wait_for_another_holder(env, queue, monkeypatch):
    env.rsmq.create_queue("r")
    options = {"queue": "", "consumerGroup": GROUP}
    living = env.query(subscribe="r", **options)
    living.request_offset()
    held = env.raw.hget(env.keys("r").leases, GROUP)

    query = env.query(subscribe="q,r", **options)
    monkeypatch.setattr(time, "sleep", send_signal(time.sleep))
    with pytest.raises(SystemExit):
        query.request_offset()
    assert GROUP.encode() in fields(env)
    query.reader.stop()
    assert fields(env) == []
    assert env.raw.hget(env.keys("r").leases, GROUP) == held


def test_lease_is_released_if_the_signal_prevents_the_call_of_stop(env, queue):
    env.rsmq.send_message("q", "m")
    options = {**env.options(queue="q", consumerGroup=GROUP)}
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUNNER), json.dumps(options)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ended.returncode == 128 + signal.SIGTERM, ended.stderr
    batch = f"{GROUP}:1".encode()
    assert sorted(fields(env)) == [batch, batch + b":0"]
