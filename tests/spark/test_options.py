"""The options: their meaning, the values that are refused, and that no password is among them."""

from __future__ import annotations

import os
import pickle
import traceback

import pytest
from pyspark import cloudpickle
from redis.exceptions import AuthenticationError

from rsmq import QueueNotFound, RSMQError
from rsmq.spark import InvalidOption, RsmqDataSource
from rsmq.spark.operations.batches import DeadLetterPolicy
from rsmq.spark.read.source_options import (
    parse_snapshot_options,
    parse_source_options,
    parse_stream_options,
)
from rsmq.spark.write.sink_options import parse_sink_options
from tests.servers import Server, redis_7
from tests.spark.conftest import Env, columns

DAY = 86_400
MESSAGES = columns(message="string")
SECRET = "s3cr3t-w0rd"


def sink(options):
    return parse_sink_options(options, streaming=False)


def stream_sink(options):
    return parse_sink_options(options, streaming=True)


source = parse_source_options
snapshot = parse_snapshot_options
stream = parse_stream_options


@pytest.mark.parametrize(
    ("read", "option", "attribute", "default", "texts"),
    [
        (source, "columns", "columns", None, {"id, sent": ("id", "sent"), "": None}),
        (source, "bodyType", "is_binary", False, {"string": False, " Binary ": True}),
        (source, "includeRaw", "include_raw", False, {"TRUE": True, "false": False}),
        (source, "numPartitions", "num_partitions", 2 * os.cpu_count(), {"1": 1, " 7 ": 7}),
        (source, "maxIdsPerPartition", "max_ids_per_partition", 250_000, {"1000000": 1_000_000}),
        (source, "fetchSize", "fetch_size", 2000, {"1": 1}),
        (
            snapshot, "include", "include", "all",
            {
                each.title(): each
                for each in ("visible", "hidden", "in_flight", "delayed", "held_back")
            },
        ),
        (
            snapshot, "startingTimestamp", "sent_from_us", None,
            {
                "": None,
                "1700000000123": 1_700_000_000_123_000,
                "2023-11-14T22:13:20.000001Z": 1_700_000_000_000_001,
                "2023-11-14 22:13:20": 1_700_000_000_000_000,
                "2023-11-14T23:13:20+01:00": 1_700_000_000_000_000,
                "2023-11-14": 1_699_920_000_000_000,
            },
        ),
        (snapshot, "endingTimestamp", "sent_before_us", None, {"1700000000123": 1700000000123000}),
        (snapshot, "pushdown", "pushdown", False, {"true": True}),
        (stream, "maxMessagesPerTrigger", "max_messages", 100_000, {"5": 5}),
        (stream, "maxOffsetsPerTrigger", "max_messages", 100_000, {"5": 5}),
        (stream, "visibilityTimeout", "vt", 600, {"1": 1, "2.5": 2.5}),
        (stream, "consumerGroup", "consumer_group", None, {"night-ly_1.a": "night-ly_1.a"}),
        (stream, "failOnDataLoss", "fail_on_data_loss", True, {"false": False}),
        (stream, "idleWait", "idle_wait", 0.05, {"0.01": 0.01, "60": 60}),
        (stream, "groups", "has_rows", False, {"Together": True, "one": False}),
        (stream, "leaseRetention", "lease_retention", 7 * DAY, {"1200": 1200}),
        (sink, "delivery", "is_staged", False, {"Exactly-Once": True, "at-least-once": False}),
        (sink, "batchSize", "batch_size", 1000, {"1": 1, "10000": 10_000}),
        (sink, "createQueue", "create_queue", False, {"true": True}),
        (sink, "vt", "vt", 30, {"0": 0}),
        (sink, "maxsize", "maxsize", 65536, {"-1": -1, "1024": 1024}),
        (sink, "enforceMaxSize", "enforce_maxsize", True, {"false": False}),
        (sink, "realtime", "realtime", False, {"true": True}),
        (sink, "restore", "restore", False, {"true": True}),
        (sink, "messageFormat", "message_format", "column", {"JSON": "json", "msgpack": "msgpack"}),
        (sink, "messageColumn", "message_column", "message", {"value": "value"}),
        (sink, "queueColumn", "queue_column", "queue", {"topic": "topic"}),
        (sink, "stagingRetention", "staging_retention", 7 * DAY, {"60": 60}),
    ],
)  # fmt: skip
def test_option_has_its_meaning(read, option, attribute, default, texts):
    assert getattr(read({"queue": "q"}), attribute) == default
    for text, meaning in texts.items():
        for name in (option, option.lower()):
            assert getattr(read({"queue": "q", name: text}), attribute) == meaning


