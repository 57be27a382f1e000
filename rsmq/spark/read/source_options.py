"""
The options of ``format("rsmq")`` as a source: those of any read, of snapshots and of streams.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from rsmq.errors import InvalidOption, show
from rsmq.spark.connection_options import (
    CONNECTION_OPTIONS,
    ConnectionOptions,
    read_connection_options,
)
from rsmq.spark.operations.batches import DeadLetterPolicy
from rsmq.spark.option_reader import OptionReader, check_queue_name
from rsmq.wire.limits import MAX_BATCH_BYTES, MAX_BODY_BYTES, MAX_RECEIVES, MAX_SECONDS

Include = Literal["all", "visible", "hidden", "in_flight", "delayed", "held_back"]

SOURCE_OPTIONS = (
    "queue", "subscribe", "subscribePattern", "columns", "bodyType", "includeRaw",
    "numPartitions", "maxIdsPerPartition", "fetchSize", "maxBytesPerFetch",
)  # fmt: skip
SNAPSHOT_OPTIONS = (
    "snapshot", "include", "startingTimestamp", "endingTimestamp", "pushdown", "includeReasons",
)  # fmt: skip
STREAM_OPTIONS = (
    "maxMessagesPerTrigger", "maxOffsetsPerTrigger", "maxBytesPerTrigger",
    "minMessagesPerTrigger", "maxTriggerDelay", "visibilityTimeout", "consumerGroup",
    "maxReceiveCount", "deadLetterQueue", "failOnDataLoss", "idleWait", "leaseRetention", "groups",
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
_OPTIONS_OF_ONE_KIND = (*SNAPSHOT_OPTIONS, *STREAM_OPTIONS)

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
    columns: tuple[str, ...] | None
    is_binary: bool
    include_raw: bool
    include_reasons: bool
    num_partitions: int
    max_ids_per_partition: int
    fetch_size: int
    max_bytes: int


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

    is_exact: bool
    include: Include
    sent_from_us: int | None
    sent_before_us: int | None
    pushdown: bool


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
        consumer_group: the name of the lease; None generates one for each query.
        dead_letters: the dead-letter policy of this stream; None is each queue's own.
        fail_on_data_loss: whether the query fails if a batch is not in Redis any more.
        idle_wait: how long a poll of empty queues waits for messages, seconds; 0.05 at most.
        lease_retention: how long receipts are stored after the last heartbeat, seconds.
        has_rows: whether a batch has consecutive messages of a group; else one of each group.
    """

    max_messages: int
    max_bytes: int | None
    min_messages: int
    max_trigger_delay: float
    vt: float
    consumer_group: str | None
    dead_letters: DeadLetterPolicy | None
    fail_on_data_loss: bool
    idle_wait: float
    lease_retention: float
    has_rows: bool


def parse_source_options(options: Mapping[str, str]) -> SourceOptions:
    """
    Return the options that a snapshot and a stream share; accept those of both.

    Raises:
        InvalidOption: an option is unknown, has an invalid value, or contradicts another one.
    """
    names = (*CONNECTION_OPTIONS, *SOURCE_OPTIONS, *_OPTIONS_OF_ONE_KIND)
    return _read_source_options(OptionReader(options, names))


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
    return SourceOptions(
        connection=connection,
        queues=queues,
        pattern=pattern,
        columns=reader.read_columns("columns"),
        is_binary=reader.read_choice("bodyType", ("string", "binary"), "string") == "binary",
        include_raw=reader.read_flag("includeRaw", default=False),
        include_reasons=reader.read_flag("includeReasons", default=False),
        num_partitions=reader.read_integer("numPartitions", 2 * (os.cpu_count() or 1), 1, 100_000),
        max_ids_per_partition=reader.read_integer("maxIdsPerPartition", 250_000, 1, 1_000_000),
        fetch_size=reader.read_integer("fetchSize", 2000, 1, 100_000),
        max_bytes=reader.read_integer("maxBytesPerFetch", MAX_BATCH_BYTES, 1024, MAX_BODY_BYTES),
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
    reader = OptionReader(options, (*CONNECTION_OPTIONS, *SOURCE_OPTIONS, *_OPTIONS_OF_ONE_KIND))
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
    sent_from_us = reader.read_time_us("startingTimestamp")
    sent_before_us = reader.read_time_us("endingTimestamp")
    if sent_from_us is not None and sent_before_us is not None and sent_from_us > sent_before_us:
        begin, end = map(reader.read_text, ("startingTimestamp", "endingTimestamp"))
        rule = f"is not after endingTimestamp, which is {show(end)}; got {show(begin)}."
        raise InvalidOption("startingTimestamp", rule, value=begin)
    return SnapshotOptions(
        is_exact=reader.read_choice("snapshot", ("scan", "exact"), "scan") == "exact",
        include=reader.read_choice("include", get_args(Include), "all"),
        sent_from_us=sent_from_us,
        sent_before_us=sent_before_us,
        pushdown=reader.read_flag("pushdown", default=False),
    )


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
    max_bytes = None
    if reader.read_text("maxBytesPerTrigger"):
        max_bytes = reader.read_integer("maxBytesPerTrigger", 0, 1, _MAX_TRIGGER_BYTES)
    min_messages = reader.read_integer("minMessagesPerTrigger", 1, 1, _MAX_TRIGGER_MESSAGES)
    if min_messages > max_messages:
        raise InvalidOption(
            "minMessagesPerTrigger",
            f"is at most {limit}, which is {max_messages}; got {min_messages}.",
            value=min_messages,
        )  # fmt: skip
    if reader.read_text("maxTriggerDelay") and min_messages == 1:
        raise InvalidOption("maxTriggerDelay", "goes with minMessagesPerTrigger: give both.")
    vt = reader.read_seconds("visibilityTimeout", 600, 1, MAX_SECONDS)
    return StreamOptions(
        max_messages=max_messages,
        max_bytes=max_bytes,
        min_messages=min_messages,
        max_trigger_delay=reader.read_seconds("maxTriggerDelay", 900, 0.001, MAX_SECONDS),
        vt=vt,
        consumer_group=reader.read_lease_name("consumerGroup"),
        dead_letters=dead_letters,
        fail_on_data_loss=reader.read_flag("failOnDataLoss", default=True),
        idle_wait=reader.read_seconds("idleWait", 0.05, 0.01, 60),
        # At least 2 * vt: the heartbeat that renews receipts comes at a third of vt.
        lease_retention=reader.read_seconds(
            "leaseRetention", max(_WEEK_SECONDS, 2 * vt), 2 * vt, 3 * MAX_SECONDS
        ),
        has_rows=reader.read_choice("groups", ("one", "together"), "one") == "together",
    )
