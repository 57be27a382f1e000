"""
The options of ``format("rsmq")`` as a sink, of batch writes and of streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rsmq.errors import InvalidOption, InvalidValue
from rsmq.spark.connection_options import (
    CONNECTION_OPTIONS,
    ConnectionOptions,
    read_connection_options,
)
from rsmq.spark.option_reader import OptionReader, check_queue_name
from rsmq.spark.write.send_columns import (
    REFUSED_OPTIONS,
    SEND_SINK_OPTIONS,
    SendColumns,
    read_send_columns,
)
from rsmq.wire.limits import (
    DEFAULT_MAXSIZE,
    DEFAULT_VT,
    MAX_BATCH,
    MAX_MAXSIZE,
    MAX_SECONDS,
    check_maxsize,
)

SINK_OPTIONS = (
    "queue", "delivery", "batchSize", "createQueue", "vt", "maxsize", "enforceMaxSize",
    "realtime", "restore", "messageFormat", "messageColumn", "queueColumn",
    "ignoreExtraColumns", *SEND_SINK_OPTIONS,
    "writeId", "stagingRetention",
)  # fmt: skip

_WEEK_SECONDS = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """
    The options of a write.

    Attributes:
        connection: the server and the one namespace of the queues.
        queue: the queue; None reads it from each row.
        is_staged: whether the delivery is exactly once, by staging.
        send: the options of sends, for all rows or in columns.
        batch_size: the most messages of a call.
        create_queue: whether missing queues are created, with ``vt`` and ``maxsize``.
        vt: the visibility timeout of a queue that is created, seconds.
        maxsize: the maxsize of a queue that is created.
        enforce_maxsize: whether a message larger than its queue's maxsize is refused.
        realtime: whether sends publish the notification that Node's ``realtime`` publishes.
        restore: whether ids, times and counters are kept.
        message_format: the source of the body: a column, or the complete row as JSON or msgpack.
        message_column: the column with the body.
        queue_column: the column with the queue of each row.
        ignore_extra: whether columns that a write does not have are left out.
        write_id: the name under which a batch write is done only once; None generates one.
        staging_retention: how long staged messages and decisions are kept, seconds.
    """

    connection: ConnectionOptions
    queue: str | None
    is_staged: bool
    send: SendColumns
    batch_size: int
    create_queue: bool
    vt: int
    maxsize: int
    enforce_maxsize: bool
    realtime: bool
    restore: bool
    message_format: Literal["column", "json", "msgpack"]
    message_column: str
    queue_column: str | None
    ignore_extra: bool
    write_id: str | None
    staging_retention: float


def parse_sink_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """
    Return the options of a write.

    Args:
        options: the options as Spark passes them.
        streaming: whether a stream writes; it may not have a ``writeId``.

    Raises:
        InvalidOption: an option is unknown, has an invalid value, or contradicts another one.
    """
    reader = OptionReader(options, (*CONNECTION_OPTIONS, *SINK_OPTIONS), REFUSED_OPTIONS)
    connection = read_connection_options(reader)
    if len(connection.names) > 1:
        raise InvalidOption(
            "ns",
            "names several namespaces, which is for reads and streams: a write has one. Write once "
            "for each, each time with the rows of that namespace.",
            value=reader.read_text("ns"),
        )
    queue = reader.read_text("queue")
    delivery = reader.read_choice("delivery", ("at-least-once", "exactly-once"), "at-least-once")
    is_staged = delivery == "exactly-once"
    write_id = reader.read_lease_name("writeId")
    if write_id and (streaming or not is_staged):
        raise InvalidOption(
            "writeId",
            "names a batch write with delivery exactly-once, so that it is done once however "
            "often it is run; a stream is known by its query.",
        )
    restore = reader.read_flag("restore", default=False)
    message_format = reader.read_choice("messageFormat", ("column", "json", "msgpack"), "column")
    others = [each for each in SEND_SINK_OPTIONS if reader.read_text(each)]
    others += ["messageFormat"] if message_format != "column" else []
    if restore and others:
        raise InvalidOption(
            "restore",
            f"puts messages back as they were: it does not go with {', '.join(others)}.",
        )
    # A complete row is the message, so its columns "queue" and "delay" are data by default.
    has_body_column = message_format == "column"
    return SinkOptions(
        connection=connection,
        queue=None if queue is None else check_queue_name(connection.namespaces, "queue", queue),
        is_staged=is_staged,
        send=read_send_columns(reader, takes_names=has_body_column and not restore),
        batch_size=reader.read_integer("batchSize", 1000, 1, MAX_BATCH),
        create_queue=reader.read_flag("createQueue", default=False),
        vt=reader.read_integer("vt", DEFAULT_VT, 0, MAX_SECONDS),
        maxsize=_read_maxsize(reader),
        enforce_maxsize=reader.read_flag("enforceMaxSize", default=True),
        realtime=reader.read_flag("realtime", default=False),
        restore=restore,
        message_format=message_format,
        message_column=reader.read_text("messageColumn") or "message",
        queue_column=reader.read_text("queueColumn") or ("queue" if has_body_column else None),
        ignore_extra=reader.read_flag("ignoreExtraColumns", default=False),
        write_id=write_id,
        staging_retention=reader.read_seconds("stagingRetention", _WEEK_SECONDS, 60, MAX_SECONDS),
    )


def _read_maxsize(reader: OptionReader) -> int:
    maxsize = reader.read_integer("maxsize", DEFAULT_MAXSIZE, -1, MAX_MAXSIZE)
    try:
        return check_maxsize(maxsize)
    except InvalidValue as error:
        raise InvalidOption("maxsize", str(error), value=maxsize) from None