def test_combined_options():
    options = {"queue": "q", "maxReceiveCount": "3", "deadLetterQueue": "dead"}
    assert stream(options).dead_letters == DeadLetterPolicy("dead", 3)
    named = sink({"queue": "q", "delivery": "exactly-once", "writeId": "nightly"})
    assert named.write_id == "nightly"
    json_rows = sink({"queue": "q", "messageFormat": "json"})
    assert json_rows.queue_column is None


@pytest.mark.parametrize(
    ("text", "values"), [("0", {"delay": 0}), ("1.5", {"delay": 1.5}), ("", {})]
)
def test_the_delay_of_all_rows_is_in_seconds(text, values):
    assert dict(sink({"queue": "q", "delay": text}).send.values) == values


def test_columns_of_sends_have_the_names_of_options_unless_the_row_is_the_message():
    found = {"delay", "wait", "group"}

    def columns(**options):
        pairs = sink({"queue": "q", **options}).send.columns_in(found)
        return {option.name: column for option, column in pairs}

    assert columns() == {"delay": "delay", "group": "group"}
    assert columns(delayColumn="wait") == {"delay": "wait", "group": "group"}
    assert columns(messageFormat="json") == {}
    assert columns(messageFormat="json", delayColumn="wait") == {"delay": "wait"}
    assert columns(restore="true") == {}


def test_queues_are_selected_in_one_of_three_ways():
    assert source({"queue": "q"}).queues == ("q",)
    assert source({"subscribe": "b, a ,b"}).queues == ("b", "a")
    pattern = source({"subscribePattern": "orders-.*"})
    assert (pattern.queues, pattern.pattern) == ((), "orders-.*")
    assert source({"queue": "a b", "strictNames": "false"}).queues == ("a b",)


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({}, "redis://127.0.0.1:6379/0"),
        ({"host": "h", "port": "1", "db": "2"}, "redis://h:1/2"),
        ({"host": "::1", "ssl": "true"}, "rediss://[::1]:6379/0"),
        ({"url": "unix:///run/redis.sock?db=1"}, "unix:///run/redis.sock?db=1"),
        ({"url": "redis://h", "username": "b&b"}, "redis://h?username=b%26b"),
        ({"url": "redis://h?db=3", "redis.Client_Name": "a b"}, "redis://h?db=3&client_name=a+b"),
        ({"checkpointLocation": "c", "queryName": "n"}, "redis://127.0.0.1:6379/0"),
    ],
)
def test_connection_options_make_the_url(options, url):
    connection = source({"queue": "q", **options}).connection
    assert connection.url == url
    assert connection.names == ("rsmq",)
    assert connection.retry_deadline == 60


WHOLE_NUMBER = "is a whole number from"
SECONDS = "is a number of seconds from"


