"""The sinks of batches and streams: at least once and exactly once, through every crash."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import msgpack
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from rsmq import InvalidFormat, InvalidValue, MessageNotString, MessageTooLong, QueueNotFound
from rsmq.spark import BatchLost, CheckpointSetBack, InvalidOption
from rsmq.spark.write import sink
from rsmq.spark.write.sink_options import column_option_of, option_of
from rsmq.vocabulary.sends import SPARK, ValueKind
from tests.contract.test_send_options import OPTIONS
from tests.scale import WAIT_SECONDS
from tests.spark.conftest import Crashed, StreamWrite, columns, crash_at_call, pickle_round_trip

TEXT = columns(message="string")
DELIVERIES = ["at-least-once", "exactly-once"]


def texts(*bodies):
    return [{"message": body} for body in bodies]


@pytest.fixture(params=DELIVERIES)
def delivery(request):
    return {"delivery": request.param}


@pytest.fixture
def stream(env, monkeypatch):
    """Return a function that starts a write of one batch of a stream."""

    def write(number=0, query="query", schema=TEXT, **options):
        return StreamWrite(env, schema, options, number, monkeypatch, query)

    return write


def staged(env, queue="q"):
    return sorted(env.raw.hkeys(env.keys(queue).staged))


def decided(env, write):
    packed = env.raw.hget(env.server().namespace.written, write)
    return packed and msgpack.unpackb(packed, raw=True)[:2]


# --- rows and messages ------------------------------------------------------------------------


def test_rows_are_sent_as_other_clients_send_messages(env, queue, delivery):
    before = env.now_ms()
    env.write(TEXT, **delivery).run(texts("grüße", ""), [], texts("c"))
    after = env.now_ms()

    assert sorted(env.bodies()) == sorted([b"", "grüße".encode(), b"c"])
    fields, scores = env.fields(), env.scores()
    assert set(fields) == {
        "vt", "delay", "maxsize", "created", "modified", "totalsent", *scores,
    }  # fmt: skip
    assert fields["totalsent"] == b"3"
    for id, score in scores.items():
        assert len(id) == 32
        assert before <= score == int(id[:10], 36) // 1000 <= after
    assert staged(env) == []
    assert env.rsmq.receive_message("q").receive_count == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_message_column_is_text_or_bytes(env, queue, delivery, kind):
    binary = "binary" in str(kind)
    write = env.write(
        columns(value="binary" if binary else "string"), messageColumn="value", **delivery
    )
    bodies = [b"\xff\x00", b""] if binary else ["ü", ""]
    write.commit(write.task(pa.record_batch([pa.array(bodies, kind)], names=["value"])))
    assert env.bodies() == [each if binary else each.encode() for each in bodies]


def test_order_within_a_partition_is_kept(env, queue, delivery):
    bodies = [f"{n:04}" for n in range(250)]
    write = env.write(TEXT, batchSize=7, **delivery)
    write.commit(write.task(texts(*bodies[:100]), texts(*bodies[100:])))
    assert [body.decode() for body in env.bodies()] == bodies
    assert env.fields()["totalsent"] == b"250"


def test_large_rows_are_sent_in_calls_of_a_few_megabytes(env, delivery):
    env.rsmq.create_queue("q", maxsize=-1)
    with env.commands() as commands:
        env.write(TEXT, **delivery).run(texts(*("x" * 1_500_000 for _ in range(5))))
    assert [len(body) for body in env.bodies()] == [1_500_000] * 5
    assert max(map(len, commands)) < 5_000_000


def test_rows_may_have_their_own_queue_and_delay(env, delivery):
    for name in ("a", "b"):
        env.rsmq.create_queue(name, delay=50)
    schema = columns(message="string", queue="string", delay="double")
    env.write(schema, queue="", **delivery).run(
        [
            {"message": "1", "queue": "a", "delay": 100.5},
            {"message": "2", "queue": "b", "delay": 0},
            {"message": "3", "queue": "a", "delay": None},
        ]
    )
    now = env.now_ms()
    assert (env.bodies("a"), env.bodies("b")) == ([b"3", b"1"], [b"2"])
    waits = [score - now for score in (*env.scores("a").values(), *env.scores("b").values())]
    for wait, expected in zip(waits, (50_000, 100_500, 0), strict=True):
        assert expected - 20_000 < wait <= expected


def test_options_name_the_columns_and_override_them(env, queue, delivery):
    schema = columns(value="string", topic="string", wait="integer", queue="string", delay="string")
    row = {"value": "1", "topic": "gone", "wait": 200, "queue": "gone", "delay": "x"}
    env.write(
        schema, messageColumn="value", queueColumn="topic", delayColumn="wait", delay=5, **delivery
    ).run([row, {**row, "wait": None}])
    waits = [score - env.now_ms() for score in env.scores().values()]
    assert 0 < waits[0] <= 5000
    assert 190_000 < waits[1] <= 200_000
    env.rsmq.create_queue("r")
    env.write(columns(message="string", topic="string"), queue="", queueColumn="topic").run(
        [{"message": "m", "topic": "r"}]
    )
    assert env.bodies("r") == [b"m"]


@pytest.mark.parametrize(
    ("schema", "row", "kind", "text"),
    [
        (TEXT, {"message": None}, MessageNotString, "Message must be a string"),
        (columns(message="binary"), {"message": None}, MessageNotString, "Message must be"),
        (
            columns(message="string", queue="string"), {"message": "m", "queue": None},
            InvalidOption, "Option queueColumn: column queue is null in a row",
        ),
        (
            columns(message="string", queue="string"), {"message": "m", "queue": ""},
            InvalidOption, "Option queueColumn: column queue is",
        ),
        (
            columns(message="string", queue="string"), {"message": "m", "queue": "a b"},
            InvalidFormat, "Invalid qname format",
        ),
        (
            columns(message="string", queue="string"), {"message": "m", "queue": "gone"},
            QueueNotFound, "Queue not found",
        ),
        (
            columns(message="string", delay="double"), {"message": "m", "delay": -1.0},
            InvalidOption, "Option delayColumn: column delay is wrong in a row: delay must be bet",
        ),
        (
            columns(message="string", delay="double"), {"message": "m", "delay": float("nan")},
            InvalidOption, "Option delayColumn: column delay is wrong in a row: delay must be bet",
        ),
    ],
)  # fmt: skip
def test_invalid_row_is_refused(env, queue, delivery, schema, row, kind, text):
    options = {"queue": ""} if "queue" in row else {}
    write = env.write(schema, **options, **delivery)
    with pytest.raises(kind) as caught:
        write.task([row])
    assert text in str(caught.value)
    assert env.scores() == {}


KINDS = {
    ValueKind.SECONDS: "double", ValueKind.TIME: "timestamp", ValueKind.FLAG: "boolean",
    ValueKind.WHOLE_NUMBER: "long", ValueKind.RATE: "string", ValueKind.LABEL: "string",
}  # fmt: skip


def option_text(value):
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)


def kept(env, queue):
    """Return the keys of a queue, with what they store of its only message, without its times."""
    (id,) = env.scores(queue)
    prefix = env.keys(queue).zset.decode()
    found = {}
    for key in env.raw.keys(f"{prefix}:*"):
        name = key.decode().removeprefix(prefix).replace(id, "ID")
        kind = env.raw.type(key).decode()
        if kind == "hash":
            values = {
                name.decode().replace(id, "ID"): value.decode().replace(id, "ID")
                for name, value in env.raw.hgetall(key).items()
            }
        else:
            values = [each.decode().replace(id, "ID") for each in env.raw.zrange(key, 0, -1)]
        found[name] = values
    return json.loads(re.sub(r"\d{10,}", "TIME", json.dumps(found)))


@pytest.mark.parametrize("name", SPARK.options)
@pytest.mark.parametrize("in_columns", [True, False])
def test_a_send_option_stores_what_a_client_stores(env, delivery, name, in_columns):
    sent, unique = OPTIONS[name], {"dedup_id", "unique_key"}
    as_columns = {each: value for each, value in sent.items() if in_columns or each in unique}
    as_options = {} if in_columns else sent
    for queue in ("q", "r"):
        env.rsmq.create_queue(queue)
    env.raw.hset(env.keys("r").hash, "created", env.raw.hget(env.keys("q").hash, "created"))
    env.rsmq.send_message("r", "m", **sent)

    schema = {each: KINDS[SPARK.options[each].kind] for each in as_columns}
    options = {
        option_of(SPARK.options[each]): option_text(value)
        for each, value in as_options.items()
        if each not in unique
    }
    options |= {column_option_of(SPARK.options[each]): each for each in as_columns}
    env.write(columns(message="string", **schema), **options, **delivery).run(
        [{"message": "m", **as_columns}]
    )

    assert env.bodies() == [b"m"]
    env.raw.delete(env.keys("q").staged)
    assert kept(env, "q") == kept(env, "r")
    (at,), (expected,) = env.scores().values(), env.scores("r").values()
    assert abs(at - expected) < 60_000


def test_rows_have_options_of_their_own_and_nulls_those_of_the_write(env, queue, delivery):
    schema = columns(message="string", tenant="string", key="string", tries="integer")
    env.write(
        schema, groupColumn="tenant", group="rest", uniqueKeyColumn="key", maxRetries=7,
        maxRetriesColumn="tries", **delivery,
    ).run(
        [
            {"message": "1", "tenant": "a", "key": "x", "tries": 1},
            {"message": "2", "tenant": None, "key": None, "tries": None},
            {"message": "3", "tenant": "a", "key": "x", "tries": 1},
            {"message": "4", "tenant": "b", "key": None, "tries": 1},
        ]
    )  # fmt: skip

    found = {each.body: each for each in env.rsmq.peek_messages("q", 0, 10)}
    assert {body: each.group for body, each in found.items()} == {"1": "a", "2": "rest", "4": "b"}
    limits = env.raw.hgetall(env.keys("q").limits)
    assert {body: limits[each.id.encode()] for body, each in found.items()} == {
        "1": b"1:", "2": b"7:", "4": b"1:",
    }  # fmt: skip
    assert env.raw.hgetall(env.keys("q").unique) == {b"x": found["1"].id.encode()}


def test_a_dedup_id_counts_also_for_exactly_once(env, queue, delivery):
    schema = columns(message="string", event="string")
    rows = [{"message": "1", "event": "a"}, {"message": "2", "event": None}]
    for number in range(2):
        write = env.write(schema, dedupIdColumn="event", dedupWindow=1000, **delivery)
        write.run([*rows, {"message": "3", "event": f"{number}"}])

    assert sorted(env.bodies()) == [b"1", b"2", b"2", b"3", b"3"]
    assert env.fields()["totalsent"] == b"5"


def test_a_staged_part_with_options_is_published_once_and_announced(env, queue):
    write = env.write(
        columns(message="string", tenant="string"), groupColumn="tenant", realtime=True,
        delivery="exactly-once", writeId="w",
    )  # fmt: skip
    result = write.task([{"message": str(n), "tenant": "a"} for n in range(3)])
    assert env.scores() == {}
    with env.raw.pubsub() as pubsub:
        pubsub.subscribe(env.keys().channel)
        pubsub.get_message(timeout=WAIT_SECONDS)
        write.commit(result)
        write.commit(result)
        assert pubsub.get_message(timeout=WAIT_SECONDS)["data"] == b"3"
        assert pubsub.get_message(timeout=0) is None
    assert [each.group for each in env.rsmq.peek_messages("q", 0, 10)] == ["a"] * 3
    assert env.rsmq.count_messages("q").held_back == 2


def test_rows_that_would_expire_before_they_are_visible_are_not_staged(env):
    env.rsmq.create_queue("q", delay=100)
    write = env.write(TEXT, expires=50, delivery="exactly-once")
    with pytest.raises(InvalidValue):
        write.task(texts("m"))
    assert staged(env) == []


def test_complete_row_leaves_out_the_columns_of_its_send(env, queue):
    schema = columns(total="long", tenant="string")
    env.write(schema, messageFormat="json", groupColumn="tenant").run([{"total": 3, "tenant": "a"}])

    assert env.bodies() == [b'{"total":3}']
    assert env.rsmq.peek_messages("q", 0, 1)[0].group == "a"


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("double", float("nan"), "max_retries must be between 0 and 1000000"),
        ("double", 1.5, "max_retries must be between 0 and 1000000"),
        ("long", -1, "max_retries must be between 0 and 1000000"),
    ],
)
def test_an_invalid_option_of_a_row_is_refused(env, queue, kind, value, text):
    schema = columns(message="string", tries=kind)
    write = env.write(schema, maxRetriesColumn="tries")
    with pytest.raises(InvalidOption) as caught:
        write.task([{"message": "m", "tries": value}])
    assert text in str(caught.value)
    assert env.scores() == {}


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([{"group": ""}, {"group": "x" * 129}, {"group": "a"}],
         "groupColumn: column group is wrong in 2 rows: Invalid group format"),
        ([{"group": "a\0b"}], "groupColumn: column group is wrong in a row"),
        ([{"dedup_id": "a"}, {"dedup_id": ""}],
         "dedupIdColumn: column dedup_id is wrong in a row: Invalid dedup_id format"),
        ([{"limit_key": "", "max_running": 1}],
         "limitKeyColumn: column limit_key is wrong in a row"),
        ([{"rate": "fast", "group": "a"}] * 3, "rateColumn: column rate is wrong in 3 rows: Inval"),
        ([{"max_running": 0, "limit_key": "k"}],
         "column max_running is wrong in a row: max_running must be between 1 and 1000, not 0"),
        ([{"expires": 1e8}, {"expires": float("nan")}], "column expires is wrong in 2 rows"),
        ([{"dedup_window": 0, "dedup_id": "x"}], "dedup_window must be between 1 and 9999999"),
        ([{"limit_key": "k"}, {"limit_key": "k", "rate": "1/s"}],
         ("limitKeyColumn: column limit_key is wrong in a row: A key has a limit of its own. It "
         "needs maxRunning or rate.")),
        ([{"max_running": 2}, {"max_running": 2, "limit_key": "k"}],
         "maxRunningColumn: column max_running is wrong in a row: "),
        ([{"group": "a", "limit_key": "k", "max_running": 1}] * 2,
         ("limitKeyColumn: column limit_key is wrong in 2 rows: A key has a limit of its own. It "
         "can't be combined with group.")),
        ([{"replace": True}, {"replace": False}, {"replace": True, "unique_key": "u"}],
         "replaceColumn: column replace is wrong in a row"),
    ],
)  # fmt: skip
def test_wrong_values_of_columns_are_counted_before_anything_is_sent(
    env, queue, delivery, rows, rule
):
    kinds = {each.name: KINDS[each.kind] for each in SPARK.options.values()}
    write = env.write(columns(message="string", **kinds), batchSize=1, **delivery)
    right = {"message": "right"}
    with pytest.raises(InvalidOption) as caught:
        write.task([right, *({"message": "m", **row} for row in rows), right])
    assert rule in str(caught.value)
    assert env.scores() == {}
    assert staged(env) == []


def test_an_option_of_all_rows_counts_in_the_combinations_of_each_row(env, queue):
    schema = columns(message="string", group="string")
    with pytest.raises(InvalidOption, match=r"limitKey: is wrong for a row: .* with group"):
        env.write(schema, limitKey="k", maxRunning=2).task(
            [{"message": "1", "group": "a"}, {"message": "2", "group": None}]
        )


def test_columns_with_the_names_of_options_are_taken(env, queue, delivery):
    schema = columns(
        message="string", group="string", limit_key="string", max_running="long",
        max_retries="long", id="string", sent="timestamp",
    )  # fmt: skip
    nothing = dict.fromkeys(schema.fieldNames())
    env.write(schema, **delivery).run(
        [
            {**nothing, "message": "1", "group": "a", "id": "old"},
            {**nothing, "message": "2", "limit_key": "k", "max_running": 3},
            {**nothing, "message": "3", "max_retries": 4},
        ]
    )
    found = {each.body: each for each in env.rsmq.peek_messages("q", 0, 10)}
    assert {body: (m.group, m.limit_key, m.max_running) for body, m in found.items()} == {
        "1": ("a", None, None), "2": (None, "k", 3), "3": (None, None, None),
    }  # fmt: skip
    assert env.raw.hgetall(env.keys().limits) == {found["3"].id.encode(): b"4:"}
    assert "old" not in env.scores()


@pytest.mark.parametrize(
    ("name", "options", "hint"),
    [
        ("tenant", {}, "a write has message, queue, delay"),
        ("Group", {}, "did you mean group?"),
        ("expires_at", {}, "did you mean expires?"),
        ("state", {}, "a write has"),
        ("headers", {}, "a write has"),
        ("group", {"restore": True, "createQueue": True}, None),
        ("unique_key", {"restore": True}, "a write has message, queue, id"),
    ],
)
def test_an_unknown_column_is_refused_by_name(env, queue, delivery, name, options, hint):
    schema = columns(message="string", id="string", **{name: "string"})
    if hint is None:
        env.write(schema, **options, **delivery)
        return
    with pytest.raises(InvalidOption) as caught:
        env.write(schema, **options, **delivery)
    assert f"Option ignoreExtraColumns: column {name} is none of a write; {hint}" in str(
        caught.value
    )
    assert "pass ignoreExtraColumns=true" in str(caught.value)
    write = env.write(schema, **options, **delivery, ignoreExtraColumns=True)
    write.run([{"message": "m", "id": "0" * 32, name: "x"}])
    assert env.bodies() == [b"m"]


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [("group", "long", "string"), ("max_running", "string", "a number"), ("track", "string", "boo"),
     ("deliver_at", "string", "timestamp"), ("expires", "timestamp", "a number")],
)  # fmt: skip
def test_a_column_of_a_wrong_type_is_refused_by_name(env, queue, delivery, name, kind, wanted):
    with pytest.raises(InvalidOption, match=f"column {name} is .*, and must be {wanted}"):
        env.write(columns(message="string", **{name: kind}), **delivery)


def test_null_messages_are_counted(env, queue):
    with pytest.raises(MessageNotString) as caught:
        env.write(TEXT).task(texts(None, "m", None))
    assert "Column message is null in 2 rows" in caught.value.hint
    assert env.scores() == {}


def test_null_message_error_names_the_column(env, queue):
    with pytest.raises(MessageNotString) as caught:
        env.write(columns(body="string"), messageColumn="body").task([{"body": None}])
    assert "Column body is null in a row" in caught.value.hint


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        (columns(value="string"), {}, "messageColumn: there is no column message (string or bin"),
        (columns(message="integer"), {}, "column message is int, and must be string or binary"),
        (columns(message="integer"), {}, "messageFormat=json"),
        (TEXT, {"queue": ""}, "Option queue: give the queue to write to, or a column"),
        (
            columns(queue="string", k="string"), {"queue": "", "messageFormat": "json"},
            "each row's (as queueColumn says: with json it has no default); there are queue, k.",
        ),
        (TEXT, {"queue": "", "queueColumn": "topic"}, "Option queue: give the queue"),
        (columns(message="string", queue="long"), {"queue": ""}, "Option queueColumn: column queu"),
        (TEXT, {"delayColumn": "wait"}, "Option delayColumn: there is no column wait (a number)"),
        (columns(message="string", delay="string"), {}, "delay is string, and must be a number"),
        (TEXT, {"restore": True}, "Option restore: there is no column id (string)"),
        (
            columns(message="string", id="string", visible_at="long"), {"restore": True},
            "column visible_at is bigint, and must be timestamp",
        ),
        (columns(a="long"), {"messageFormat": "json", "queue": ""}, "Option queue: give the"),
    ],
)  # fmt: skip
def test_unsuitable_columns_are_refused_before_any_row_is_written(
    env, queue, stream, schema, options, text
):
    for begin in (lambda: env.write(schema, **options), lambda: stream(schema=schema, **options)):
        with pytest.raises(InvalidOption) as caught:
            begin().writer  # noqa: B018 - a stream creates it for each batch
        assert text in str(caught.value)


def test_sizes_are_counted_as_other_clients_count_them(env, delivery):
    env.rsmq.create_queue("q", maxsize=1024)
    fits = "é" * 1022 + "\N{GRINNING FACE}"
    env.write(TEXT, **delivery).run(texts(fits))
    for schema, body in (
        (TEXT, "é" * 1025),
        (TEXT, "\N{GRINNING FACE}" * 513),
        (columns(message="binary"), "é".encode() * 513),
    ):
        write = env.write(schema, **delivery)
        with pytest.raises(MessageTooLong):
            write.task(texts(body))
    assert env.bodies() == [fits.encode()]
    assert staged(env) == []
    env.write(TEXT, enforceMaxSize=False, **delivery).run(texts("é" * 100_000))
    assert len(env.scores()) == 2


@pytest.mark.parametrize("units", [300, 400])
def test_small_maxsize_of_another_client_is_checked_in_the_same_way(env, queue, units):
    env.raw.hset(env.keys().hash, "maxsize", 500)
    env.rsmq.send_message("q", "\N{EURO SIGN}" * units)
    env.write(TEXT).run(texts("\N{EURO SIGN}" * units))
    assert len(env.scores()) == 2


def test_missing_queues_are_created_with_create_queue(env, delivery):
    options = {"createQueue": True, "vt": 77, "maxsize": -1, **delivery}
    env.write(TEXT, queue="one", **options)
    env.write(columns(message="string", queue="string"), queue="", **options).run(
        [{"message": "m", "queue": "two"}, {"message": "m", "queue": "one"}]
    )
    assert env.raw.smembers(f"{env.ns}:QUEUES") == {b"one", b"two"}
    for name in ("one", "two"):
        assert env.raw.hmget(env.keys(name).hash, "vt", "delay", "maxsize") == [b"77", b"0", b"-1"]
        assert len(env.scores(name)) == 1
    created = env.fields("one")["created"]
    env.raw.hset(env.keys("one").hash, "vt", 5)
    env.write(TEXT, queue="one", **options)
    assert env.fields("one")["vt"] == b"5"
    assert env.fields("one")["created"] == created


@pytest.mark.parametrize(("realtime", "expected"), [(True, [b"3"]), (False, [])])
def test_realtime_notifies_once_for_each_call(env, queue, delivery, realtime, expected):
    write = env.write(TEXT, realtime=realtime, **delivery)
    with env.raw.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(env.keys().channel)
        pubsub.get_message(timeout=5)
        write.run(texts("a", "b", "c"))
        env.raw.publish(env.keys().channel, "end")
        notifications = []
        while (message := pubsub.get_message(timeout=5)) is None or message["data"] != b"end":
            if message is not None:
                notifications.append(message["data"])
    assert notifications == expected


# --- complete rows -----------------------------------------------------------------------------

BERLIN = ZoneInfo("Europe/Berlin")
ROW = (
    StructType()
    .add("yes", "boolean").add("byte", "byte").add("long", "long").add("real", "float")
    .add("nan", "double").add("decimal", "decimal(20,2)").add("text", "string")
    .add("raw", "binary").add("day", "date").add("at", "timestamp").add("local", "timestamp_ntz")
    .add("none", "string")
)  # fmt: skip
VALUES = {
    "yes": True, "byte": -1, "long": 2**62, "real": 0.5, "nan": float("nan"),
    "decimal": Decimal("12345678901234567.80"), "text": "grüße\n", "raw": b"\x00\xff",
    "day": date(2026, 1, 31), "at": datetime(2026, 1, 31, 11, 0, 0, 5, UTC),
    "local": datetime(2026, 1, 31, 12),  # noqa: DTZ001 - Spark has a type without a zone
    "none": None,
}  # fmt: skip
TIMES = {
    "decimal": "12345678901234567.80", "day": "2026-01-31",
    "at": "2026-01-31T12:00:00.000005+01:00", "local": "2026-01-31T12:00:00",
}  # fmt: skip


def nested():
    from pyspark.sql.types import ArrayType, MapType, StringType

    schema = StructType.fromJson(ROW.jsonValue())
    schema.add("inner", ROW).add("list", ArrayType(ROW))
    schema.add("map", MapType(StringType(), ArrayType(ROW)))
    return schema, {**VALUES, "inner": VALUES, "list": [VALUES, None], "map": {"k": [VALUES]}}


@pytest.mark.parametrize(
    ("shape", "read", "differs"),
    [
        ("json", json.loads, {"raw": "AP8=", "nan": "NaN"}),
        ("msgpack", msgpack.unpackb, {}),
    ],
)
def test_complete_row_is_encoded_with_every_type(env, queue, delivery, shape, read, differs):
    schema, row = nested()
    write = env.write(schema, messageFormat=shape, **delivery)
    write.commit(write.task(write.batch([row], timezone="Europe/Berlin")))
    (body,) = env.bodies()
    flat = {**VALUES, **TIMES, **differs}
    expected = {**flat, "inner": flat, "list": [flat, None], "map": {"k": [flat]}}
    assert repr(read(body)) == repr(expected)
    if shape == "json":
        assert body.startswith(b'{"yes":true,"byte":-1,')
        assert "grüße".encode() in body


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_numbers_that_json_lacks_are_named(env, queue, number):
    env.write(columns(n="double"), messageFormat="json").run([{"n": number}])
    (body,) = env.bodies()
    names = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
    assert json.loads(body, parse_constant=pytest.fail) == {"n": names[str(number)]}


@pytest.mark.parametrize(
    ("kind", "key", "text"),
    [
        (pa.int32(), 1, "1"),
        pytest.param(
            pa.date32(), date(2026, 1, 31), "2026-01-31"),
        pytest.param(
            pa.decimal128(5, 2), Decimal("1.50"), "1.50"),
    ],
)  # fmt: skip
def test_maps_with_any_keys_are_json(env, queue, kind, key, text):
    schema = StructType.fromJson(
        {
            "type": "struct",
            "fields": [
                {
                    "name": "m", "nullable": True, "metadata": {},
                    "type": {
                        "type": "map", "valueType": "string", "valueContainsNull": True,
                        "keyType": {
                            "int32": "integer", "date32[day]": "date",
                        }.get(str(kind), "decimal(5,2)"),
                    },
                }
            ],
        }
    )  # fmt: skip
    env.write(schema, messageFormat="json").run([{"m": {key: "v"}}])
    assert [json.loads(body) for body in env.bodies()] == [{"m": {text: "v"}}]


def test_complete_row_leaves_out_queue_and_delay_columns(env, queue):
    env.rsmq.create_queue("r")
    schema = columns(queue="string", delay="long", topic="string", wait="double")
    row = {"queue": "data", "delay": 7, "topic": "r", "wait": 100.0}
    options = {"messageFormat": "json", "queueColumn": "topic", "delayColumn": "wait"}
    env.write(schema, queue="", **options).run([row])
    env.write(schema, messageFormat="json").run([row])
    assert [json.loads(body) for body in env.bodies("r")] == [{"queue": "data", "delay": 7}]
    assert min(env.scores("r").values()) > env.now_ms() + 50_000
    assert [json.loads(body) for body in env.bodies()] == [row]


# --- restoring ---------------------------------------------------------------------------------


def filled(env):
    """Send messages of all kinds to a queue."""
    env.rsmq.send_messages("q", ["a", "b", "c"])
    env.rsmq.receive_message("q", vt=500)
    env.rsmq.receive_message("q", vt=0)
    env.rsmq.send_message("q", "later", delay=100)
    env.put("6f9619ff-8b86-d011-b42d-00cf4fc964ff", b"\xff\x00", score=5)
    env.put("lkdcq4w0" + "A" * 22, b"port", score=1_700_000_000_000, rc=b"2", fr=b"1")


def test_messages_are_restored_unchanged_and_once(env, queue, delivery):
    env.rsmq.create_queue("copy")
    filled(env)
    source = env.source(queue="q", bodyType="binary")
    rows = env.read(queue="q", bodyType="binary")
    for _ in range(2):
        write = env.write(source.schema(), queue="copy", restore=True, **delivery)
        write.commit(write.task(write.batch(rows[:2], timezone="Asia/Tokyo")), write.task(rows[2:]))
        assert env.scores("copy") == env.scores("q")
        kept = {"totalsent", "totalrecv", "created", "modified"}
        fields = {name: value for name, value in env.fields("copy").items() if name not in kept}
        assert fields == {name: each for name, each in env.fields("q").items() if name not in kept}
        assert env.fields("copy")["totalsent"] == b"6"
    assert env.rsmq.receive_message("copy") is not None


def test_missing_columns_are_restored_as_after_a_send(env, queue, delivery):
    id = "hodm9jyjbq" + "A" * 22
    uuid = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
    before = env.now_ms()
    env.write(columns(id="string", message="string"), restore=True, **delivery).run(
        [{"id": id, "message": "a"}, {"id": uuid, "message": "b"}]
    )
    assert env.scores()[id] == int(id[:10], 36) // 1000
    assert before <= env.scores()[uuid] <= env.now_ms()
    assert {name for name in env.fields() if name.startswith((id, uuid))} == {id, uuid}


@pytest.mark.parametrize(
    ("id", "kind", "text"),
    [
        (None, InvalidOption, "Option restore: column id is null in a row"),
        ("short", InvalidFormat, "Invalid id format"),
        ("totalsent", InvalidFormat, "Invalid id format"),
    ],
)
def test_invalid_id_is_not_restored(env, queue, delivery, id, kind, text):
    write = env.write(columns(id="string", message="string"), restore=True, **delivery)
    before = env.fields()
    with pytest.raises(kind) as caught:
        write.task([{"id": id, "message": "m"}])
    assert text in str(caught.value)
    assert env.fields() == before


# --- exactly once ------------------------------------------------------------------------------


def test_staged_rows_are_invisible_until_the_commit_and_failed_attempts_always(env, queue):
    write = env.write(TEXT, delivery="exactly-once", batchSize=2)

    def failing():
        yield write.batch(texts("1", "2", "3"))
        raise Crashed

    with pytest.raises(Crashed):
        pickle_round_trip(write.writer).write(failing())
    twice = write.task(texts("1", "2", "3"))  # an attempt that ended without a report to the driver
    assert twice.rows == 3
    committed = [write.task(texts("1", "2", "3")), write.task(texts("4"))]
    assert env.scores() == {}
    assert len(staged(env)) == 1 + 2 + 2 + 1
    assert 0 < env.raw.pttl(env.keys().staged) <= 7 * 86_400_000

    write.commit(*committed, None)
    assert env.bodies() == [b"1", b"2", b"3", b"4"]
    assert env.fields()["totalsent"] == b"4"
    assert staged(env) == []
    write.commit(*committed)
    assert len(env.scores()) == 4


def test_late_attempt_of_a_task_stages_nothing(env, queue):
    """Spark may run an attempt of a task that ends after another one has won."""
    write = env.write(TEXT, delivery="exactly-once")
    write.commit(write.task([{"message": "a"}]))
    late = write.task([{"message": "a"}])
    assert env.raw.exists(env.keys().staged) == 0
    assert late.parts == {"q": []}
    assert env.bodies() == [b"a"]


def test_abort_does_not_remove_messages_that_were_sent(env, queue):
    write = env.write(TEXT)
    message = write.task(texts("1"))
    write.abort(message, None)
    write.run(texts("1"))
    assert env.bodies() == [b"1", b"1"]


def test_abort_deletes_staged_rows(env, queue):
    env.rsmq.create_queue("r")
    env.write(TEXT, delivery="exactly-once").task(texts("of another write"))
    schema = columns(message="string", queue="string")
    write = env.write(schema, delivery="exactly-once", queue="")
    before = staged(env)
    message = write.task([{"message": "m", "queue": name} for name in ("q", "r")])
    write.abort(message, None)
    assert (staged(env), staged(env, "r")) == (before, [])
    assert env.scores() == env.scores("r") == {}
    write.abort()
    write.abort(None)


@pytest.mark.parametrize("kind", ["named batch write", "stream"])
def test_abort_keeps_the_parts_of_another_driver(env, queue, stream, kind):
    """Two drivers may run one checkpoint, or one ``writeId``, and one of them fails."""

    def make():
        options = {"delivery": "exactly-once", "batchSize": 1}
        return stream(**options) if kind == "stream" else env.write(TEXT, writeId="w", **options)

    failing, other = make(), make()
    aborted = failing.task(texts("a", "b"))
    messages = other.task(texts("a", "b"))
    failing.abort(aborted, None)
    assert staged(env) == [part.encode() for part in messages.parts["q"]]
    other.commit(messages)
    assert env.bodies() == [b"a", b"b"]


@pytest.mark.parametrize("kind", ["named batch write", "stream"])
def test_abort_keeps_a_decision_that_is_stored_meanwhile(env, queue, stream, monkeypatch, kind):
    def make():
        options = {"delivery": "exactly-once", "batchSize": 1}
        return stream(**options) if kind == "stream" else env.write(TEXT, writeId="w", **options)

    failing, other = make(), make()
    aborted, messages = failing.task(texts("a", "b")), other.task(texts("a", "b"))
    read_last_batch = sink.read_last_batch

    def read_before_the_decision(home, write):
        last = read_last_batch(home, write)
        monkeypatch.undo()
        with suppress(Crashed), crash_at_call(env.server(), 1, answered=True):
            other.commit(messages)  # the decision is stored, and one of two parts published
        return last

    monkeypatch.setattr(sink, "read_last_batch", read_before_the_decision)
    failing.abort(aborted)
    assert env.bodies() == [b"a"]
    make().run(texts("a", "b"))
    assert env.bodies() == [b"a", b"b"]
    assert staged(env) == []


def test_write_with_missing_parts_publishes_nothing(env, queue):
    env.rsmq.create_queue("r")
    schema = columns(message="string", queue="string")
    write = env.write(schema, delivery="exactly-once", queue="", writeId="w")
    message = write.task([{"message": "m", "queue": name} for name in ("q", "r")])
    env.rsmq.purge_queue("r")
    with pytest.raises(BatchLost, match="Not all that was staged for batch 0 of write w is in"):
        write.commit(message)
    assert env.scores() == {}
    assert decided(env, "w") is None
    write.abort(message)
    assert staged(env) == []


def test_next_write_deletes_expired_parts(env, queue):
    day = 86_400_000
    now = env.now_ms()
    for attempt, age in (("old", day), ("young", -day)):
        env.raw.hset(env.keys().staged, f"gone:0:{now - age}-{attempt}:0", b"")
    env.write(TEXT, delivery="exactly-once").run(texts("m"))
    assert staged(env) == [f"gone:0:{now + day}-young:0".encode()]


def test_named_write_is_done_once(env, queue, caplog):
    options = {"delivery": "exactly-once", "writeId": "nightly.1"}
    env.write(TEXT, **options).run(texts("1"), texts("2"))
    before = env.state()
    assert caplog.messages == []
    again = env.write(TEXT, **options)
    messages = again.run(texts("1"), texts("other"))
    assert [message.rows for message in messages] == [0, 0]
    assert env.state() == before
    assert caplog.messages == ["The write nightly.1 was done before: no row is sent now."]
    env.write(TEXT, **{**options, "writeId": "nightly.2"}).run(texts("3"))
    assert env.bodies() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("kind", ["named batch write", "stream"])
def test_publishing_interrupted_at_any_call_is_completed_once(env, stream, kind, answered):
    for name in ("q", "r"):
        env.rsmq.create_queue(name)
    schema = columns(message="string", queue="string")
    tasks = [
        [{"message": f"{task}{n}", "queue": "qr"[n % 2]} for n in range(5)] for task in range(2)
    ]
    options = {"schema": schema, "delivery": "exactly-once", "queue": "", "batchSize": 2}
    expected = {
        name: sorted(r["message"].encode() for rows in tasks for r in rows if r["queue"] == name)
        for name in ("q", "r")
    }

    def begin():
        if kind == "stream":
            return stream(calls, **options)
        return env.write(**options, writeId=f"nightly-{calls}")

    calls, ended = 0, False
    while not ended:
        first = begin()
        messages = [first.task(rows) for rows in tasks]
        with suppress(Crashed), crash_at_call(env.server(), calls, answered=answered):
            first.commit(*messages)
            ended = True
        if not ended:
            first.abort(*messages)  # Spark calls this
            begin().run(*tasks)  # in the next process
        for name in ("q", "r"):
            assert sorted(env.bodies(name)) == expected[name], calls
            assert staged(env, name) == []
            env.rsmq.purge_queue(name)
        calls += 1
    assert calls > 8


def test_publishing_survives_several_crashes(env, queue, stream):
    options = {"delivery": "exactly-once", "batchSize": 1}
    rows = texts(*"abcdef")
    for calls in (3, 2, 4):
        write = stream(**options)
        messages = [write.task(rows)]
        with suppress(Crashed), crash_at_call(env.server(), calls, answered=True):
            write.commit(*messages)
    stream(**options).run(rows)
    assert sorted(env.bodies()) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert env.fields()["totalsent"] == b"6"


def test_batch_of_a_stream_is_not_repeated_after_it_was_done(env, queue, stream, delivery):
    stream(0, **delivery).run(texts("0"))
    stream(1, **delivery).run(texts("1"))
    before = env.scores(), env.fields()
    (message,) = stream(1, **delivery).run(texts("again"))
    assert message.rows == 0
    assert (env.scores(), env.fields()) == before
    stream(1, query="other", **delivery).run(texts("2"))
    stream(2, **delivery).run(texts("3"))
    assert env.bodies() == [b"0", b"1", b"2", b"3"]
    assert decided(env, "query") == [2, b""]


def test_a_batch_older_than_the_last_is_refused(env, queue, stream, delivery):
    early = stream(0, **delivery)
    message = early.task(texts("0"))
    for number in (0, 1, 2):
        stream(number, **delivery).run(texts(str(number)))
    before = env.scores(), env.fields(), decided(env, "query")

    for number in (1, 0):
        with pytest.raises(
            CheckpointSetBack, match=f"asks for batch {number}, but batch 2 was wri"
        ):
            stream(number, **delivery).task(texts("new"))
    with pytest.raises(CheckpointSetBack, match="The checkpoint of query query was set back"):
        early.commit(message)
    assert (env.scores(), env.fields(), decided(env, "query")) == before


def test_batch_without_rows_is_stored_as_done(env, queue, stream, delivery):
    stream(4, **delivery).run([], [])
    assert decided(env, "query") == [4, b""]
    stream(5, **delivery).commit(None)
    stream(5, **delivery).run(texts("m"))
    assert env.bodies() == [b"m"]


def test_aborted_batch_of_a_stream_is_done_by_the_next_attempt(env, queue, stream):
    first = stream(7, delivery="exactly-once")
    message = first.task(texts("a"))
    first.abort(message, None)
    assert staged(env) == []
    assert decided(env, "query") is None
    stream(7, delivery="exactly-once").run(texts("a"), texts("b"))
    assert env.bodies() == [b"a", b"b"]


def test_commit_deletes_parts_that_a_killed_process_has_staged(env, queue, stream):
    stream(7, delivery="exactly-once").task(texts("killed before its commit"))
    stream(7, query="other", delivery="exactly-once").task(texts("of another query"))
    stream(7, delivery="exactly-once").run(texts("a"))
    (left,) = staged(env)
    assert left.startswith(b"other:7:")
    assert env.bodies() == [b"a"]


def test_longest_staging_retention_of_a_queue_applies_to_parts(env, queue):
    options = {"delivery": "exactly-once"}
    env.write(TEXT, stagingRetention=1000, **options).task(texts("a"))
    env.write(TEXT, stagingRetention=60, **options).task(texts("b"))
    assert env.raw.pttl(env.keys().staged) > 900_000


def test_longest_staging_retention_applies_to_done_batches(env, queue, stream):
    stream(0, stagingRetention=1000).run(texts("a"))
    stream(0, query="other", stagingRetention=60).run(texts("b"))
    assert env.raw.pttl(env.server().namespace.written) > 900_000


def test_writer_reads_query_and_batch_from_the_task(monkeypatch):
    class Context:
        def getLocalProperty(self, name):
            return {"sql.streaming.queryId": "id", "streaming.sql.batchId": "12"}[name]

    monkeypatch.setattr(sink.TaskContext, "get", Context)
    assert sink.read_query_and_batch() == ("id", 12)


def test_restored_time_does_not_depend_on_the_session_time_zone(env, queue):
    schema = columns(id="string", message="string", visible_at="timestamp")
    at = datetime(2026, 7, 1, 12, tzinfo=BERLIN) + timedelta(milliseconds=1)
    write = env.write(schema, restore=True)
    row = {"id": "x" * 32, "message": "m", "visible_at": at}
    write.commit(write.task(write.batch([row], timezone="America/New_York")))
    assert env.scores() == {"x" * 32: at.timestamp() * 1000}


def test_part_lost_after_the_decision_is_reported(env, queue, stream):
    write = stream(0, delivery="exactly-once", batchSize=1)
    messages = write.task(texts("a", "b", "c"))
    with (
        suppress(Crashed),
        crash_at_call(env.server(), 2, answered=True),
    ):  # the decision is stored, and one part published
        write.commit(messages)
    env.raw.hdel(env.keys().staged, messages.parts["q"][2])

    with pytest.raises(BatchLost, match="stagingRetention"):
        write.commit(messages)


def test_write_keeps_parts_that_another_write_has_decided(env, queue, stream):
    write = stream(0, delivery="exactly-once", batchSize=1)
    messages = write.task(texts("a", "b", "c"))
    with suppress(Crashed), crash_at_call(env.server(), 2, answered=True):
        write.commit(messages)
    env.write(TEXT, delivery="exactly-once", stagingRetention=60).run(texts("other"))
    write.commit(messages)

    assert sorted(env.bodies()) == [b"a", b"b", b"c", b"other"]


@pytest.mark.parametrize("batch_size", [1, 3, 1000])
def test_a_call_has_a_limited_number_of_messages_and_bytes(
    env, queue, delivery, monkeypatch, batch_size
):
    """A body that is larger than a call is sent alone."""
    from rsmq.spark.write import task_writer

    monkeypatch.setattr(task_writer, "_MAX_CALL_BYTES", 10)
    bodies = ["a" * size for size in (4, 4, 4, 25, 1, 1, 1, 1, 9, 2, 10, 11, 0, 0)]
    calls = []
    send = task_writer.TaskWriter._send

    def record(writer, destination, messages):
        calls.append(list(messages))
        send(writer, destination, messages)

    monkeypatch.setattr(task_writer.TaskWriter, "_send", record)
    write = env.write(columns(message="string"), batchSize=batch_size, **delivery)
    rows = [{"message": body} for body in bodies]
    write.commit(write.task(write.batch(rows[:5]), write.batch(rows[5:])))

    assert [body for call in calls for body in call] == [body.encode() for body in bodies]
    assert all(len(call) <= batch_size for call in calls)
    assert all(len(call) == 1 or sum(map(len, call)) <= 10 for call in calls)
    if batch_size == 1000:
        assert [len(call) for call in calls] == [2, 1, 1, 4, 1, 1, 1, 1, 2]
    assert env.bodies() == [body.encode() for body in bodies]
