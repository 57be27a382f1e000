"""
The options of ``format("rsmq")``.

Spark hands over texts under names without case. They become frozen values here, which Spark may
send to other processes; no secret is among them, only where to find one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from rsmq.errors import InvalidOption, InvalidValue, RSMQError, show
from rsmq.operations.spark.in_flight_batches import DeadLetters
from rsmq.wire.keys import DEFAULT_NS, Namespace
from rsmq.wire.limits import (
    DEFAULT_MAXSIZE,
    DEFAULT_VT,
    MAX_BATCH,
    MAX_MAXSIZE,
    MAX_RECEIVES,
    MAX_SECONDS,
    check_maxsize,
)

T = TypeVar("T")

Include = Literal["all", "visible", "hidden", "in_flight", "delayed"]

_CONNECTION = (
    "url", "host", "port", "db", "username", "ssl", "passwordEnv", "passwordFile",
    "ns", "strictNames", "retryDeadline",
)  # fmt: skip
_SOURCE = (
    "queue", "subscribe", "subscribePattern", "columns", "bodyType", "includeRaw",
    "numPartitions", "maxIdsPerPartition", "fetchSize",
)  # fmt: skip
_BATCH_SOURCE = ("include", "startingTimestamp", "endingTimestamp", "pushdown")
_STREAM_SOURCE = (
    "maxMessagesPerTrigger", "maxOffsetsPerTrigger", "visibilityTimeout", "consumerGroup",
    "maxReceiveCount", "deadLetterQueue", "failOnDataLoss", "idleWait", "leaseRetention",
)  # fmt: skip
_SINK = (
    "queue", "delivery", "delay", "batchSize", "createQueue", "vt", "maxsize", "enforceMaxSize",
    "realtime", "restore", "messageFormat", "messageColumn", "queueColumn", "delayColumn",
    "writeId", "stagingRetention",
)  # fmt: skip
#: What Spark itself puts among the options.
_OF_SPARK = ("path", "checkpointLocation", "queryName", "serialization.format", "mergeSchema")

_LEASE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """
    Where the queues are.

    Attributes:
        url: where Redis is, without a password.
        namespace: whose queues they are.
        password_env: the environment variable that holds the password, in every process.
        password_file: the file that holds it, on every machine.
        redis_options: redis-py's options, as texts.
        retry_deadline: for how many seconds Redis may be away.
    """

    url: str
    namespace: Namespace
    password_env: str | None
    password_file: str | None
    retry_deadline: float


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """
    What is read.

    Attributes:
        connection: where the queues are.
        queues: their names; empty with a pattern.
        pattern: what the whole names of queues match.
        columns: the columns, in order.
        binary: whether ``message`` holds bytes.
        partitions: how many partitions there are, if there is enough.
        ids_a_partition: how many messages a partition has at most.
        fetch: how many messages a command reads.
    """

    connection: ConnectionOptions
    queues: tuple[str, ...]
    pattern: str | None
    columns: tuple[str, ...] | None
    binary: bool
    include_raw: bool
    partitions: int
    ids_a_partition: int
    fetch: int


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """
    Which messages a batch read takes.

    Attributes:
        include: those in this state.
        from_us: those sent at this Unix time in microseconds or later.
        to_us: those sent before.
        pushdown: whether filters are taken from Spark.
    """

    include: Include
    from_us: int | None
    to_us: int | None
    pushdown: bool


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """
    How a stream reads.

    Attributes:
        most: messages a batch at most.
        vt: how long messages are hidden without a heartbeat, seconds.
        group: the name of the lease; None makes one up.
        dead_letters: where messages go that were received too often; None is as the queue says.
        fail_on_data_loss: whether a batch that is gone fails the query.
        idle_wait: how long a look waits for messages, seconds.
        retention: how long receipts are kept without a heartbeat, seconds.
    """

    most: int
    vt: float
    group: str | None
    dead_letters: DeadLetters | None
    fail_on_data_loss: bool
    idle_wait: float
    retention: float


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """
    What is written, and how.

    Attributes:
        connection: where the queues are.
        queue: the queue; None takes each row's.
        staged: True for exactly-once.
        delay_ms: how long messages are hidden; None is the queue's delay.
        batch: messages a call.
        create: whether missing queues are created, with ``vt`` and ``maxsize``.
        vt: of a queue that is created, seconds.
        maxsize: of a queue that is created.
        enforce_maxsize: whether a queue's maxsize counts.
        realtime: whether sends notify as Node does.
        restore: whether ids, times and counters are kept.
        format: what becomes the message: a column, or the whole row as JSON or msgpack.
        message_column: the column.
        queue_column: the column with each row's queue.
        delay_column: the column with each row's delay, seconds.
        write_id: the name under which a batch write is done once; None makes one up.
        retention: how long staged messages and decisions are kept, seconds.
    """

    connection: ConnectionOptions
    queue: str | None
    staged: bool
    delay_ms: int | None
    batch: int
    create: bool
    vt: int
    maxsize: int
    enforce_maxsize: bool
    realtime: bool
    restore: bool
    format: Literal["column", "json", "msgpack"]
    message_column: str
    queue_column: str | None
    delay_column: str | None
    write_id: str | None
    retention: float


class _Texts:
    """The options of a call, each read as what it must be."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        names = {name.lower(): name for name in known}
        self._texts: dict[str, str] = {}
        for given, text in options.items():
            name = names.get(given.lower())
            if name is not None:
                self._texts[name] = text
            elif given.lower() == "redis.decode_responses":
                raise InvalidOption(given, "is not for Spark: what is in Redis is read as bytes.")
            elif given.lower().startswith("redis.") and "password" not in given.lower():
                self._texts[given.lower()] = text
            elif "password" in given.lower():
                raise InvalidOption(
                    given,
                    "a password in an option would stand in plans and checkpoints. Set "
                    "passwordEnv to the name of an environment variable, or passwordFile to the "
                    "path of a file, that every process of the job can read.",
                )
            elif given.lower() not in map(str.lower, _OF_SPARK):
                near = difflib.get_close_matches(given.lower(), names, 1)
                way = (
                    f"did you mean {names[near[0]]}?"
                    if near
                    else f"there are {_list(names.values())}."
                )
                raise InvalidOption(given, f"there is no such option here; {way}")

    def text(self, name: str) -> str | None:
        return self._texts.get(name) or None

    def redis(self) -> dict[str, str]:
        return {name[6:]: text for name, text in self._texts.items() if name.startswith("redis.")}

    def flag(self, name: str, default: bool) -> bool:  # noqa: FBT001
        text = self._texts.get(name, "true" if default else "false").strip().lower()
        return self._one(name, {"true": True, "false": False}, text)

    def choice(self, name: str, choices: Iterable[str], default: Any) -> Any:
        text = self._texts.get(name, default).strip().lower()
        return self._one(name, {choice.lower(): choice for choice in choices}, text)

    def _one(self, name: str, choices: dict[str, T], text: str) -> T:
        if text not in choices:
            raise InvalidOption(name, f"is one of {_list(choices)}; got {show(text)}.", value=text)
        return choices[text]

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        text = self._texts.get(name, str(default)).strip()
        if not re.fullmatch(r"-?\d{1,18}", text) or not low <= int(text) <= high:
            raise InvalidOption(
                name, f"is a whole number from {low} to {high}; got {show(text)}.", value=text
            )
        return int(text)

    def seconds(self, name: str, default: float, low: float, high: float) -> float:
        text = self._texts.get(name, str(default)).strip()
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not low <= number <= high:
            rule = f"is a number of seconds from {low:.15g} to {high:.15g}; got {show(text)}."
            raise InvalidOption(name, rule, value=text)
        return number

    def moment(self, name: str) -> int | None:
        """A time in Unix microseconds: digits are Unix ms, anything else is ISO 8601."""
        text = (self._texts.get(name) or "").strip()
        if not text:
            return None
        if re.fullmatch(r"\d{1,15}", text):
            return int(text) * 1000
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidOption(
                name,
                "is Unix milliseconds, or a time such as 2026-01-31T12:00:00+00:00 (UTC without "
                f"an offset); got {show(text)}.",
                value=text,
            ) from None
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return round(time.timestamp() * 1_000_000)

    def columns(self, name: str) -> tuple[str, ...] | None:
        text = self.text(name)
        return None if text is None else tuple(part.strip() for part in text.split(","))

    def lease_name(self, name: str) -> str | None:
        text = self._texts.get(name)  # an empty one is a variable that is not set
        if text is not None and not _LEASE_NAME.fullmatch(text):
            rule = f"is 1 to 64 characters of A-Z a-z 0-9 _ . -; got {show(text)}."
            raise InvalidOption(name, rule, value=text)
        return text


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