@pytest.mark.parametrize(
    ("read", "options", "rule"),
    [
        (source, {"bodyType": "text"}, "is one of string, binary; got 'text'"),
        (source, {"includeRaw": "yes"}, "is one of true, false; got 'yes'"),
        (source, {"numPartitions": "0"}, f"{WHOLE_NUMBER} 1 to 100000; got '0'"),
        (source, {"numPartitions": "2.0"}, WHOLE_NUMBER),
        (source, {"maxIdsPerPartition": "1000001"}, WHOLE_NUMBER),
        (source, {"fetchSize": "-1"}, WHOLE_NUMBER),
        (source, {"fetchSize": "9" * 99}, WHOLE_NUMBER),
        (source, {"port": "65536"}, WHOLE_NUMBER),
        (source, {"db": "x"}, WHOLE_NUMBER),
        (source, {"retryDeadline": "86401"}, f"{SECONDS} 0 to 86400"),
        (snapshot, {"include": "none"}, "is one of all, visible"),
        (snapshot, {"startingTimestamp": "soon"}, "is Unix milliseconds, or a time"),
        (snapshot, {"endingTimestamp": "-5"}, "is Unix milliseconds, or a time"),
        (
            snapshot,
            {"startingTimestamp": "2026-01-02", "endingTimestamp": "2026-01-01"},
            "is not after endingTimestamp, which is '2026-01-01'; got '2026-01-02'",
        ),
        (snapshot, {"pushdown": ""}, "is one of true, false; got ''"),
        (stream, {"maxMessagesPerTrigger": "0"}, WHOLE_NUMBER),
        (stream, {"groups": "both"}, "is one of one, together; got 'both'"),
        (stream, {"groups": ""}, "is one of one, together; got ''"),
        (stream, {"maxOffsetsPerTrigger": "x"}, WHOLE_NUMBER),
        (stream, {"visibilityTimeout": "0.5"}, f"{SECONDS} 1 to 9999999; got '0.5'"),
        (stream, {"visibilityTimeout": "nan"}, SECONDS),
        (
            stream,
            {"consumerGroup": "a:b"},
            "is 1 to 64 characters of A-Z a-z 0-9 _ . -",
        ),
        (stream, {"consumerGroup": "x" * 65}, "is 1 to 64 characters"),
        (stream, {"idleWait": "0"}, SECONDS),
        (stream, {"leaseRetention": "1199"}, SECONDS),
        (stream, {"failOnDataLoss": "maybe"}, "is one of true, false"),
        (stream, {"maxReceiveCount": "0", "deadLetterQueue": "dead"}, WHOLE_NUMBER),
        (
            stream,
            {"deadLetterQueue": "a b", "maxReceiveCount": "1"},
            "A queue name has",
        ),
        (
            stream,
            {"minMessagesPerTrigger": "20", "maxMessagesPerTrigger": "10"},
            "is at most maxMessagesPerTrigger, which is 10; got 20",
        ),
        (source, {"url": "http://x"}, "begins with redis://, rediss://, unix://, redis+cluster"),
        (source, {"url": "http://x"}, "; got 'http://x'. memory://"),
        (sink, {"delivery": "once"}, "is one of at-least-once, exactly-once"),
        (sink, {"delay": "-1"}, f"{SECONDS} 0 to 9999999"),
        (sink, {"batchSize": "10001"}, WHOLE_NUMBER),
        (sink, {"vt": "1.5"}, WHOLE_NUMBER),
        (sink, {"maxsize": "100"}, "between 1024 and 65536, not 100"),
        (sink, {"messageFormat": "xml"}, "is one of column, json, msgpack"),
        (sink, {"stagingRetention": "x"}, SECONDS),
        (sink, {"writeId": "a b", "delivery": "exactly-once"}, "is 1 to 64 characters"),
    ],
)
def test_invalid_value_is_refused_with_name_rule_and_value(read, options, rule):
    ((name, text), *_) = options.items()
    with pytest.raises(InvalidOption) as caught:
        read({"queue": "q", **options})
    assert str(caught.value).startswith(f"Option {name}: ")
    assert rule in str(caught.value)
    assert str(caught.value.value) == text
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("read", "options", "text"),
    [
        (source, {}, "Option queue: give just one of queue, subscribe"),
        (source, {"queue": "q", "subscribe": "r"}, "got queue, subscribe."),
        (source, {"queue": "a b"},
         "Option queue: Invalid qname format: 'a b'. A queue name has 1 to 160"),
        (source, {"subscribe": "a,,b"},
         "Option subscribe: No qname supplied: got ''. A queue name has"),
        (
            source, {"subscribePattern": "a("},
            "regular expression: missing ), unterminated subpattern at position 1; got 'a('",
        ),
        (source, {"queue": "q", "ns": "\udcff\ud800"}, "Option ns: "),
        (source, {"queue": "q", "url": "redis://h", "port": "1"}, "leave out port."),
        (source, {"queue": "q", "url": "memory://"}, "Spark's processes could not share"),
        (source, {"queue": "q", "url": "h:6379"}, "redis+sentinel://; got 'h:6379'"),
        (source, {"queue": "q", "url": "redis://[h"}, "6379/0; got 'redis://***'"),
        (
            source, {"queue": "q", "passwordEnv": "A", "passwordFile": "b"},
            "Option passwordEnv: give it or passwordFile, not both.",
        ),
        (
            source, {
                "queue": "q", "url": "redis+sentinel://h/m", "sentinelPasswordEnv": "A",
                "sentinelPasswordFile": "b",
            },
            "Option sentinelPasswordEnv: give it or sentinelPasswordFile, not both.",
        ),
        (
            source, {"queue": "q", "sentinelPasswordFile": "b"},
            "Option sentinelPasswordFile: is for a url that begins with redis+sentinel://.",
        ),
        (
            stream,
            {"queue": "q", "maxMessagesPerTrigger": "1", "maxOffsetsPerTrigger": "1"},
            "Option maxOffsetsPerTrigger: is another name of maxMessagesPerTrigger.",
        ),
        (stream, {"queue": "q", "maxReceiveCount": "1"}, "give both, or neither."),
        (stream, {"queue": "q", "deadLetterQueue": "d"}, "give both, or neither."),
        (
            stream, {"subscribe": "q,d", "maxReceiveCount": "1", "deadLetterQueue": "d"},
            "Option deadLetterQueue: 'd' is read by this stream itself.",
        ),
        (sink, {"queue": "q", "writeId": "a"}, "Option writeId: names a batch write with"),
        (
            stream_sink, {"queue": "q", "writeId": "a", "delivery": "exactly-once"},
            "Option writeId: names a batch write with",
        ),
        (sink, {"restore": "true", "delay": "1"}, "Option restore: puts messages back as they"),
        (sink, {"restore": "true", "delayColumn": "d"}, "Option restore: "),
        (sink, {"restore": "true", "messageFormat": "json"}, "Option restore: "),
        (sink, {"restore": "true", "expires": "9"}, "it does not go with expires."),
        (sink, {"front": "true"}, "Option front: is not for writes: the calls of their tasks"),
        (sink, {"frontColumn": "f"}, "Option frontColumn: is not for writes"),
        (sink, {"replace": "true"}, "the message that has the same key. It needs uniqueKey."),
        (sink, {"limitKey": "k"}, "It needs maxRunning or rate."),
        (
            sink, {"deliverAt": "2030-01-01T00:00:00Z", "delay": "3"},
            "Option deliverAt: A message becomes visible at one time. It can't be combined with",
        ),
        (sink, {"limitKey": "k", "rate": "fast"}, "Option rate: Invalid rate format: 'fast'"),
        (sink, {"queue": "QUEUES"},
         "Option queue: Invalid qname format: 'QUEUES'. This is the key of the index"),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other_are_refused(read, options, text):
    with pytest.raises(InvalidOption) as caught:
        read(options)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("read", "name", "suggestion"),
    [
        (source, "visibiltyTimeout", "did you mean visibilityTimeout?"),
        (source, "quue", "did you mean queue?"),
        (snapshot, "startTimestamp", "did you mean startingTimestamp?"),
        (stream, "maxMessagePerTrigger", "did you mean maxMessagesPerTrigger?"),
        (sink, "batch_size", "did you mean batchSize?"),
        (sink, "zzz", "there are url, host, port,"),
        pytest.param(sink, "zzz", "passwordEnv, passwordFile,"),
        # options of a write, of a read
        (sink, "consumerGroup", "there is no such option here"),
        (source, "delivery", "there is no such option here"),
    ],
)
def test_unknown_option_is_refused_with_a_suggestion(read, name, suggestion):
    with pytest.raises(InvalidOption) as caught:
        read({"queue": "q", name: "1"})
    assert str(caught.value).startswith(f"Option {name}: there is no such option here; ")
    assert suggestion in str(caught.value)


