"""
The options of ``format("rsmq")`` as a source: those of any read, of snapshots and of streams.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from rsmq.errors import InvalidOption, show
from rsmq.spark.connection_options import (
    CONNECTION_OPTIONS,
    ConnectionOptions,
    OptionReader,
    check_queue_name,
    choice_option,
    columns_option,
    flag_option,
    integer_option,
    name_option,
    option_names,
    read_connection_options,
    seconds_option,
    switch_option,
    time_option,
)
from rsmq.spark.operations.batches import DeadLetterPolicy
from rsmq.wire.limits import MAX_BATCH_BYTES, MAX_BODY_BYTES, MAX_RECEIVES, MAX_SECONDS

Include = Literal["all", "visible", "hidden", "in_flight", "delayed", "held_back"]

_WEEK_SECONDS = 7 * 86_400.0
_MAX_TRIGGER_MESSAGES = 100_000_000
_MAX_TRIGGER_BYTES = 2**50


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """
    The options of both snapshots and streams.

    Attributes:
        connection: the server and the namespaces of the queues.
        queues: the names of the queues; empty with a pattern.
        pattern: a regular expression that matches the complete names of queues.
        columns: the columns, in order; None is the default ones.
        is_binary: whether the column ``message`` has bytes instead of text.
        include_raw: whether a column ``raw`` has the bodies as bytes, too.
        include_reasons: whether a snapshot has columns with the reasons of dead letters, too.
        num_partitions: the number of partitions, unless there are too few or too many messages.
        max_ids_per_partition: the most messages of a partition.
        fetch_size: how many messages one command reads from Redis.
        max_bytes: the most bytes of bodies that a task reads at a time; one body may be larger.
    """

    connection: ConnectionOptions
    queues: tuple[str, ...]
    pattern: str | None
    include_reasons: bool
    columns: tuple[str, ...] | None = columns_option("columns")
    is_binary: bool = switch_option("bodyType", "string", "binary")
    include_raw: bool = flag_option("includeRaw")
    num_partitions: int = integer_option("numPartitions", 2 * (os.cpu_count() or 1), 1, 100_000)
    max_ids_per_partition: int = integer_option("maxIdsPerPartition", 250_000, 1, 1_000_000)
    fetch_size: int = integer_option("fetchSize", 2000, 1, 100_000)
    max_bytes: int = integer_option("maxBytesPerFetch", MAX_BATCH_BYTES, 1024, MAX_BODY_BYTES)


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """
    The options that only snapshots have.

    Attributes:
        is_exact: whether one transaction reads all ids; else tasks scan them in steps.
        include: the state that messages must have.
        sent_from_us: reads messages sent at this Unix time in microseconds or later.
        sent_before_us: reads messages sent before this Unix time in microseconds.
        pushdown: whether the reader applies filters itself, in place of Spark.
    """

    is_exact: bool = switch_option("snapshot", "scan", "exact")
    include: Include = choice_option("include", get_args(Include))  # noqa: RUF009
    sent_from_us: int | None = time_option("startingTimestamp")
    sent_before_us: int | None = time_option("endingTimestamp")
    pushdown: bool = flag_option("pushdown")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """
    The options that only streams have.

    Attributes:
        max_messages: the most messages of a batch.
        max_bytes: the most bytes of bodies of a batch, except that the first body of each queue may
            be larger; None for any size.
        min_messages: how many messages must be visible before the next batch begins.
        max_trigger_delay: the longest wait for them after a batch, seconds.
        vt: how long messages stay hidden after the last heartbeat, seconds.
        consumer_group: the name of the stream; None generates one for each query.
        dead_letters: the dead-letter policy of this stream; None is each queue's own.
        fail_on_data_loss: whether the query fails if a batch is not in Redis any more.
        idle_wait: how long a poll of empty queues waits for messages, seconds; 0.05 at most.
        lease_retention: how long receipts are stored after the last heartbeat, seconds.
        has_rows: whether a batch has consecutive messages of a group; else one of each group.
    """

    max_messages: int
    dead_letters: DeadLetterPolicy | None
    lease_retention: float
    max_bytes: int | None = integer_option("maxBytesPerTrigger", None, 1, _MAX_TRIGGER_BYTES)
    min_messages: int = integer_option("minMessagesPerTrigger", 1, 1, _MAX_TRIGGER_MESSAGES)
    max_trigger_delay: float = seconds_option("maxTriggerDelay", 900, 0.001, MAX_SECONDS)
    vt: float = seconds_option("visibilityTimeout", 600, 1, MAX_SECONDS)
    consumer_group: str | None = name_option("consumerGroup")
    fail_on_data_loss: bool = flag_option("failOnDataLoss", True)
    idle_wait: float = seconds_option("idleWait", 0.05, 0.01, 60)
    has_rows: bool = switch_option("groups", "one", "together")


SOURCE_OPTIONS = ("queue", "subscribe", "subscribePattern", *option_names(SourceOptions))
SNAPSHOT_OPTIONS = (*option_names(SnapshotOptions), "includeReasons")
STREAM_OPTIONS = (
    "maxMessagesPerTrigger", "maxOffsetsPerTrigger", "maxReceiveCount", "deadLetterQueue",
    "leaseRetention", *option_names(StreamOptions),
)  # fmt: skip
#: The rules of errors that name an option of the other kind of read.
_REFUSED_BY_SNAPSHOTS = dict.fromkeys(
    STREAM_OPTIONS,
    "is an option of streams (spark.readStream), and this is a frame (spark.read): remove it.",
)
_REFUSED_BY_STREAMS = dict.fromkeys(
    SNAPSHOT_OPTIONS,
    "is an option of frames (spark.read), and this is a stream (spark.readStream): remove it.",
)
_ALL_OPTIONS = (*CONNECTION_OPTIONS, *SOURCE_OPTIONS, *SNAPSHOT_OPTIONS, *STREAM_OPTIONS)


def parse_source_options(options: Mapping[str, str]) -> SourceOptions:
    """
    Return the options that a snapshot and a stream share; accept those of both.

    Raises:
        InvalidOption: an option is unknown, has an invalid value, or contradicts another one.
    """
    return _read_source_options(OptionReader(options, _ALL_OPTIONS))


def _read_source_options(reader: OptionReader) -> SourceOptions:
    connection = read_connection_options(reader)
    selections = {
        name: reader.read_text(name)
        for name in ("queue", "subscribe", "subscribePattern")
        if reader.read_text(name)
    }
    if len(selections) != 1:
        raise InvalidOption(
            "queue",
            "give just one of queue, subscribe (names with commas between) and subscribePattern "
            f"(a regular expression); got {', '.join(selections) or 'none'}.",
        )
    ((option, text),) = selections.items()
    text = text or ""
    pattern = text if option == "subscribePattern" else None
    queues: tuple[str, ...] = ()
    if pattern is None:
        names = [part.strip() for part in text.split(",")] if option == "subscribe" else [text]
        checked = (check_queue_name(connection.namespaces, option, name) for name in names)
        queues = tuple(dict.fromkeys(checked))
    else:
        try:
            re.compile(pattern)
        except re.error as error:
            rule = f"is not a regular expression: {error}; got {show(text)}."
            raise InvalidOption(option, rule, value=text) from None
    return reader.read_record(
        SourceOptions,
        connection=connection,
        queues=queues,
        pattern=pattern,
        include_reasons=reader.read_flag("includeReasons"),
    )


def check_read_options(options: Mapping[str, str]) -> SourceOptions:
    """
    Check the options of a read of which it is not known yet whether it is a snapshot or a stream.

    Spark asks for the columns of both when the read is defined, and for the reader of a stream
    only after the query has started.

    Returns:
        The options that both share.

    Raises:
        InvalidOption: an option is unknown, has an invalid value, or contradicts another one.
    """
    reader = OptionReader(options, _ALL_OPTIONS)
    source = _read_source_options(reader)
    _read_snapshot_options(reader)
    _read_stream_options(reader)
    of_frame, of_stream = map(reader.find_present, (SNAPSHOT_OPTIONS, STREAM_OPTIONS))
    if of_frame and of_stream:
        raise InvalidOption(
            of_frame[0],
            f"is for frames, and {of_stream[0]} is for streams: remove one of them.",
        )
    return source


def parse_snapshot_options(options: Mapping[str, str]) -> SnapshotOptions:
    """
    Return the options that only a snapshot has.

    Raises:
        InvalidOption: an option is unknown, has an invalid value, or belongs to a stream.
    """
    names = (*CONNECTION_OPTIONS, *SOURCE_OPTIONS, *SNAPSHOT_OPTIONS)
    return _read_snapshot_options(OptionReader(options, names, _REFUSED_BY_SNAPSHOTS))


def _read_snapshot_options(reader: OptionReader) -> SnapshotOptions:
    found = reader.read_record(SnapshotOptions)
    first, end = found.sent_from_us, found.sent_before_us
    if first is not None and end is not None and first > end:
        begin, end_text = map(reader.read_text, ("startingTimestamp", "endingTimestamp"))
        rule = f"is not after endingTimestamp, which is {show(end_text)}; got {show(begin)}."
        raise InvalidOption("startingTimestamp", rule, value=begin)
    return found


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """
    Return the options that only a stream has.

    Raises:
        InvalidOption: an option is unknown, has an invalid value, contradicts another one, or
            belongs to a snapshot.
    """
    names = (*CONNECTION_OPTIONS, *SOURCE_OPTIONS, *STREAM_OPTIONS)
    return _read_stream_options(OptionReader(options, names, _REFUSED_BY_STREAMS))


def _read_stream_options(reader: OptionReader) -> StreamOptions:
    namespaces = read_connection_options(reader).namespaces
    if reader.read_text("maxMessagesPerTrigger") and reader.read_text("maxOffsetsPerTrigger"):
        raise InvalidOption("maxOffsetsPerTrigger", "is another name of maxMessagesPerTrigger.")
    has_other_name = reader.read_text("maxOffsetsPerTrigger")
    limit = "maxOffsetsPerTrigger" if has_other_name else "maxMessagesPerTrigger"
    max_receives, target = reader.read_text("maxReceiveCount"), reader.read_text("deadLetterQueue")
    if bool(max_receives) != bool(target):
        raise InvalidOption("deadLetterQueue", "goes with maxReceiveCount: give both, or neither.")
    dead_letters = None
    if target:
        dead_letters = DeadLetterPolicy(
            check_queue_name(namespaces, "deadLetterQueue", target),
            reader.read_integer("maxReceiveCount", 0, 1, MAX_RECEIVES),
        )
        if target in _read_source_options(reader).queues:
            raise InvalidOption("deadLetterQueue", f"{show(target)} is read by this stream itself.")
    max_messages = reader.read_integer(limit, 100_000, 1, _MAX_TRIGGER_MESSAGES)
    found: StreamOptions = reader.read_record(
        StreamOptions, max_messages=max_messages, dead_letters=dead_letters, lease_retention=0
    )
    if found.min_messages > found.max_messages:
        raise InvalidOption(
            "minMessagesPerTrigger",
            f"is at most {limit}, which is {found.max_messages}; got {found.min_messages}.",
            value=found.min_messages,
        )
    if reader.read_text("maxTriggerDelay") and found.min_messages == 1:
        raise InvalidOption("maxTriggerDelay", "goes with minMessagesPerTrigger: give both.")
    # At least 2 * vt: the heartbeat that renews receipts comes at a third of vt.
    least, default = 2 * found.vt, max(_WEEK_SECONDS, 2 * found.vt)
    retention = reader.read_seconds("leaseRetention", default, least, 3 * MAX_SECONDS)
    return replace(found, lease_retention=retention)