def _queue(namespace: Namespace, name: str, text: str) -> str:
    try:
        return namespace.queue(text).name
    except RSMQError as error:
        raise InvalidOption(name, error.hint or str(error), value=text) from None


def _connection(texts: _Texts) -> ConnectionOptions:
    url = texts.text("url")
    apart = [name for name in ("host", "port", "db", "ssl") if texts.text(name)]
    if url is not None and apart:
        raise InvalidOption("url", f"says where Redis is; leave out {_list(apart)}.")
    if url is None:
        scheme = "rediss" if texts.flag("ssl", default=False) else "redis"
        host = texts.text("host") or "127.0.0.1"
        port, db = texts.whole("port", 6379, 1, 65535), texts.whole("db", 0, 0, 1_000_000)
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/{db}"
    _check_url(url)
    more = texts.redis()
    if texts.text("username"):
        more["username"] = texts.text("username") or ""
    if more:
        url = f"{url}{'&' if '?' in url else '?'}{urlencode(more)}"
    if texts.text("passwordEnv") and texts.text("passwordFile"):
        raise InvalidOption("passwordEnv", "give it or passwordFile, not both.")
    try:
        namespace = Namespace(
            texts.text("ns") or DEFAULT_NS, texts.flag("strictNames", default=True)
        )
    except RSMQError as error:
        raise InvalidOption("ns", error.hint or str(error)) from None
    return ConnectionOptions(
        url,
        namespace,
        texts.text("passwordEnv"),
        texts.text("passwordFile"),
        texts.seconds("retryDeadline", 60, 0, 86_400),
    )