@pytest.mark.parametrize(
    ("read", "name", "rule"),
    [
        (snapshot, "visibilityTimeout", "streams (spark.readStream), and this is a frame"),
        (snapshot, "maxMessagesPerTrigger", "streams (spark.readStream), and this is a frame"),
        (stream, "snapshot", "frames (spark.read), and this is a stream"),
        (stream, "pushdown", "frames (spark.read), and this is a stream"),
    ],
)
def test_option_of_the_other_kind_of_read_is_refused_with_its_kind(read, name, rule):
    with pytest.raises(InvalidOption) as caught:
        read({"queue": "q", name.lower(): "1"})  # Spark passes the names in lower case
    assert str(caught.value).startswith(f"Option {name}: is an option of {rule}")
    assert "remove it" in str(caught.value)
    assert len(str(caught.value)) < 200


def test_data_source_checks_options_before_a_reader_or_writer_is_made(env, queue):
    with pytest.raises(InvalidOption, match="Option visibilityTimeout: is an option of streams"):
        env.plan_read(queue="q", visibilityTimeout=3)
    stream = env.source(queue="q", include="all")
    with pytest.raises(InvalidOption, match="Option include: is an option of frames"):
        stream.streamReader(stream.schema())
    with pytest.raises(InvalidOption, match="Option columns: names some of"):
        env.source(queue="q", columns="id,when").schema()
    with pytest.raises(InvalidOption, match="Option mode: a queue is appended to"):
        env.source(queue="q").writer(schema=MESSAGES, overwrite=True)
    with pytest.raises(InvalidOption, match="Option mode: a queue is appended to"):
        env.source(queue="q").streamWriter(schema=MESSAGES, overwrite=True)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("visibilityTimeout", "0"),
        ("maxMessagesPerTrigger", "many"),
        ("maxOffsetsPerTrigger", "0"),
        ("maxBytesPerTrigger", "0"),
        ("minMessagesPerTrigger", "0"),
        ("maxTriggerDelay", "1"),
        ("consumerGroup", "a:b"),
        ("maxReceiveCount", "3"),
        ("deadLetterQueue", "q"),
        ("failOnDataLoss", "maybe"),
        ("idleWait", "0"),
        ("leaseRetention", "1"),
        ("snapshot", "exactly"),
        ("include", "none"),
        ("startingTimestamp", "soon"),
        ("endingTimestamp", "soon"),
        ("pushdown", "yes"),
    ],
)
def test_schema_checks_the_options_of_frames_and_of_streams(env, option, text):
    """Spark makes the reader of a stream only after start(), and hides its error in another."""
    with pytest.raises(InvalidOption) as caught:
        env.source(queue="q", **{option: text}).schema()
    assert f"{option}" in str(caught.value)


