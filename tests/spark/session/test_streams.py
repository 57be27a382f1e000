"""Streams in Spark itself, against live consumers, other clients and failures."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from compat.peers import Node
from rsmq import RSMQ
from rsmq.spark import AcknowledgeListener, StreamMetrics
from tests.servers import Server, redis_7


def progress_of(query):
    return [json.loads(progress.json) for progress in query.recentProgress]


def wait_until(condition, query=None):
    """Wait until a condition is true; fail if the query fails. Without a timeout of its own."""
    pause = threading.Event()
    while not condition():
        assert query is None or query.isActive, query.exception()
        pause.wait(0.05)


def messages_of(batches):
    return [message for number in list(batches) for message in batches[number]]


@pytest.fixture
def batches():
    """The messages of the batches of a stream, by number."""
    return {}


@pytest.fixture
def keep_batch(batches):
    def keep_batch(frame, number):
        batches[number] = [row["message"] for row in frame.collect()]

    return keep_batch


def test_due_messages_are_read_once_in_batches(rsmq, raw, ns, stream, finish, keep_batch, batches):
    rsmq.create_queue("q")
    rsmq.create_queue("r")
    rsmq.send_messages("q", [f"q{n}" for n in range(2500)])
    rsmq.send_messages("r", [f"r{n}" for n in range(300)])
    rsmq.send_message("q", "later", delay=500)
    frame = stream("q,r", maxMessagesPerTrigger=1000)
    query = finish(frame.writeStream.foreachBatch(keep_batch))

    assert [len(batches[number]) for number in sorted(batches)] == [1000, 1000, 800]
    assert Counter(messages_of(batches)) == Counter(
        [f"q{n}" for n in range(2500)] + [f"r{n}" for n in range(300)]
    )
    assert rsmq.get_queue_attributes("q").messages == 1
    assert rsmq.get_queue_attributes("r").messages == 0
    (last,) = [p["sources"][0] for p in progress_of(query) if p["batchId"] == 2]
    assert last["latestOffset"]["acknowledged"] == 2000
    backlog = {"visible": 0, "hidden": 801, "held_back": 0, "retrying": 0}
    assert last["latestOffset"]["backlog"]["q"] == backlog
    assert last["endOffset"]["queues"] == {"q": 800}
    finish(stream("q,r").writeStream.foreachBatch(keep_batch))
    assert len(batches) == 3


def test_a_stream_adds_no_variable_to_the_environment_that_all_streams_share(
    spark, rsmq, stream, finish
):
    """Spark does so without a lock; two streams that start at once could break it."""
    from rsmq.spark import register

    rsmq.create_queue("q")
    rsmq.send_message("q", "x")
    environment = dict(spark.sparkContext.environment)
    register(spark)
    assert spark.sparkContext.environment == environment
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    variables = manager.lookupDataSource("rsmq").dataSourceCls().envVars()
    before = set(variables)
    finish(stream("q").writeStream.format("noop"))

    assert variables["SPARK_BUFFER_SIZE"] != ""
    assert set(variables) == before


def test_repeated_action_reads_the_same_rows(rsmq, stream, finish):
    rsmq.create_queue("q")
    rsmq.send_messages("q", [str(n) for n in range(3000)])
    seen = []

    def collect_repeatedly(frame, _):
        seen.extend(sorted(row["id"] for row in frame.collect()) for _ in range(3))

    finish(stream("q").writeStream.foreachBatch(collect_repeatedly))
    assert len(seen[0]) == 3000
    assert seen[0] == seen[1] == seen[2]


def test_failed_sink_gets_the_same_batch_again(rsmq, stream, finish):
    rsmq.create_queue("q")
    rsmq.send_messages("q", [str(n) for n in range(500)])
    seen = []

    def fail_twice(frame, _):
        seen.append({row["id"] for row in frame.collect()})
        if len(seen) < 3:
            raise OSError("not yet")

    for _ in range(2):
        with pytest.raises(Exception, match="not yet"):
            finish(stream("q").writeStream.foreachBatch(fail_twice))
        rsmq.send_message("q", "more")
    finish(stream("q").writeStream.foreachBatch(fail_twice))

    assert seen[0] == seen[1] == seen[2]
    assert (len(seen[0]), len(seen[3])) == (500, 2)
    assert rsmq.get_queue_attributes("q").messages == 0


def test_poison_message_does_not_stop_a_query(rsmq, raw, ns, stream, finish, keep_batch, batches):
    from rsmq import BYTES

    rsmq.create_queue("q")
    rsmq.create_queue("dead")
    poison = rsmq.send_message("q", "comes too often")
    for _ in range(3):
        rsmq.receive_message("q", vt=0)
    rsmq.send_messages("q", [b"ok", b"\xff\xfe", b"", b"\x00"], codec=BYTES)
    frame = stream("q", maxReceiveCount=3, deadLetterQueue="dead")
    finish(frame.writeStream.foreachBatch(keep_batch))

    assert batches == {0: ["ok", "\ufffd\ufffd", "", "\x00"]}
    assert raw.zrange(f"{ns}:dead", 0, -1) == [poison.encode()]
    assert rsmq.get_queue_attributes("q").messages == 0


def test_node_sends_and_receives_while_a_stream_reads(
    server, ns, rsmq, stream, tmp_path, keep_batch, batches
):
    rsmq.create_queue("q")
    node = Node(server, ns)
    query = (
        stream("q", maxMessagesPerTrigger=50)
        .writeStream.foreachBatch(keep_batch)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    sent, received = [], []
    try:
        for n in range(300):
            node.send_message("q", f"node {n}")
            sent.append(f"node {n}")
            if n % 3 == 0:
                message = node.receive_message("q", vt=500)
                if message is not None:
                    received.append(message["message"])
                    node.delete_message("q", message["id"])
        wait_until(lambda: rsmq.get_queue_attributes("q").messages == 0, query)
    finally:
        query.stop()
        node.close()

    assert Counter(messages_of(batches) + received) == Counter(sent)
    assert batches


def test_a_message_wakes_an_idle_query(rsmq, stream, tmp_path, keep_batch, batches):
    rsmq.create_queue("q")
    query = (
        stream("q", idleWait=60)  # a query that polled every minute would exceed the test's timeout
        .writeStream.foreachBatch(keep_batch)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        for n in range(3):
            rsmq.send_message("q", str(n))
            wait_until(lambda n=n: str(n) in messages_of(batches), query)
    finally:
        query.stop()


def test_a_query_survives_a_restart_of_redis_and_a_script_flush(
    spark, tmp_path, keep_batch, batches
):
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    rsmq = RSMQ.from_url(server.url, retry_deadline=30)
    try:
        rsmq.create_queue("q")
        query = (
            spark.readStream.format("rsmq")
            .options(url=server.url, queue="q", maxMessagesPerTrigger=100)
            .load()
            .writeStream.foreachBatch(keep_batch)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        sent = []
        for restart in range(3):
            part = [f"{restart}-{n}" for n in range(500)]
            rsmq.send_messages("q", part)
            sent += part
            wait_until(lambda restart=restart: len(batches) > 5 * restart, query)
            if restart < 2:
                server.kill()
                server.start()
            else:
                with server.raw() as raw:
                    raw.script_flush()
        wait_until(lambda: rsmq.get_queue_attributes("q").messages == 0, query)
        query.stop()

        assert Counter(messages_of(batches)) == Counter(sent)
    finally:
        rsmq.close()
        server.stop()


def test_message_received_by_another_consumer_stays_and_counts_as_lost(
    rsmq, raw, ns, stream, finish
):
    rsmq.create_queue("q")
    ids = rsmq.send_messages("q", [str(n) for n in range(20)])
    received = []

    def steal(frame, number):
        frame.collect()
        if number == 0:
            raw.zadd(f"{ns}:q", {ids[4]: 1})  # as if its visibility timeout had ended
            received.append(rsmq.receive_message("q", vt=500))

    query = finish(stream("q", maxMessagesPerTrigger=10).writeStream.foreachBatch(steal))

    assert [message.id for message in received] == [ids[4]]
    assert raw.zrange(f"{ns}:q", 0, -1) == [ids[4].encode()]
    assert rsmq.delete_message(received[0])
    (last,) = [p["sources"][0] for p in progress_of(query) if p["batchId"] == 1]
    assert (last["latestOffset"]["lost"], last["latestOffset"]["acknowledged"]) == (1, 9)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_stream_is_written_once_for_each_batch(
    rsmq, raw, ns, stream, connection, finish, delivery
):
    rsmq.create_queue("q")
    rsmq.create_queue("target")
    rsmq.send_messages("q", [f"m{n}" for n in range(3000)])
    frame = stream("q", maxMessagesPerTrigger=1000).select("message")
    writer = frame.writeStream.format("rsmq").options(
        **connection, queue="target", delivery=delivery
    )
    query = finish(writer)

    ids = raw.zrange(f"{ns}:target", 0, -1)
    assert Counter(raw.hmget(f"{ns}:target:Q", ids)) == Counter(b"m%d" % n for n in range(3000))
    assert raw.hkeys(f"{ns}:x:written") == [str(query.id).encode()]


def test_complete_output_is_refused(rsmq, stream, connection, finish):
    rsmq.create_queue("q")
    counts = stream("q").groupBy("message").count().selectExpr("concat(message, count) AS message")
    with pytest.raises(Exception, match="a queue is appended to"):
        finish(
            counts.writeStream.outputMode("complete")
            .format("rsmq")
            .options(**connection, queue="q")
        )


def test_password_is_not_in_checkpoints_progress_plans_or_processes(
    server, ns, rsmq, spark, raw, tmp_path, monkeypatch, finish
):
    secret = "open-sesame-4711"
    raw.execute_command("ACL", "SETUSER", "job", "on", f">{secret}", "~*", "&*", "+@all")
    file = tmp_path / "secret"
    file.write_text(f"{secret}\n")
    rsmq.create_queue("q")
    rsmq.create_queue("target")
    rsmq.send_messages("q", ["a", "b"])
    connection = {"url": server.url, "ns": ns, "username": "job", "passwordFile": str(file)}
    frame = (
        spark.readStream.format("rsmq").options(**connection, queue="q").load().select("message")
    )
    query = finish(
        frame.writeStream.format("rsmq").options(
            **connection, queue="target", delivery="exactly-once"
        )
    )

    assert rsmq.get_queue_attributes("target").messages == 2
    checkpoint = tmp_path / "checkpoint"
    texts = [path.read_text(errors="replace") for path in checkpoint.rglob("*") if path.is_file()]
    texts += [progress.json for progress in query.recentProgress]
    texts.append(spark.read.format("rsmq").options(**connection, queue="q").load()
                 ._jdf.queryExecution().toString())  # fmt: skip
    assert texts
    assert not any(secret in text for text in texts)
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert secret not in lines
    raw.execute_command("ACL", "DELUSER", "job")


def test_missing_password_variable_is_reported(spark, server, ns, rsmq):
    rsmq.create_queue("q")
    reader = spark.read.format("rsmq").options(
        url=server.url, ns=ns, queue="q", passwordEnv="NO_SUCH_VARIABLE"
    )
    with pytest.raises(Exception, match="executorEnv"):
        reader.load().collect()


def test_checkpoint_has_only_a_version_a_lease_counts_and_the_namespace(
    rsmq, ns, stream, finish, tmp_path, keep_batch
):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a"] * 3)
    finish(stream("q", consumerGroup="nightly").writeStream.foreachBatch(keep_batch))

    offset = (Path(tmp_path) / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(offset) == {
        "version": 1, "lease": "nightly", "batch": 1, "queues": {"q": 3}, "query": "nightly:q",
        "ns": ns,
    }  # fmt: skip


def test_done_batch_is_acknowledged_before_the_next_trigger_and_after_the_commit_log(
    spark, server, rsmq, raw, ns, stream, tmp_path, keep_batch, batches
):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    listener = AcknowledgeListener(url=server.url, ns=ns)
    spark.streams.addListener(listener)
    query = (
        stream("q")
        .writeStream.foreachBatch(keep_batch)
        .trigger(processingTime="1 hour")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    log = tmp_path / "checkpoint" / "commits" / "0"
    seen = []

    def is_acknowledged():
        is_empty = raw.zcard(f"{ns}:q") == 0  # read before the log: it must not be the earlier one
        seen.append((is_empty, log.exists()))
        return is_empty

    try:
        wait_until(is_acknowledged, query)
    finally:
        query.stop()
        spark.streams.removeListener(listener)
    assert (True, False) not in seen
    assert batches == {0: ["a", "b"]}


def test_a_listener_exports_the_progress_of_a_query(spark, rsmq, stream, tmp_path, keep_batch):
    registry = CollectorRegistry()
    listener = StreamMetrics(registry)
    spark.streams.addListener(listener)
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    query = (
        stream("q", consumerGroup="nightly")
        .writeStream.foreachBatch(keep_batch)
        .queryName("exported")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    hidden = {"query": "exported", "queue": "q", "state": "hidden"}
    try:
        wait_until(lambda: registry.get_sample_value("rsmq_stream_messages", hidden), query)
        (source,) = query.lastProgress["sources"]
        assert "rsmq queue q of namespace" in json.dumps(source["latestOffset"])
        assert registry.get_sample_value("rsmq_stream_lag", {"query": "exported"}) == 0
    finally:
        query.stop()
        spark.streams.removeListener(listener)


def test_asynchronous_progress_is_refused(rsmq, raw, ns, stream, tmp_path):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b", "c"])
    query = (
        stream("q", maxMessagesPerTrigger=1)
        .writeStream.format("noop")
        .option("asyncProgressTrackingEnabled", "true")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    with pytest.raises(Exception, match="asyncProgressTrackingEnabled: does not go with a stream"):
        query.awaitTermination()
    assert raw.zcard(f"{ns}:q") == 2  # the batch that was not done, and the next
