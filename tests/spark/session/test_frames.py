"""Batch reads and writes in Spark itself."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import AnalysisException, PySparkException

from rsmq import BYTES, RSMQ
from rsmq.spark.versions import HAS_FILTERS


def bodies(raw, ns, queue):
    ids = raw.zrange(f"{ns}:{queue}", 0, -1)
    return raw.hmget(f"{ns}:{queue}:Q", ids) if ids else []


def test_format_is_found_without_register_and_in_sql(spark, rsmq, connection):
    rsmq.create_queue("q")
    rsmq.send_message("q", "hello")
    options = ", ".join(f"{name} '{value}'" for name, value in connection.items())
    spark.sql(f"CREATE TEMPORARY VIEW v USING rsmq OPTIONS ({options}, queue 'q')")
    try:
        assert spark.sql("SELECT message FROM v").collect() == [("hello",)]
    finally:
        spark.sql("DROP VIEW v")  # the session is that of other tests, too


def test_register_adds_the_format(spark, rsmq, connection):
    from rsmq.spark import register

    rsmq.create_queue("q")
    register(spark)
    assert spark.read.format("rsmq").options(**connection, queue="q").load().count() == 0


def test_frame_has_the_messages_of_the_queues(rsmq, raw, ns, read):
    rsmq.create_queue("q")
    rsmq.create_queue("r")
    ids = rsmq.send_messages("q", [f"body {n} 😀" for n in range(3000)])
    rsmq.send_messages("r", ["later"], delay=500)
    received = rsmq.receive_message("q", vt=500)
    before = {key: raw.dump(key) for key in raw.keys(f"{ns}:*")}
    rows = read("q,r", numPartitions=3, fetchSize=700).orderBy("queue", "sent", "id").collect()

    assert [row["id"] for row in rows[:-1]] == ids
    assert [row["message"] for row in rows[:-1]] == [f"body {n} 😀" for n in range(3000)]
    assert (rows[0]["receive_count"], rows[1]["receive_count"]) == (1, 0)
    assert rows[0]["first_received"].timestamp() * 1000 == received.first_received_ms
    assert (rows[-1]["queue"], rows[-1]["message"]) == ("r", "later")
    assert rows[-1]["visible_at"] > rows[-1]["sent"]
    assert {key: raw.dump(key) for key in raw.keys(f"{ns}:*")} == before


@pytest.mark.skipif(not HAS_FILTERS, reason="PySpark 4.0 passes no filters")
def test_filters_are_pushed_if_spark_enables_it(spark, rsmq, read):
    rsmq.create_queue("q")
    rsmq.create_queue("r")
    ids = rsmq.send_messages("q", ["a"] * 10)
    rsmq.send_messages("r", ["a"] * 10, delay=500)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        everything = read("q,r", pushdown=True)
        assert everything.where(f"id = '{ids[3]}'").count() == 1
        assert everything.where("queue = 'r' AND visible_at > current_timestamp()").count() == 10
        assert everything.where("sent < timestamp '2020-01-01 00:00:00'").count() == 0
        assert everything.where("sent > timestamp '2020-01-01' AND message = 'a'").count() == 20
        plan = everything.where("queue = 'r'")._jdf.queryExecution().optimizedPlan().toString()
        assert "Filter" not in plan
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_user_schema_is_a_projection(spark, rsmq, connection):
    rsmq.create_queue("q")
    (id,) = rsmq.send_messages("q", [b"\xff\x00"], codec=BYTES)
    reader = spark.read.format("rsmq").options(**connection, queue="q")

    assert reader.schema("message binary, id string").load().collect() == [(b"\xff\x00", id)]


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_frame_is_written(spark, rsmq, raw, ns, connection, delivery):
    for name in ("even", "odd"):
        rsmq.create_queue(name)
    frame = spark.range(5000).selectExpr(
        "concat('m', id) AS message", "if(id % 2 = 0, 'even', 'odd') AS queue",
        "if(id < 4, 500, NULL) AS delay",
    )  # fmt: skip
    frame.write.format("rsmq").options(**connection, delivery=delivery).mode("append").save()

    assert sorted(bodies(raw, ns, "even")) == sorted(b"m%d" % n for n in range(0, 5000, 2))
    assert sorted(bodies(raw, ns, "odd")) == sorted(b"m%d" % n for n in range(1, 5000, 2))
    assert rsmq.get_queue_attributes("even").hidden_messages == 2
    assert raw.keys(f"{ns}:*:x:*") == []


def test_several_namespaces_are_written_and_read(spark, server, ns):
    frame = spark.range(3000).selectExpr("concat('m', id) AS message")
    names = [f"{ns}-{number}" for number in range(3)]
    for number, name in enumerate(names):
        options = {"url": server.url, "ns": name, "queue": "q", "createQueue": True}
        rows = frame.where(f"int(substring(message, 2)) % 3 = {number}")
        rows.write.format("rsmq").options(**options).mode("append").save()

    options = {"url": server.url, "ns": ",".join(names), "queue": "q"}
    read = spark.read.format("rsmq").options(**options).load()
    assert read.columns[:3] == ["ns", "queue", "id"]
    rows = read.select("ns", "id", "message").collect()
    assert sorted(row["message"] for row in rows) == sorted(f"m{n}" for n in range(3000))
    assert all(row["ns"] == names[int(row["message"][1:]) % 3] for row in rows)
    with RSMQ.from_url(server.url, ns=rows[0]["ns"]) as queues:
        assert queues.get_message("q", rows[0]["id"]).body == rows[0]["message"]
    spark.sql(
        f"CREATE TEMPORARY VIEW several USING rsmq OPTIONS (url '{server.url}', "
        f"ns '{options['ns']}', queue 'q')"
    )
    counted = spark.sql("SELECT ns, count(*) AS n FROM several GROUP BY ns ORDER BY ns").collect()
    assert [tuple(row) for row in counted] == [(name, 1000) for name in names]
    spark.catalog.dropTempView("several")


def test_rows_become_json_and_queues_are_created(spark, rsmq, connection):
    frame = spark.sql(
        "SELECT 1 AS n, 'ä' AS text, timestamp '2026-01-02 03:04:05' AS time, "
        "array(1, NULL) AS list, named_struct('x', 1.5D) AS inner, map('k', 'v') AS map"
    )
    options = {"queue": "made", "createQueue": True, "messageFormat": "json", "vt": 7}
    frame.write.format("rsmq").options(**connection, **options).mode("append").save()

    message = rsmq.receive_message("made")
    assert json.loads(message.body) == {
        "n": 1, "text": "ä", "time": "2026-01-02T03:04:05+00:00", "list": [1, None],
        "inner": {"x": 1.5}, "map": {"k": "v"},
    }  # fmt: skip
    assert rsmq.get_queue_attributes("made").vt == 7


def test_a_named_write_is_done_once(spark, rsmq, connection):
    rsmq.create_queue("q")
    writer = spark.range(10).selectExpr("cast(id AS string) AS message").write.format("rsmq")
    for _ in range(2):
        writer.options(**connection, queue="q", delivery="exactly-once", writeId="backfill-1").mode(
            "append"
        ).save()

    assert rsmq.get_queue_attributes("q").total_sent == 10


def test_failed_task_is_repeated_without_duplicates(spark, rsmq, raw, ns, connection, tmp_path):
    rsmq.create_queue("q")
    mark = tmp_path / "failed"

    def fail_once(number):
        if number == 3999 and not mark.exists():
            mark.touch()
            raise OSError("the disk is full")
        return str(number)

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    try:
        spark.udf.register("fail_once", fail_once)
        frame = spark.range(0, 8000, 1, 2).selectExpr("fail_once(id) AS message")
        frame.write.format("rsmq").options(
            **connection, queue="q", delivery="exactly-once", batchSize=500
        ).mode("append").save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    assert mark.exists()
    assert sorted(map(int, bodies(raw, ns, "q"))) == list(range(8000))
    assert raw.exists(f"{ns}:q:x:staged") == 0


def test_a_write_that_fails_sends_nothing(spark, rsmq, raw, ns, connection):
    rsmq.create_queue("q")
    frame = spark.range(0, 4000, 1, 2).selectExpr("if(id = 3999, NULL, 'm') AS message")
    with pytest.raises(PySparkException, match="Message must be a string"):
        frame.write.format("rsmq").options(**connection, queue="q", delivery="exactly-once").mode(
            "append"
        ).save()

    assert rsmq.get_queue_attributes("q").total_sent == 0


def test_restore_writes_a_snapshot_back_unchanged(spark, rsmq, raw, ns, read, connection, tmp_path):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b", "c"])
    rsmq.receive_message("q", vt=300)
    read("q", bodyType="binary").write.parquet(str(tmp_path / "copy"))
    hash, scores = raw.hgetall(f"{ns}:q:Q"), raw.zrange(f"{ns}:q", 0, -1, withscores=True)
    rsmq.purge_queue("q")
    rows = spark.read.parquet(str(tmp_path / "copy"))
    for _ in range(2):
        rows.write.format("rsmq").options(**connection, restore=True).mode("append").save()

    assert raw.zrange(f"{ns}:q", 0, -1, withscores=True) == scores
    assert raw.hgetall(f"{ns}:q:Q") == {**hash, b"totalsent": b"6"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue": "nowhere"}, "Queue not found: 'nowhere'"),
        ({"queue": "q", "colums": "id"}, "did you mean columns"),
        ({"queue": "q", "columns": "body"}, "Option columns: names some of"),
        ({"queue": "q", "password": "hunter2"}, "passwordEnv"),
        ({}, "give just one of queue, subscribe"),
    ],
)
def test_errors_of_reads_have_a_remedy(spark, rsmq, connection, options, text):
    rsmq.create_queue("q")
    with pytest.raises(AnalysisException) as error:
        spark.read.format("rsmq").options(**connection, **options).load().collect()

    assert text in str(error.value)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "mode", "text"),
    [
        ({"queue": "nowhere"}, "append", "createQueue=true creates it"),
        ({"queue": "q", "messageColumn": "text"}, "append", "there is no column text"),
        ({"queue": "q"}, "overwrite", "a queue is appended to"),
        ({}, "append", "give the queue to write to"),
    ],
)
def test_errors_of_writes_have_a_remedy(spark, rsmq, connection, options, mode, text):
    rsmq.create_queue("q")
    writer = (
        spark.sql("SELECT 'm' AS message").write.format("rsmq").options(**connection, **options)
    )
    with pytest.raises(PySparkException) as error:
        writer.mode(mode).save()

    assert text in str(error.value)
    assert rsmq.get_queue_attributes("q").total_sent == 0