def test_schema_refuses_an_option_of_frames_beside_one_of_streams(env):
    with pytest.raises(InvalidOption, match="include: is for frames, and idleWait is for streams"):
        env.source(queue="q", include="all", idleWait=1).schema()


def use_source(options):
    """Yield each call with which Spark uses a source or a sink."""
    source = RsmqDataSource(options=options)
    yield source.schema
    yield lambda: source.reader(MESSAGES)
    yield lambda: source.streamReader(MESSAGES)
    yield lambda: source.writer(MESSAGES, overwrite=False)
    yield lambda: source.streamWriter(MESSAGES, overwrite=False)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        # as Spark passes them for a table that exists
        ({}, "no option has arrived"),
        ({"checkpointlocation": "c"}, "no option has arrived"),
        ({"queue": "q", "path": "b"}, "Option path: a queue is not at a path"),
        ({"queue": "q", "paths": '["b"]'}, "Option paths: a queue is not at a path"),
    ],
)
def test_tables_and_paths_are_refused(options, text):
    for use in use_source(options):
        with pytest.raises(InvalidOption, match=text):
            use()


def test_missing_queue_is_named_in_the_error(env, queue):
    env.raw.hset(env.keys("half").hash, "vt", 30)
    for use in (
        lambda: env.plan_read(queue="gone"),
        lambda: env.plan_read(subscribe="q,gone"),
        lambda: env.query(queue="gone").poll(),
        lambda: env.query(maxReceiveCount=1, deadLetterQueue="gone").poll(),
        lambda: env.source(queue="gone").writer(schema=MESSAGES, overwrite=False),
        lambda: env.source(queue="gone").streamWriter(schema=MESSAGES, overwrite=False),
    ):
        with pytest.raises(QueueNotFound) as caught:
            use()
        assert caught.value.value == "gone"
    with pytest.raises(QueueNotFound):
        env.plan_read(queue="half")
    with pytest.raises(QueueNotFound) as caught:
        env.source(queue="gone").writer(schema=MESSAGES, overwrite=False)
    assert "createQueue=true creates it" in str(caught.value)


