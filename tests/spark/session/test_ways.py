"""Each way in which Spark makes a source or a sink: which options arrive, and which is refused."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException

from rsmq.spark import RsmqDataSource
from rsmq.spark.versions import HAS_START, HAS_STREAM_SINK

NO_NEW_TABLE = "a write can't create a table that could be read"
NO_OPTION = "no option has arrived"
NO_PATH = "a queue is not at a path"


@pytest.fixture
def arrived(spark, tmp_path):
    """Register ``format("recorded")``, and return a function that reads the options it has got."""
    path = tmp_path / "arrived"

    class Recorded(RsmqDataSource):
        @classmethod
        def name(cls):
            return "recorded"

        def _record(self, method):
            with path.open("a") as file:
                file.write(json.dumps([method, dict(self.options)]) + "\n")

        def schema(self):
            self._record("schema")
            return super().schema()

        def reader(self, schema):
            self._record("reader")
            return super().reader(schema)

        def streamReader(self, schema):
            self._record("streamReader")
            return super().streamReader(schema)

        def writer(self, schema, overwrite):
            self._record("writer")
            return super().writer(schema, overwrite)

        def streamWriter(self, schema, overwrite):
            self._record("streamWriter")
            return super().streamWriter(schema, overwrite)

    spark.dataSource.register(Recorded)

    def read():
        """Return the options by method, those of the last call."""
        with path.open() as file:
            return dict(map(json.loads, file))

    return read


@pytest.fixture
def options(rsmq, connection):
    """The options that each way passes: those of a queue with two messages."""
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    return {**connection, "queue": "q"}


@pytest.fixture
def sql(spark, options):
    """Return a function that runs SQL, in which ``$options`` stands for the options."""

    def run(text):
        pairs = ", ".join(f"{name} '{value}'" for name, value in options.items())
        return spark.sql(text.replace("$options", f"({pairs})"))

    yield run
    for (name,) in spark.sql("SHOW TABLES").select("tableName").collect():
        spark.sql(f"DROP VIEW IF EXISTS {name}" if name == "v" else f"DROP TABLE {name}")


@pytest.fixture
def table(arrived, sql):
    """A table with columns: Spark creates it without calling the source."""
    sql("CREATE TABLE t (message STRING) USING recorded OPTIONS $options")


def rows(spark):
    return spark.sql("SELECT 'c' AS message")


def end_of(query):
    try:
        query.awaitTermination(600)
    finally:
        query.stop()


READS = {
    "load": lambda spark, options, sql: (
        spark.read.format("recorded").options(**options).load().select("message")
    ),
    "a view": lambda spark, options, sql: (
        sql("CREATE TEMPORARY VIEW v USING recorded OPTIONS $options")
        and spark.table("v").select("message")
    ),
    "a view with columns": lambda spark, options, sql: (
        sql("CREATE TEMPORARY VIEW v (message STRING) USING recorded OPTIONS $options")
        and sql("SELECT * FROM v")
    ),
    "a table, read with options": lambda spark, options, sql: spark.read.options(**options).table(
        "t"
    ),
    "a table, selected with options": lambda spark, options, sql: sql(
        "SELECT * FROM t WITH $options"
    ),
}


@pytest.mark.parametrize("way", READS.values(), ids=READS)
def test_a_frame_is_read_with_the_options_of_the_user(spark, options, arrived, sql, table, way):
    assert sorted(way(spark, options, sql).collect()) == [("a",), ("b",)]
    assert arrived()["reader"] == options


WRITES = {
    "save": lambda spark, options, sql: (
        rows(spark).write.format("recorded").options(**options).mode("append").save()
    ),
    "a view": lambda spark, options, sql: (
        sql("CREATE TEMPORARY VIEW v (message STRING) USING recorded OPTIONS $options")
        and sql("INSERT INTO v VALUES ('c')")
    ),
    "a table, inserted into with options": lambda spark, options, sql: sql(
        "INSERT INTO t WITH $options VALUES ('c')"
    ),
    "append": lambda spark, options, sql: rows(spark).writeTo("t").options(**options).append(),
    "saveAsTable into a table that exists": lambda spark, options, sql: (
        rows(spark).write.format("recorded").options(**options).mode("append").saveAsTable("t")
    ),
    "SQL that is a value": lambda spark, options, sql: (
        sql("CREATE TEMPORARY VIEW v (message STRING) USING recorded OPTIONS $options")
        and sql("EXECUTE IMMEDIATE 'INSERT INTO v VALUES (\"c\")'")
    ),
}
if HAS_STREAM_SINK:  # PySpark 4.1: 4.0 has no scripts
    WRITES["a script"] = lambda spark, options, sql: (
        sql("CREATE TEMPORARY VIEW v (message STRING) USING recorded OPTIONS $options")
        and sql("BEGIN INSERT INTO v VALUES ('c'); END")
    )


@pytest.mark.parametrize("way", WRITES.values(), ids=WRITES)
def test_a_frame_is_written_with_the_options_of_the_user(
    spark, rsmq, options, arrived, sql, table, way
):
    way(spark, options, sql)
    assert [message.body for message in rsmq.peek_messages("q")] == ["a", "b", "c"]
    assert arrived()["writer"] == options


@pytest.mark.skipif(not HAS_START, reason="its source has no consumerGroup")
@pytest.mark.parametrize("is_table", [False, True], ids=["start", "toTable"])
def test_a_stream_is_read_and_written_with_the_options_of_the_user(
    spark, rsmq, options, arrived, sql, tmp_path, is_table
):
    rsmq.create_queue("r")
    checkpoint = str(tmp_path / "checkpoint")
    messages = spark.readStream.format("recorded").options(**options).load().select("message")
    writer = messages.writeStream.format("recorded").options(**{**options, "queue": "r"})
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    end_of(writer.toTable("t") if is_table else writer.start())

    assert sorted(message.body for message in rsmq.peek_messages("r")) == ["a", "b"]
    assert arrived()["streamReader"] == options
    assert arrived()["streamWriter"] == {
        **options, "queue": "r", "checkpointlocation": checkpoint,
    }  # fmt: skip


def test_a_batch_of_a_stream_is_written_with_the_options_of_the_user(
    spark, rsmq, options, arrived, tmp_path
):
    def write(frame, number):
        frame.write.format("recorded").options(**options).mode("append").save()

    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = rate.selectExpr("'c' AS message").writeStream.foreachBatch(write)
    end_of(writer.option("checkpointLocation", str(tmp_path)).trigger(once=True).start())

    assert rsmq.peek_messages("q")[2].body == "c"


TABLES = {
    "CREATE TABLE": lambda spark, options, sql: sql(
        "CREATE TABLE new USING recorded OPTIONS $options"
    ),
    "CREATE TABLE with properties": lambda spark, options, sql: sql(
        "CREATE TABLE new USING recorded OPTIONS $options COMMENT 'c' TBLPROPERTIES ('x' = 'y')"
    ),
    "createTable": lambda spark, options, sql: spark.catalog.createTable(
        "new", source="recorded", **options
    ),
}


@pytest.mark.parametrize("way", TABLES.values(), ids=TABLES)
def test_a_table_is_read_with_its_own_options(spark, options, arrived, sql, way):
    way(spark, options, sql)
    assert arrived()["schema"]["provider"] == "recorded"
    assert sorted(spark.sql("SELECT message, queue FROM new").collect()) == [("a", "q"), ("b", "q")]
    sql("CREATE TEMPORARY VIEW v AS SELECT upper(message) AS message FROM new")
    assert sorted(spark.table("v").collect()) == [("A",), ("B",)]
    assert arrived()["reader"] == {}
    other = {**options, "columns": "id,message"}
    assert spark.read.options(**other).table("new").count() == 2
    assert arrived()["reader"] == other


def test_a_table_has_options_of_frames_or_of_streams(spark, sql, options, arrived, tmp_path):
    sql("CREATE TABLE new USING recorded OPTIONS $options")
    more = ", ".join(f"{name} '{value}'" for name, value in options.items())
    sql(f"CREATE TABLE streamed USING recorded OPTIONS ({more}, consumerGroup 'g', columns 'id')")
    assert spark.table("streamed").columns == ["id"]
    assert spark.table("streamed").count() == 2
    seen = []
    stream = spark.readStream.table("streamed").writeStream.trigger(once=True)
    end_of(
        stream.foreachBatch(lambda frame, _: seen.extend(frame.collect()))
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    assert len(seen) == 2
    with pytest.raises(PySparkException, match="did you mean startingTimestamp"):
        sql(f"CREATE TABLE wrong USING recorded OPTIONS ({more}, startingTimestmp '1')")
    with pytest.raises(PySparkException, match="passwordEnv to the name of"):
        sql(f"CREATE TABLE wrong USING recorded OPTIONS ({more}, password 'x')")
    with pytest.raises(PySparkException, match=NO_PATH):
        spark.catalog.createTable("wrong", path="/new", source="recorded", **options)
    assert spark.sql("SHOW TABLES LIKE 'wrong'").collect() == []


def test_rows_of_another_table_are_not_written_to_the_queue_of_that_table(
    spark, rsmq, raw, options, arrived, sql
):
    sql("CREATE TABLE new USING recorded OPTIONS $options")
    rsmq.create_queue("r")
    other = ", ".join(f"{n} '{v}'" for n, v in {**options, "queue": "r"}.items())
    spark.sql(f"CREATE TABLE target USING recorded OPTIONS ({other})")
    for way in (
        lambda: spark.sql("INSERT INTO target SELECT * FROM new"),
        lambda: spark.table("new").writeTo("target").append(),
        lambda: spark.table("new").write.insertInto("target"),
        lambda: spark.table("new").write.format("recorded").mode("append").saveAsTable("target"),
        lambda: spark.table("new").write.format("recorded").mode("append").save(),
    ):
        with pytest.raises(PySparkException, match=NO_OPTION):
            way()
    spark.sql(f"INSERT INTO target WITH ({other}) SELECT * FROM new")
    spark.table("new").write.format("recorded").options(**{**options, "queue": "r"}).mode(
        "append"
    ).saveAsTable("target")

    assert rsmq.get_queue_attributes("q").total_sent == 2
    bodies = sorted(message.body for message in rsmq.peek_messages("r"))
    assert bodies == ["a", "a", "b", "b"]


NEW_TABLES = {
    "saveAsTable": lambda spark, options, sql: (
        rows(spark).write.format("recorded").options(**options).saveAsTable("new")
    ),
    "saveAsTable of no rows": lambda spark, options, sql: (
        rows(spark).where("1 = 0").write.format("recorded").options(**options).saveAsTable("new")
    ),
    "create": lambda spark, options, sql: (
        rows(spark).writeTo("new").using("recorded").options(**options).create()
    ),
}


@pytest.mark.parametrize("way", NEW_TABLES.values(), ids=NEW_TABLES)
def test_a_new_table_is_refused_and_not_left_behind(spark, raw, options, arrived, sql, way):
    before = {key: raw.dump(key) for key in raw.keys(f"{options['ns']}:*")}
    with pytest.raises(PySparkException) as error:
        way(spark, options, sql)

    assert NO_NEW_TABLE in str(error.value)
    assert "CREATE TABLE name USING rsmq OPTIONS (...)" in str(error.value)
    assert spark.sql("SHOW TABLES").collect() == []
    assert {key: raw.dump(key) for key in raw.keys(f"{options['ns']}:*")} == before


OTHER_NEW_TABLES = {
    "CREATE TABLE AS": (
        NO_OPTION,
        lambda spark, options, sql: sql(
            "CREATE TABLE new USING recorded OPTIONS $options AS SELECT 'c' AS message"
        ),
    ),
    "saveAsTable that overwrites": (
        "a queue is appended to",
        lambda spark, options, sql: (
            rows(spark).write.format("recorded").options(**options).mode("overwrite")
            .saveAsTable("new")
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "way"), OTHER_NEW_TABLES.values(), ids=OTHER_NEW_TABLES)
def test_other_new_tables_are_refused_and_not_left_behind(
    spark, rsmq, options, arrived, sql, text, way
):
    with pytest.raises(PySparkException) as error:
        way(spark, options, sql)

    assert text in str(error.value)
    assert spark.sql("SHOW TABLES").collect() == []
    assert rsmq.get_queue_attributes("q").total_sent == 2


REPLACEMENTS = {
    "saveAsTable": lambda spark, options, sql: (
        rows(spark).write.format("recorded").options(**options).mode("overwrite").saveAsTable("new")
    ),
    "createOrReplace": lambda spark, options, sql: (
        rows(spark).writeTo("new").using("recorded").options(**options).createOrReplace()
    ),
    "CREATE OR REPLACE TABLE AS": lambda spark, options, sql: sql(
        "CREATE OR REPLACE TABLE new USING recorded OPTIONS $options AS SELECT 'c' AS message"
    ),
}


def test_a_refused_replacement_of_a_table_says_that_spark_has_dropped_it(
    spark, rsmq, options, arrived, sql
):
    for way in REPLACEMENTS.values():
        sql("CREATE TABLE new USING recorded OPTIONS $options")
        with pytest.raises(PySparkException) as error:
            way(spark, options, sql)

        assert "a queue is appended to" in str(error.value)
        assert "Spark has dropped the table" in str(error.value)
        assert "again by CREATE TABLE name USING rsmq OPTIONS (...)" in str(error.value)
        assert spark.sql("SHOW TABLES").collect() == []
        assert rsmq.get_queue_attributes("q").total_sent == 2


def to_table(spark, tmp_path):
    rate = spark.readStream.format("rate").load().selectExpr("'c' AS message")
    writer = rate.writeStream.option("checkpointLocation", str(tmp_path)).trigger(once=True)
    end_of(writer.toTable("t"))


def read_stream_of_table(spark, tmp_path):
    writer = spark.readStream.table("t").writeStream.format("noop")
    end_of(writer.option("checkpointLocation", str(tmp_path)).trigger(once=True).start())


@pytest.mark.parametrize(
    "way",
    [
        lambda spark, tmp_path: spark.sql("SELECT * FROM t").collect(),
        lambda spark, tmp_path: spark.table("t").collect(),
        lambda spark, tmp_path: spark.sql("INSERT INTO t VALUES ('c')"),
        # Spark does not pass the options of this statement either.
        lambda spark, tmp_path: rows(spark).write.option("queue", "q").insertInto("t"),
        lambda spark, tmp_path: rows(spark).writeTo("t").append(),
        pytest.param(
            to_table, marks=pytest.mark.skipif(not HAS_STREAM_SINK, reason="refused before")
        ),
        read_stream_of_table,
    ],
    ids=["SELECT", "table", "INSERT", "insertInto", "append", "toTable", "readStream.table"],
)
def test_a_table_without_options_in_the_statement_is_refused_with_the_remedy(
    spark, rsmq, options, table, tmp_path, way
):
    with pytest.raises(PySparkException) as error:
        way(spark, tmp_path)

    assert NO_OPTION in str(error.value)
    assert "WITH (url = '...', queue = '...')" in str(error.value)
    assert rsmq.get_queue_attributes("q").total_sent == 2


@pytest.mark.parametrize("path", ["b", ["b", "c"]])
def test_a_path_beside_the_queue_is_refused(spark, rsmq, options, tmp_path, path):
    with pytest.raises(PySparkException, match=NO_PATH):
        spark.read.format("rsmq").options(**options).load(path).collect()
    if isinstance(path, list):
        return
    with pytest.raises(PySparkException, match=NO_PATH):
        spark.readStream.format("rsmq").options(**options).load(path)
    with pytest.raises(PySparkException, match=NO_PATH):
        rows(spark).write.format("rsmq").options(**options).mode("append").save(path)
    if not HAS_STREAM_SINK:
        return
    rate = spark.readStream.format("rate").load().selectExpr("'c' AS message").writeStream
    rate = rate.format("rsmq").options(**options).option("checkpointLocation", str(tmp_path))
    with pytest.raises(PySparkException, match=NO_PATH):
        end_of(rate.start(path))
    assert rsmq.get_queue_attributes("q").total_sent == 2
