"""Streams in Spark itself, against live consumers, other clients and failures."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest

from compat.peers import Node
from rsmq import RSMQ
from tests.servers import Server, redis_7


def progress_of(query):
    return [json.loads(progress.json) for progress in query.recentProgress]


def until(condition, query=None):
    """Look again until it is so; a test's own timeout ends it, and a query that fails."""
    pause = threading.Event()
    while not condition():
        assert query is None or query.isActive, query.exception()
        pause.wait(0.05)


def messages_of(kept):
    return [message for number in list(kept) for message in kept[number]]


@pytest.fixture
def kept():
    """Batches that a stream was given, by number."""
    return {}


@pytest.fixture
def keep(kept):
    def keep(frame, number):
        kept[number] = [row["message"] for row in frame.collect()]

    return keep


def test_all_that_is_due_is_read_once_in_batches(rsmq, raw, ns, stream, finish, keep, kept):
    rsmq.create_queue("q")
    rsmq.create_queue("r")
    rsmq.send_messages("q", [f"q{n}" for n in range(2500)])
    rsmq.send_messages("r", [f"r{n}" for n in range(300)])
    rsmq.send_message("q", "later", delay=500)
    frame = stream("q,r", maxMessagesPerTrigger=1000)
    query = finish(frame.writeStream.foreachBatch(keep))

    assert [len(kept[number]) for number in sorted(kept)] == [1000, 1000, 800]
    assert Counter(messages_of(kept)) == Counter(
        [f"q{n}" for n in range(2500)] + [f"r{n}" for n in range(300)]
    )
    assert rsmq.get_queue_attributes("q").messages == 1
    assert rsmq.get_queue_attributes("r").messages == 0
    (last,) = [p["sources"][0] for p in progress_of(query) if p["batchId"] == 2]
    assert last["latestOffset"]["acknowledged"] == 2000
    assert last["latestOffset"]["backlog"]["q"] == {"visible": 0, "hidden": 801}
    assert last["endOffset"]["queues"] == {"q": 800}
    finish(stream("q,r").writeStream.foreachBatch(keep))
    assert len(kept) == 3


def test_an_action_that_is_repeated_sees_the_same_rows(rsmq, stream, finish):
    rsmq.create_queue("q")
    rsmq.send_messages("q", [str(n) for n in range(3000)])
    seen = []

    def look(frame, _):
        seen.extend(sorted(row["id"] for row in frame.collect()) for _ in range(3))

    finish(stream("q").writeStream.foreachBatch(look))
    assert len(seen[0]) == 3000
    assert seen[0] == seen[1] == seen[2]


def test_a_sink_that_fails_gets_the_same_batch_again(rsmq, stream, finish):
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


def test_a_poison_body_stops_nothing(rsmq, raw, ns, stream, finish, keep, kept):
    from rsmq import BYTES

    rsmq.create_queue("q")
    rsmq.create_queue("dead")
    poison = rsmq.send_message("q", "comes too often")
    for _ in range(3):
        rsmq.receive_message("q", vt=0)
    rsmq.send_messages("q", [b"ok", b"\xff\xfe", b"", b"\x00"], codec=BYTES)
    frame = stream("q", maxReceiveCount=3, deadLetterQueue="dead")
    finish(frame.writeStream.foreachBatch(keep))

    assert kept == {0: ["ok", "\ufffd\ufffd", "", "\x00"]}
    assert raw.zrange(f"{ns}:dead", 0, -1) == [poison.encode()]
    assert rsmq.get_queue_attributes("q").messages == 0