def test_errors_name_options_of_spark_and_not_methods_of_the_client(env, queue):
    env.rsmq.create_queue("small", maxsize=1024)
    rows = [{"message": "x" * 2000, "queue": "small"}]
    with_queue = columns(message="string", queue="string")
    for use, text in (
        (lambda: env.plan_read(queue="gone"), "Name a queue that exists, or check the options url"),
        (lambda: env.query(queue="gone").poll(), "Name a queue that exists, or check the options"),
        (
            lambda: env.write(with_queue, queue="").run([{"message": "a", "queue": "gone"}]),
            "createQueue=true creates it",
        ),
        (lambda: env.write(with_queue, queue="").run(rows), "or pass enforceMaxSize=false"),
        (lambda: env.source(queue="a b").schema(), "Pass strictNames=false for queues that"),
    ):
        with pytest.raises(RSMQError) as caught:
            use()
        assert text in str(caught.value)
        for method in ("create_queue", "set_queue_attributes", "strict_names"):
            assert method not in str(caught.value)


def full_text(error):
    """Return all text of an error: traceback, notes and attributes, of its context too."""
    notes = getattr(error, "__notes__", [])
    context = "" if error.__context__ is None else full_text(error.__context__)
    return "".join((*traceback.format_exception(error), *notes, repr(error.__dict__), context))


@pytest.mark.parametrize(
    "options",
    [
        {"url": f"redis://:{SECRET}@h:1/0"},
        {"url": f"redis://me:{SECRET}@h:1/0"},
        {"url": f"redis://h:1/0?db=1&password={SECRET}"},
        pytest.param({"url": f"redis://h:1/0?passw%6Frd={SECRET}"}),
        {"url": f"unix:///run/redis.sock?password={SECRET}"},
        {"url": f"memory://:{SECRET}@h"},
        {"url": f"redis://me:{SECRET}@[h"},
        {"url": f"http://me:{SECRET}@h"},
        {"url": f"http://me:{SECRET}"},
        {"url": f"me:{SECRET}@h:6379"},
        {"Password": SECRET},
        {"pasword": SECRET},
        pytest.param({"redis.password": SECRET}),
        pytest.param({"redis.PASSWORD": SECRET}),
        {"host": f"me:{SECRET}@h"},
        pytest.param({"redis.ssl_password": SECRET}),
    ],
)
def test_password_in_an_option_is_refused_and_not_shown(options):
    source = RsmqDataSource(options={"queue": "q", **options})
    with pytest.raises(InvalidOption) as caught:
        source.schema()
    assert SECRET not in full_text(caught.value)


