"""The columns: exactly as Spark expects them, whatever other clients have stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.types import StructType

from rsmq import BYTES
from rsmq.spark import InvalidOption
from tests.spark.conftest import columns

ALL = ["queue", "id", "message", "sent", "first_received", "receive_count", "visible_at"]


def moment(ms):
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


@pytest.mark.parametrize(
    ("options", "ddl"),
    [
        ({}, "message:string,sent"),
        ({"bodyType": "binary"}, "message:binary,sent"),
        ({"includeRaw": True}, "message:string,raw:binary,sent"),
    ],
)
def test_the_schema_has_all_columns(env, options, ddl):
    schema = env.source(queue="q", **options).schema()
    assert schema.simpleString() == (
        f"struct<queue:string,id:string,{ddl}:timestamp,first_received:timestamp,"
        "receive_count:bigint,visible_at:timestamp>"
    )
    assert [field.name for field in schema if not field.nullable] == ["queue", "id"]


def test_columns_are_chosen_in_any_order(env):
    schema = env.source(queue="q", columns="sent, message,id", includeRaw=True).schema()
    assert schema.fieldNames() == ["sent", "message", "id", "raw"]
    assert env.source(queue="q", columns="raw").schema().fieldNames() == ["raw"]
    for wrong in ("id,id", "id,", "ID", "body"):
        with pytest.raises(InvalidOption, match="Option columns: names some of queue, id, mess"):
            env.source(queue="q", columns=wrong).schema()


@pytest.fixture(params=["batch", "stream"])
def rows(request, env, queue):
    """Return a function that reads all rows, in a batch or in a stream."""

    def read(schema=None, **options):
        if request.param == "batch":
            return env.read(schema, **{"queue": queue, **options})
        return env.query(schema=schema, **options).run()

    read.kind = request.param
    return read


def test_columns_have_the_stored_values(env, rows):
    received = env.rsmq.send_message("q", "received")
    for _ in range(2):
        env.rsmq.receive_message("q", vt=0)
    new = env.rsmq.send_message("q", "grüße \N{GRINNING FACE}")
    assert list(env.scores()) == [received, new]

    by_id = {row["id"]: row for row in rows()}
    fields, scores = env.fields(), env.scores()
    assert set(by_id) == set(scores)
    for id, row in by_id.items():
        assert list(row) == ALL
        assert row["queue"] == "q"
        assert row["message"] == fields[id].decode()
        assert row["sent"] == moment(int(id[:10], 36) / 1000)
        assert row["receive_count"] == int(fields.get(f"{id}:rc", 0))
        first = fields.get(f"{id}:fr")
        assert row["first_received"] == (first and moment(int(first)))
        assert row["visible_at"] == (moment(scores[id]) if rows.kind == "batch" else None)


def test_projection_has_only_its_columns(env, rows):
    id = env.rsmq.send_message("q", b"\xff", codec=BYTES)
    assert rows(columns="raw,id") == [{"raw": b"\xff", "id": id}]


@pytest.mark.parametrize(
    "schema",
    [
        columns(message="binary", id="string"),
        columns(visible_at="timestamp", receive_count="long", message="string", raw="binary"),
        columns(sent="timestamp"),
        StructType().add("queue", "string", nullable=True).add("id", "string", nullable=False),
        StructType().add("message", "string", nullable=False),
    ],
    ids=lambda schema: schema.simpleString(),
)
def test_user_schema_defines_columns_order_and_nullability(env, rows, schema):
    env.rsmq.send_message("q", "m")
    (row,) = rows(schema)  # which compares each batch with the schema of Spark
    assert list(row) == schema.fieldNames()
    if "message" in row:
        assert row["message"] in ("m", b"m")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (columns(body="string"), "no column body string"),
        (columns(id="binary"), "no column id binary"),
        (columns(receive_count="integer"), "no column receive_count int"),
        (columns(sent="timestamp_ntz"), "no column sent timestamp_ntz"),
    ],
)
def test_schema_with_unknown_columns_is_refused(env, queue, schema, text):
    for use in (env.source(queue="q").reader, env.source(queue="q").streamReader):
        with pytest.raises(InvalidOption, match=text) as caught:
            use(schema=schema)
        assert "message string" in str(caught.value)
        assert "message may also be binary." in str(caught.value)


def test_schema_with_non_nullable_time_is_refused_before_the_query_runs(env, queue):
    schema = StructType().add("first_received", "timestamp", nullable=False)
    with pytest.raises(InvalidOption, match="first_received"):
        env.source(queue="q").reader(schema=schema)


def test_body_that_is_not_utf8_is_read_with_replacement_characters(env, rows):
    env.rsmq.send_message("q", b"a\xff\xfe\x00", codec=BYTES)
    env.rsmq.send_message("q", "")
    env.rsmq.send_message("q", "after")
    found = rows(includeRaw=True)
    assert {(row["message"], row["raw"]) for row in found} == {
        ("a\ufffd\ufffd\0", b"a\xff\xfe\x00"),
        ("", b""),
        ("after", b"after"),
    }
    assert {row["message"] for row in env.read(queue="q", bodyType="binary")} == {
        b"a\xff\xfe\x00", b"", b"after",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("id", "sent_ms"),
    [
        (b"lkdcq4w0" + b"A" * 22, int("lkdcq4w0", 36)),  # milliseconds, as some ports have them
        (b"6f9619ff-8b86-d011-b42d-00cf4fc964ff", None),
        (b"0" * 32, None),
        (b"short", None),
        (b"with space and \xc3\xbc", None),
        (b"odd \xff\xfe\n", None),
    ],
)
def test_ids_of_other_clients_are_read(env, rows, id, sent_ms):
    env.put(id, b"m")
    env.put(b"other\nlines", b"n")
    (row,) = (each for each in rows() if each["message"] == "m")
    assert row["id"] == id.decode(errors="replace")
    assert row["sent"] == (None if sent_ms is None else moment(sent_ms))


@pytest.mark.parametrize(
    ("stored", "count"),
    [
        (b"0", 0),
        (b"-5", -5),
        (b"1.5", 1),
        (b"many", 0),
        (b"9223372036854775807", 2**63 - 1),
        (b"99999999999999999999", 2**63 - 1),
        (b"-9999999999999999999", -(2**63 - 1)),
        (b"9" * 21, 0),
    ],
)
def test_odd_counters_are_read(env, queue, stored, count):
    env.put("odd", b"m", rc=stored)
    (row,) = env.read(queue="q")
    assert row["receive_count"] == count


@pytest.mark.parametrize(
    ("stored", "ms"),
    [
        (b"1700000000000", 1_700_000_000_000),
        (b"1700000000000.75", 1_700_000_000_000),
        (b"0", 0),
        (b"-1", None),
        (b"soon", None),
        (b"99999999999999999999", None),
        (b"253402300800000", None),  # the year 10000
        (b"253402300799999", 253_402_300_799_999),
    ],
)
def test_odd_times_are_read(env, rows, stored, ms):
    env.put("odd", b"m", rc=b"3", fr=stored)
    (row,) = rows()
    assert row["first_received"] == (None if ms is None else moment(ms))


@pytest.mark.parametrize(
    ("score", "ms"),
    [
        ("1700000000000.5", 1_700_000_000_000.5),
        ("-5", None),
        ("-inf", None),
        ("inf", None),
        ("1e300", None),
    ],
)
def test_odd_scores_are_read(env, queue, score, ms):
    env.put("odd", b"m", score=score)
    (row,) = env.read(queue="q")
    assert row["visible_at"] == (None if ms is None else moment(ms))


def test_stream_increments_a_huge_receive_count(env, queue):
    env.put("odd", b"m", rc=b"9007199254740993", fr=b"1")
    query = env.query()
    (row,) = query.run()
    assert env.fields()["odd:rc"] == str(row["receive_count"]).encode()
    assert query.run() is None
    assert env.scores() == {}