def _check_url(url: str) -> None:
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise InvalidOption(
            "url",
            "begins with redis://, rediss:// or unix://. memory:// is one process's own: Spark's "
            "processes could not share it.",
        )
    secret: bool | None = None
    with suppress(ValueError):
        parts = urlsplit(url)
        asked = parse_qsl(parts.query, keep_blank_values=True)
        secret = bool(parts.password) or any("password" in name.lower() for name, _ in asked)
    if secret is None:  # raised here: as its context, the other error would show the password
        raise InvalidOption("url", "is not a URL such as redis://127.0.0.1:6379/0.")
    if secret:
        raise InvalidOption(
            "url",
            "holds a password, which would stand in plans and checkpoints. Take it out, and set "
            "passwordEnv to the name of an environment variable, or passwordFile to the path of "
            "a file, that every process of the job can read.",
        )


def connection_options(options: Mapping[str, str]) -> ConnectionOptions:
    """
    Where the queues are, of options that say nothing else.

    Raises:
        InvalidOption: an option is not what it must be.
    """
    return _connection(_Texts(options, _CONNECTION))


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """
    What is read, by a batch or a stream.

    Raises:
        InvalidOption: an option is not what it must be.
    """
    return _source(_Texts(options, (*_CONNECTION, *_SOURCE, *_BATCH_SOURCE, *_STREAM_SOURCE)))


def _source(texts: _Texts) -> SourceOptions:
    connection = _connection(texts)
    given = {n: texts.text(n) for n in ("queue", "subscribe", "subscribePattern") if texts.text(n)}
    if len(given) != 1:
        raise InvalidOption(
            "queue",
            "give just one of queue, subscribe (names with commas between) and subscribePattern "
            f"(a regular expression); got {_list(given) or 'none'}.",
        )
    ((name, text),) = given.items()
    text = text or ""
    pattern = text if name == "subscribePattern" else None
    queues: tuple[str, ...] = ()
    if pattern is None:
        names = [part.strip() for part in text.split(",")] if name == "subscribe" else [text]
        queues = tuple(dict.fromkeys(_queue(connection.namespace, name, each) for each in names))
    else:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidOption(name, f"is no regular expression: {error}.", value=text) from None
    return SourceOptions(
        connection,
        queues,
        pattern,
        texts.columns("columns"),
        texts.choice("bodyType", ("string", "binary"), "string") == "binary",
        texts.flag("includeRaw", default=False),
        texts.whole("numPartitions", 2 * (os.cpu_count() or 1), 1, 100_000),
        texts.whole("maxIdsPerPartition", 250_000, 1, 1_000_000),
        texts.whole("fetchSize", 2000, 1, 100_000),
    )