def test_node_sends_and_receives_while_a_stream_reads(
    server, ns, rsmq, stream, tmp_path, keep, kept
):
    rsmq.create_queue("q")
    node = Node(server, ns)
    query = (
        stream("q", maxMessagesPerTrigger=50)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    sent, taken = [], []
    try:
        for n in range(300):
            node.send_message("q", f"node {n}")
            sent.append(f"node {n}")
            if n % 3 == 0:
                message = node.receive_message("q", vt=500)
                if message is not None:
                    taken.append(message["message"])
                    node.delete_message("q", message["id"])
        until(lambda: rsmq.get_queue_attributes("q").messages == 0, query)
    finally:
        query.stop()
        node.close()

    assert Counter(messages_of(kept) + taken) == Counter(sent)
    assert kept


def test_a_message_wakes_an_idle_query(rsmq, stream, tmp_path, keep, kept):
    rsmq.create_queue("q")
    query = (
        stream("q", idleWait=60)  # a query that looked only every minute would miss the test's end
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        for n in range(3):
            rsmq.send_message("q", str(n))
            until(lambda n=n: str(n) in messages_of(kept), query)
    finally:
        query.stop()


def test_a_query_survives_a_restart_of_redis_and_a_script_flush(spark, tmp_path, keep, kept):
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    rsmq = RSMQ.from_url(server.url, retry_deadline=30)
    try:
        rsmq.create_queue("q")
        query = (
            spark.readStream.format("rsmq")
            .options(url=server.url, queue="q", maxMessagesPerTrigger=100)
            .load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        sent = []
        for around in range(3):
            part = [f"{around}-{n}" for n in range(500)]
            rsmq.send_messages("q", part)
            sent += part
            until(lambda around=around: len(kept) > 5 * around, query)
            if around < 2:
                server.kill()
                server.start()
            else:
                with server.raw() as raw:
                    raw.script_flush()
        until(lambda: rsmq.get_queue_attributes("q").messages == 0, query)
        query.stop()

        assert Counter(messages_of(kept)) == Counter(sent)
    finally:
        rsmq.close()
        server.stop()


def test_another_consumers_message_is_left_to_it_and_counted(rsmq, raw, ns, stream, finish):
    rsmq.create_queue("q")
    ids = rsmq.send_messages("q", [str(n) for n in range(20)])
    taken = []

    def steal(frame, number):
        frame.collect()
        if number == 0:
            raw.zadd(f"{ns}:q", {ids[4]: 1})  # as if its time had run out
            taken.append(rsmq.receive_message("q", vt=500))

    query = finish(stream("q", maxMessagesPerTrigger=10).writeStream.foreachBatch(steal))

    assert [message.id for message in taken] == [ids[4]]
    assert raw.zrange(f"{ns}:q", 0, -1) == [ids[4].encode()]
    assert rsmq.delete_message(taken[0])
    (last,) = [p["sources"][0] for p in progress_of(query) if p["batchId"] == 1]
    assert (last["latestOffset"]["lost"], last["latestOffset"]["acknowledged"]) == (1, 9)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_stream_is_written_once_for_each_batch(rsmq, raw, ns, stream, at, finish, delivery):
    rsmq.create_queue("q")
    rsmq.create_queue("target")
    rsmq.send_messages("q", [f"m{n}" for n in range(3000)])
    frame = stream("q", maxMessagesPerTrigger=1000).select("message")
    writer = frame.writeStream.format("rsmq").options(**at, queue="target", delivery=delivery)
    query = finish(writer)

    ids = raw.zrange(f"{ns}:target", 0, -1)
    assert Counter(raw.hmget(f"{ns}:target:Q", ids)) == Counter(b"m%d" % n for n in range(3000))
    assert raw.hkeys(f"{ns}:x:written") == [str(query.id).encode()]


def test_complete_output_is_refused(rsmq, stream, at, finish):
    rsmq.create_queue("q")
    counts = stream("q").groupBy("message").count().selectExpr("concat(message, count) AS message")
    with pytest.raises(Exception, match="a queue is appended to"):
        finish(counts.writeStream.outputMode("complete").format("rsmq").options(**at, queue="q"))


def test_no_secret_is_written_anywhere(server, ns, rsmq, spark, raw, tmp_path, monkeypatch, finish):
    secret = "open-sesame-4711"
    raw.execute_command("ACL", "SETUSER", "job", "on", f">{secret}", "~*", "&*", "+@all")
    file = tmp_path / "secret"
    file.write_text(f"{secret}\n")
    rsmq.create_queue("q")
    rsmq.create_queue("target")
    rsmq.send_messages("q", ["a", "b"])
    at = {"url": server.url, "ns": ns, "username": "job", "passwordFile": str(file)}
    frame = spark.readStream.format("rsmq").options(**at, queue="q").load().select("message")
    query = finish(
        frame.writeStream.format("rsmq").options(**at, queue="target", delivery="exactly-once")
    )

    assert rsmq.get_queue_attributes("target").messages == 2
    checkpoint = tmp_path / "checkpoint"
    texts = [path.read_text(errors="replace") for path in checkpoint.rglob("*") if path.is_file()]
    texts += [progress.json for progress in query.recentProgress]
    texts.append(spark.read.format("rsmq").options(**at, queue="q").load()
                 ._jdf.queryExecution().toString())  # fmt: skip
    assert texts
    assert not any(secret in text for text in texts)
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert secret not in lines
    raw.execute_command("ACL", "DELUSER", "job")


def test_a_password_that_is_not_there_is_said(spark, server, ns, rsmq):
    rsmq.create_queue("q")
    reader = spark.read.format("rsmq").options(
        url=server.url, ns=ns, queue="q", passwordEnv="NO_SUCH_VARIABLE"
    )
    with pytest.raises(Exception, match="executorEnv"):
        reader.load().collect()


def test_checkpoints_hold_a_lease_and_counts_only(rsmq, stream, finish, tmp_path, keep):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a"] * 3)
    finish(stream("q", consumerGroup="nightly").writeStream.foreachBatch(keep))

    offset = (Path(tmp_path) / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(offset) == {"lease": "nightly", "batch": 1, "queues": {"q": 3}}
