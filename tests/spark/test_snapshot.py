"""The batch source: a snapshot of queues with each message once, which changes nothing."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from operator import itemgetter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from rsmq.spark.read import batch_read
from tests.scale import scaled
from tests.spark.conftest import Env

READS = {
    "CLIENT", "ECHO", "EXEC", "HELLO", "HMGET", "HSTRLEN", "INFO", "MULTI", "PING", "SELECT",
    "SMEMBERS", "TIME", "ZCARD", "ZRANGE", "ZSCAN",
}  # fmt: skip


def ids(rows):
    return [row["id"] for row in rows]


def base36(number):
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return (base36(number // 36) if number >= 36 else "") + digits[number % 36]


def test_snapshot_has_each_message_once_while_other_clients_work(env, queue):
    sent = env.rsmq.send_messages("q", [str(n) for n in range(100)])
    read = env.plan_read(queue="q", numPartitions=7, snapshot="exact")
    received = env.rsmq.receive_messages("q", 50, vt=100)
    env.rsmq.delete_messages(received[:10])
    env.rsmq.send_messages("q", ["new"] * 10)
    gone = {message.id for message in received[:10]}

    found = [row for partition in read() for row in partition]
    assert ids(found) == [id for id in sent if id not in gone]
    assert [row["message"] for row in found] == [str(n) for n in range(100) if sent[n] not in gone]


def test_deleted_queue_leaves_empty_partitions(env, queue):
    env.rsmq.send_messages("q", ["a"] * 10)
    exact = env.plan_read(queue="q", numPartitions=2, snapshot="exact")
    scan = env.plan_read(queue="q", numPartitions=2)
    env.rsmq.delete_queue("q")
    assert exact() == [[], []]
    assert scan() == [[]]


def test_snapshot_changes_nothing(env, queue):
    env.rsmq.create_queue("r")
    env.rsmq.send_messages("q", ["a"] * 10)
    env.rsmq.receive_messages("q", 5, vt=1)
    env.put("ghost", b"")
    env.raw.hdel(env.keys().hash, "ghost")
    before = env.state()
    with env.commands() as commands:
        for options in (
            {"include": "in_flight"},
            {"columns": "sent"},
            {"startingTimestamp": "2020-01-01"},
            {"pushdown": True},
            {"snapshot": "exact"},
        ):
            env.read(subscribe="q,r", **options)
        env.read(subscribePattern=".*")
    assert env.state() == before
    assert {command.split()[0] for command in commands} <= READS | {"EVALSHA", "EVAL", "SCRIPT"}
    scripts = [command for command in commands if command.startswith("EVAL")]
    assert all(
        "QUEUES" in each or "HSTRLEN" in each or ":q:Q" in each or ":r:Q" in each
        for each in scripts
    )


def test_ids_that_are_names_of_attributes_are_not_messages(env, queue):
    sent = env.rsmq.send_messages("q", ["a", "b"])
    env.put("short", b"c")
    env.raw.zadd(env.keys().zset, {"vt": 1, "x:max": 2, "x:" + "a" * 30: 3})
    for options in ({}, {"columns": "id"}):
        rows = env.read(queue="q", **options)
        assert sorted(row["id"] for row in rows) == sorted([*sent, "short"])


def test_a_message_is_in_one_state(env, queue):
    now, never = env.rsmq.send_messages("q", ["a", "b"])
    env.rsmq.receive_message("q", vt=100)
    (delayed,) = env.rsmq.send_messages("q", ["c"], delay=100)
    states = {
        "all": [never, now, delayed],
        "visible": [never],
        "hidden": [now, delayed],
        "in_flight": [now],
        "delayed": [delayed],
    }
    for include, expected in states.items():
        for projection in ("id", "id,message", "id,receive_count", "first_received,id"):
            found = env.read(queue="q", include=include, columns=projection)
            assert sorted(ids(found)) == sorted(expected)


def test_a_message_that_is_held_back_is_not_delayed(env, queue):
    groups = ["a", "a", None, "b"]
    first, second, none, other = env.rsmq.send_messages("q", ["m"] * 4, groups=groups)
    late = env.rsmq.send_message("q", "m", group="c", delay=100)
    states = {"visible": [first, none, other], "delayed": [late], "held_back": [second]}
    for include, expected in states.items():
        with env.commands() as commands:
            rows = env.read(queue="q", include=include, columns="id")
        assert sorted(ids(rows)) == sorted(expected)
        assert any("ZMSCORE" in each for each in commands) == (include != "visible")

    with env.commands() as commands:
        env.rsmq.delete_messages("q", [first, second, none, other, late])
        (plain,) = env.rsmq.send_messages("q", ["m"], delay=100)
        assert ids(env.read(queue="q", include="delayed")) == [plain]
    assert not any("ZMSCORE" in each for each in commands)


def test_timestamps_limit_the_sent_time(env, queue):
    start = 1_700_000_000_000_000
    for us in (start - 1, start, start + 1, start + 2000):
        env.put(base36(us) + "A" * 22, str(us - start))
    env.put("6f9619ff-8b86-d011-b42d-00cf4fc964ff", "unknown")

    def found(**options):
        rows = env.read(queue="q", columns="message", **options)
        return sorted(row["message"] for row in rows)

    assert found(startingTimestamp="1700000000000") == ["0", "1", "2000"]
    assert found(startingTimestamp="2023-11-14T22:13:20.000001") == ["1", "2000"]
    assert found(endingTimestamp="1700000000000") == ["-1"]
    assert found(startingTimestamp="1700000000000", endingTimestamp="1700000000002") == ["0", "1"]
    assert len(found()) == 5


def test_several_queues_are_read_as_one_frame(env, queue):
    for name in ("r", "orders-1", "orders-2", "old-orders-1"):
        env.rsmq.create_queue(name)
        env.rsmq.send_message(name, f"in {name}")
    env.rsmq.send_message("q", "in q")

    def found(**options):
        return [(row["queue"], row["message"]) for row in env.read(**options)]

    assert found(subscribe="r,q") == [("r", "in r"), ("q", "in q")]
    assert sorted(found(subscribePattern=r"orders-\d+")) == [
        ("orders-1", "in orders-1"),
        ("orders-2", "in orders-2"),
    ]
    assert found(subscribePattern="orders") == []
    assert len(found(subscribePattern=".*")) == 5


@pytest.mark.parametrize(
    ("numbers", "options", "sizes"),
    [
        ((10,), {"numPartitions": 1}, [10]),
        ((10,), {"numPartitions": 4}, [3, 3, 3, 1]),
        ((10,), {"numPartitions": 100}, [1] * 10),
        ((10,), {"numPartitions": 1, "maxIdsPerPartition": 4}, [4, 4, 2]),
        ((10, 5), {"numPartitions": 3}, [5, 5, 5]),
        ((10, 1), {"numPartitions": 2}, [6, 4, 1]),
        ((0, 3), {"numPartitions": 1}, [3]),
        ((0,), {"numPartitions": 4}, []),
    ],
)
def test_partitions_have_similar_sizes(env, numbers, options, sizes):
    for place, number in enumerate(numbers):
        env.rsmq.create_queue(f"q{place}")
        env.rsmq.send_messages(f"q{place}", ["m"] * number)
    queues = ",".join(f"q{place}" for place in range(len(numbers)))
    read = env.plan_read(subscribe=queues, snapshot="exact", **options)
    assert [len(each.ids) for each in read.partitions] == sizes
    assert [len(rows) for rows in read()] == (sizes or [0])


@pytest.mark.parametrize(
    ("projection", "fields"),
    [
        ("id,sent,queue,visible_at", 0),
        ("message", 1),
        ("message,raw,id", 1),
        ("receive_count", 1),
        ("message,receive_count", 2),
        ("message,first_received,receive_count", 2),
    ],
)
def test_snapshot_reads_only_fields_that_its_columns_need(env, queue, projection, fields):
    sent = env.rsmq.send_messages("q", ["m"] * 5)
    read = env.plan_read(
        queue="q", columns=projection, numPartitions=1, fetchSize=2, snapshot="exact"
    )
    assert read()  # loads the script
    with env.commands() as commands:
        assert len(read()[0]) == 5
    reads = [command.split()[2:] for command in commands if command.startswith("HMGET")]
    assert [len(each) for each in reads] == ([] if not fields else [2 * fields, 2 * fields, fields])
    other = {command.split()[0] for command in commands} - {"HMGET"}
    assert other <= ({"EVALSHA", "HSTRLEN"} if "message" in projection else set())
    asked = {field for each in reads for field in each}
    assert {field.partition(":")[0] for field in asked} == (set(sent) if fields else set())


def test_a_body_is_read_once_for_text_and_bytes(env, queue):
    env.rsmq.send_message("q", "m")
    read = env.plan_read(queue="q", columns="message", includeRaw=True)
    with env.commands() as commands:
        assert read() == [[{"message": "m", "raw": b"m"}]]
    assert [len(each.split()) for each in commands if each.startswith("HMGET")] == [3]


# --- filters that Spark pushes down ----------------------------------------------------------

COMPARED = {
    EqualTo: lambda value, other: value == other,
    GreaterThan: lambda value, other: value > other,
    GreaterThanOrEqual: lambda value, other: value >= other,
    LessThan: lambda value, other: value < other,
    LessThanOrEqual: lambda value, other: value <= other,
    In: lambda value, others: value in others,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: str.__contains__,
}
TEXTS = ("queue", "id", "message")
TIMES = ("sent", "visible_at", "first_received")


def evaluate(test, row):
    """Return the value of a filter in SQL: True, False, or None for unknown."""
    if isinstance(test, Not):
        inner = evaluate(test.child, row)
        return None if inner is None else not inner
    value = row[test.attribute[0]]
    if isinstance(test, IsNull | IsNotNull):
        return (value is None) == isinstance(test, IsNull)
    if isinstance(test, EqualNullSafe):
        return value == test.value
    return None if value is None else COMPARED[type(test)](value, test.value)


def filters_of(rows):
    """Return a strategy for filters with values of the rows, or similar values."""

    def values(name):
        found = [row[name] for row in rows if row[name] is not None]
        if name in TIMES:
            steps = st.sampled_from([0, 1, -1, 10**9]).map(lambda us: timedelta(microseconds=us))
            return st.builds(lambda value, step: value + step, st.sampled_from(found), steps)
        if name == "receive_count":
            return st.integers(-1, 3)
        return st.builds(lambda text, end: text[:end], st.sampled_from(found), st.integers(0, 40))

    def comparisons(name):
        kinds = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
        if name in TEXTS:
            kinds += [StringStartsWith, StringEndsWith, StringContains]
        comparison = st.builds(
            lambda kind, value: kind((name,), value), st.sampled_from(kinds), values(name)
        )
        in_list = st.builds(lambda v: In((name,), tuple(v)), st.lists(values(name), max_size=3))
        nulls = st.sampled_from([IsNull((name,)), IsNotNull((name,))])
        return comparison | in_list | nulls

    positive = st.sampled_from([*TEXTS, *TIMES, "receive_count"]).flatmap(comparisons)
    return st.lists(positive | positive.map(Not), max_size=4)


@pytest.fixture(scope="module")
def filled(server):
    """Two queues with messages of all kinds."""
    env = Env(server)
    for name in ("q", "r"):
        env.rsmq.create_queue(name)
        env.rsmq.send_messages(name, ["a", "b", "ab"])
        env.rsmq.receive_messages(name, 2, vt=1000)
        env.rsmq.send_messages(name, ["later"], delay=100)
        env.put("6f9619ff-8b86-d011-b42d-00cf4fc964ff", b"uuid", name, score=0)
        env.put("lkdcq4w0" + "A" * 22, b"port", name, score=1_700_000_000_000.5, rc=b"2")
    yield env
    env.close()


def test_pushed_filters_follow_sql(filled):
    rows = sorted(filled.read(subscribe="q,r"), key=itemgetter("queue", "id"))
    assert len(rows) == 12

    @settings(
        max_examples=scaled(150, 3000), deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(filters_of(rows))
    def check(filters):
        read = filled.plan_read(subscribe="q,r", pushdown=True, filters=filters)
        assert all(any(each is original for original in filters) for each in read.remaining_filters)
        pushed = [
            each for each in filters if not any(each is other for other in read.remaining_filters)
        ]
        allowed = {("queue",), ("id",), ("sent",), ("visible_at",)}
        assert all(each.attribute in allowed for each in pushed)
        found = [row for partition in read() for row in partition]
        found.sort(key=itemgetter("queue", "id"))
        assert [
            row for row in found if all(evaluate(each, row) for each in read.remaining_filters)
        ] == [row for row in rows if all(evaluate(each, row) for each in filters)]

    check()


def test_pushed_filters_save_reads(filled):
    filters = [EqualTo(("queue",), "q"), IsNotNull(("sent",)), GreaterThan(("receive_count",), 0)]
    with filled.commands() as commands:
        read = filled.plan_read(
            subscribe="q,r", pushdown=True, filters=filters, columns="message,sent,queue"
        )
        assert read.remaining_filters == filters[2:]
        assert sum(map(len, read())) == 5
    asked = [
        command.split()[2:] for command in commands if "HMGET" in command and " vt " not in command
    ]
    assert len([*itertools.chain(*asked)]) == 5


@pytest.mark.parametrize("snapshot", ["scan", "exact"])
@pytest.mark.parametrize("kind", [EqualTo, In])
def test_pushed_ids_are_looked_up_and_not_searched(filled, snapshot, kind):
    rows = filled.read(queue="q")
    wanted = rows[0]["id"] if kind is EqualTo else (rows[0]["id"], "a" * 32, None, rows[1]["id"])
    with filled.commands() as commands:
        read = filled.plan_read(
            queue="q", pushdown=True, snapshot=snapshot, filters=[kind(("id",), wanted)]
        )
        found = [row for partition in read() for row in partition]
    expected = rows[:1] if kind is EqualTo else rows[:2]
    assert sorted(row["id"] for row in found) == sorted(row["id"] for row in expected)
    assert len([each for each in commands if each.startswith("ZMSCORE")]) == 1
    assert not [each for each in commands if each.startswith(("ZSCAN", "ZRANGE", "ZCARD"))]


def test_filters_that_no_id_passes_read_nothing(filled):
    filters = [EqualTo(("id",), "a" * 32), In(("id",), ("b" * 32,))]
    with filled.commands() as commands:
        assert filled.read(subscribe="q,r", pushdown=True, filters=filters) == []
    assert not [each for each in commands if each.startswith(("Z", "HMGET")) and " vt " not in each]


def test_many_pushed_ids_are_searched(filled, monkeypatch):
    monkeypatch.setattr(batch_read, "_MAX_PUSHED_IDS", 2)
    rows = filled.read(queue="q")
    ids = tuple(row["id"] for row in rows[:3])
    with filled.commands() as commands:
        assert len(filled.read(queue="q", pushdown=True, filters=[In(("id",), ids)])) == 3
    assert [each for each in commands if each.startswith("ZSCAN")]


@pytest.mark.parametrize(
    "score",
    [
        pytest.param("-5"),
        pytest.param("inf"),
        "1e300",
    ],
)
def test_pushed_filters_treat_invalid_scores_as_null(env, queue, score):
    env.put("odd", b"m", score=score)
    past = datetime(2020, 1, 1, tzinfo=UTC)
    for test in (
        IsNotNull(("visible_at",)), LessThan(("visible_at",), past),
        GreaterThan(("visible_at",), past),
    ):  # fmt: skip
        assert env.read(queue="q", pushdown=True, filters=[test]) == []


def test_pushed_filters_match_ids_that_are_not_utf8(env, queue):
    env.put(b"\xff", b"m")
    (row,) = env.read(queue="q")
    for test in (EqualTo(("id",), row["id"]), StringStartsWith(("id",), row["id"])):
        assert env.read(queue="q", pushdown=True, filters=[test]) == [row]


def test_filters_are_pushed_only_with_the_option(env, queue):
    from pyspark.sql.datasource import DataSourceReader

    source = env.source(queue="q")
    assert type(source.reader(source.schema())).pushFilters is DataSourceReader.pushFilters