def snapshot_options(options: Mapping[str, str]) -> SnapshotOptions:
    """
    Which messages a batch read takes.

    Raises:
        InvalidOption: an option is not what it must be, or is a stream's.
    """
    texts = _Texts(options, (*_CONNECTION, *_SOURCE, *_BATCH_SOURCE))
    return SnapshotOptions(
        texts.choice("include", ("all", "visible", "hidden", "in_flight", "delayed"), "all"),
        texts.moment("startingTimestamp"),
        texts.moment("endingTimestamp"),
        texts.flag("pushdown", default=False),
    )


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """
    How a stream reads.

    Raises:
        InvalidOption: an option is not what it must be, or is a batch read's.
    """
    texts = _Texts(options, (*_CONNECTION, *_SOURCE, *_STREAM_SOURCE))
    namespace = _connection(texts).namespace
    if texts.text("maxMessagesPerTrigger") and texts.text("maxOffsetsPerTrigger"):
        raise InvalidOption("maxOffsetsPerTrigger", "is another name of maxMessagesPerTrigger.")
    name = "maxOffsetsPerTrigger" if texts.text("maxOffsetsPerTrigger") else "maxMessagesPerTrigger"
    limit, target = texts.text("maxReceiveCount"), texts.text("deadLetterQueue")
    if bool(limit) != bool(target):
        raise InvalidOption("deadLetterQueue", "goes with maxReceiveCount: give both, or neither.")
    dead_letters = None
    if target:
        dead_letters = DeadLetters(
            _queue(namespace, "deadLetterQueue", target),
            texts.whole("maxReceiveCount", 0, 1, MAX_RECEIVES),
        )
        if target in _source(texts).queues:
            raise InvalidOption("deadLetterQueue", f"{show(target)} is read by this stream itself.")
    vt = texts.seconds("visibilityTimeout", 600, 1, MAX_SECONDS)
    return StreamOptions(
        texts.whole(name, 100_000, 1, 100_000_000),
        vt,
        texts.lease_name("consumerGroup"),
        dead_letters,
        texts.flag("failOnDataLoss", default=True),
        texts.seconds("idleWait", 5, 0.01, 60),
        # Receipts are renewed with the visibility, at a third of it.
        texts.seconds("leaseRetention", max(7 * _DAY, 2 * vt), 2 * vt, 3 * MAX_SECONDS),
    )


def sink_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """
    What is written, and how.

    Raises:
        InvalidOption: an option is not what it must be, or does not go with another.
    """
    texts = _Texts(options, (*_CONNECTION, *_SINK))
    connection = _connection(texts)
    queue = texts.text("queue")
    staged = texts.choice("delivery", ("at-least-once", "exactly-once"), "at-least-once")
    write_id = texts.lease_name("writeId")
    if write_id and (streaming or staged != "exactly-once"):
        raise InvalidOption(
            "writeId",
            "names a batch write with delivery exactly-once, so that it is done once however "
            "often it is run; a stream is known by its query.",
        )
    delay = texts.text("delay")
    restore = texts.flag("restore", default=False)
    shape = texts.choice("messageFormat", ("column", "json", "msgpack"), "column")
    if restore and (delay or texts.text("delayColumn") or shape != "column"):
        raise InvalidOption(
            "restore",
            "puts messages back as they were: it does not go with delay, delayColumn or "
            "messageFormat.",
        )
    usual = shape == "column"
    return SinkOptions(
        connection,
        None if queue is None else _queue(connection.namespace, "queue", queue),
        staged == "exactly-once",
        None if delay is None else round(texts.seconds("delay", 0, 0, MAX_SECONDS) * 1000),
        texts.whole("batchSize", 1000, 1, MAX_BATCH),
        texts.flag("createQueue", default=False),
        texts.whole("vt", DEFAULT_VT, 0, MAX_SECONDS),
        _maxsize(texts),
        texts.flag("enforceMaxSize", default=True),
        texts.flag("realtime", default=False),
        restore,
        shape,
        texts.text("messageColumn") or "message",
        texts.text("queueColumn") or ("queue" if usual else None),
        texts.text("delayColumn") or ("delay" if usual and not restore else None),
        write_id,
        texts.seconds("stagingRetention", 7 * _DAY, 60, MAX_SECONDS),
    )


def _maxsize(texts: _Texts) -> int:
    number = texts.whole("maxsize", DEFAULT_MAXSIZE, -1, MAX_MAXSIZE)
    try:
        return check_maxsize(number)
    except InvalidValue as error:
        raise InvalidOption("maxsize", error.hint or str(error), value=number) from None