@pytest.fixture(scope="module")
def server_with_password():
    """A server that requires a password."""
    server = Server(redis_7())
    with server.raw() as raw:
        raw.execute_command("ACL", "SETUSER", "spark", "on", f">{SECRET}", "~*", "&*", "+@all")
        raw.config_set("requirepass", SECRET)
    yield server
    server.stop()


@pytest.mark.parametrize("user", [{}, {"username": "spark"}])
@pytest.mark.parametrize("place", ["passwordEnv", "passwordFile"])
def test_password_is_read_in_each_process_and_never_pickled(
    server_with_password, tmp_path, monkeypatch, user, place
):
    if place == "passwordEnv":
        monkeypatch.setenv("QUEUES_PASSWORD", SECRET)
        options = {place: "QUEUES_PASSWORD", **user}
    else:
        (tmp_path / "secret").write_text(f"{SECRET}\n")
        options = {place: str(tmp_path / "secret"), **user}
    env = Env(server_with_password, password=SECRET)
    sink = env.source(queue="q", createQueue=True, **options)
    source = env.source(queue="q", **options)
    writer = sink.writer(schema=MESSAGES, overwrite=False)
    reader = source.reader(schema=source.schema())
    stream = env.source(queue="q", idleWait=0.01, **options).streamReader(source.schema())
    start = stream.initialOffset()

    assert reader.partitions() == []
    assert stream.latestOffset(start, stream.getDefaultReadLimit()) == start
    for each in (sink, source, writer, reader, stream):
        for pickled in (pickle.dumps(each), cloudpickle.dumps(each)):
            assert SECRET.encode() not in pickled
        assert SECRET not in repr(vars(each))
    stream.stop()
    env.close()


def test_wrong_or_missing_password_is_reported_and_not_shown(
    server_with_password, tmp_path, monkeypatch
):
    env = Env(server_with_password, password=SECRET)
    wrong = SECRET[::-1]
    monkeypatch.setenv("WRONG_PASSWORD", wrong)
    with pytest.raises(AuthenticationError) as caught:
        env.plan_read(queue="q", passwordEnv="WRONG_PASSWORD", retryDeadline=0)
    assert wrong not in full_text(caught.value)
    with pytest.raises(InvalidOption, match="there is no environment variable NOT_SET in"):
        env.plan_read(queue="q", passwordEnv="NOT_SET")
    with pytest.raises(InvalidOption, match="missing can't be read on this machine: No such file"):
        env.plan_read(queue="q", passwordFile=str(tmp_path / "missing"))
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(InvalidOption, match="no UTF-8"):
        env.plan_read(queue="q", passwordFile=str(tmp_path / "binary"))
    env.close()


def test_options_of_redis_py_are_passed_on(env, queue):
    with env.commands() as commands:
        env.plan_read(queue="q", redis__client_name="spark-job")
    assert "CLIENT SETNAME spark-job" in commands


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("socket_timeout", "soon", "Invalid socket_timeout format: 'soon'. Pass a number of"),
        ("socket_timeout", "-1", "socket_timeout must be between 0.001 and 9999999, not -1.0."),
        ("nonsense", "1", "Invalid nonsense format. There is no such option."),
    ],
)
def test_option_that_redis_py_refuses_is_named(env, queue, name, text, rule):
    other = {"redis__client_name": "job", f"redis__{name}": text}
    with pytest.raises(InvalidOption, match=f"^Option redis.{name}: {rule}"):
        env.plan_read(queue="q", **other)
