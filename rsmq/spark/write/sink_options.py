"""
The options of ``format("rsmq")`` as a sink, of batch writes and of streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.types import BooleanType, DataType, NumericType, StringType, TimestampType

from rsmq.errors import InvalidCombination, InvalidFormat, InvalidOption, InvalidValue
from rsmq.errors.printable import format_count
from rsmq.operations.send_options import SendOptions, check_send
from rsmq.spark.connection_options import (
    CONNECTION_OPTIONS,
    ConnectionOptions,
    OptionReader,
    check_queue_name,
    choice_option,
    flag_option,
    integer_option,
    name_option,
    option_names,
    option_words,
    read_connection_options,
    seconds_option,
    switch_option,
)
from rsmq.vocabulary.sends import (
    BATCH,
    SEND_OPTIONS,
    SPARK,
    SendOption,
    ValueKind,
    check_combinations,
)
from rsmq.wire.groups import check_group, make_limit_group, parse_rate
from rsmq.wire.limits import (
    DEFAULT_MAXSIZE,
    DEFAULT_VT,
    MAX_BATCH,
    MAX_MAXSIZE,
    MAX_SECONDS,
    check_label,
    check_maxsize,
    check_whole_number,
    to_milliseconds,
)

#: The type of a column, by the kind of its option.
_TYPES: Mapping[ValueKind, type[DataType]] = {
    ValueKind.SECONDS: NumericType,
    ValueKind.TIME: TimestampType,
    ValueKind.FLAG: BooleanType,
    ValueKind.WHOLE_NUMBER: NumericType,
    ValueKind.RATE: StringType,
    ValueKind.LABEL: StringType,
}
_OPTIONS = tuple(SPARK.options.values())
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def option_of(option: SendOption) -> str:
    """Return the option of a write for a send's option."""
    return option_words.argument(option.name)


def column_option_of(option: SendOption) -> str:
    """Return the option of a write that names the column with the values of rows."""
    return f"{option_of(option)}Column"


#: The options of a write that these are, and those that a sink does not have.


#: The options of a write that these are, and those that a sink does not have.
SEND_SINK_OPTIONS = (
    *(option_of(each) for each in _OPTIONS if not each.is_unique),
    *map(column_option_of, _OPTIONS),
)
REFUSED_OPTIONS = {
    name: "is not for writes: the calls of their tasks have no order among each other."
    for each in SEND_OPTIONS
    if not each.in_spark
    for name in (option_of(each), column_option_of(each))
}


@dataclass(frozen=True, slots=True)
class SendColumns:
    """
    The send options of a write.

    Attributes:
        values: those for all rows, by the names of ``send_message``; pairs.
        columns: the columns that options name for those of rows, by the names of ``send_message``.
        takes_names: whether a column with the name of an option has its values too, unless an
            option names another column.
    """

    values: tuple[tuple[str, Any], ...]
    columns: Mapping[str, str]
    takes_names: bool

    def columns_in(self, names: Collection[str]) -> list[tuple[SendOption, str]]:
        """Return the options with columns that a frame has, and these columns."""
        found = [
            (each, self.columns.get(each.name, each.name if self.takes_names else ""))
            for each in _OPTIONS
        ]
        return [(option, column) for option, column in found if column in names]


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """
    A message with options that each message of a call has of its own.

    Attributes:
        raw: the body.
        labels: the values, in the order of the columns; None for the value of all rows.
    """

    raw: bytes
    labels: tuple[str | None, ...]


def read_send_columns(reader: OptionReader, *, takes_names: bool) -> SendColumns:
    """
    Return the send options of a write.

    Args:
        takes_names: as of ``SendColumns``.

    Raises:
        InvalidOption: a value is invalid, or an option lacks one that it needs.
    """
    values = {}
    for option in _OPTIONS:
        value = None if option.is_unique else _read_value(reader, option)
        if value is not None and value is not option.default:
            values[option.name] = value
    columns = {
        each.name: column
        for each in _OPTIONS
        if (column := reader.read_text(column_option_of(each))) is not None
    }
    # A column counts as passed, and may have no value that excludes another one.
    unknown: dict[str, Any] = {
        name: [] if SPARK.options[name].of_message else None for name in columns
    }
    passed = {n: [v] if SPARK.options[n].of_message else v for n, v in values.items()}
    try:
        check_combinations({**unknown, **passed})
        if "rate" in values:
            parse_rate(values["rate"])
    except InvalidCombination as error:
        name = option_words.argument(error.argument)
        raise InvalidOption(name, error.hint_in(option_words)) from None
    except InvalidFormat as error:
        raise InvalidOption("rate", error.in_words(option_words)) from None
    return SendColumns(tuple(values.items()), columns, takes_names)


def _read_value(reader: OptionReader, option: SendOption) -> Any:
    name = option_of(option)
    text = reader.read_text(name)
    if text is None:
        return None
    low, high = option.low or 0, option.high or 0
    if option.kind is ValueKind.SECONDS:
        return reader.read_seconds(name, 0, low, high)
    if option.kind is ValueKind.WHOLE_NUMBER:
        return reader.read_integer(name, 0, int(low), int(high))
    if option.kind is ValueKind.FLAG:
        return reader.read_flag(name)
    if option.kind is ValueKind.TIME:
        return _EPOCH + timedelta(microseconds=reader.read_time_us(name) or 0)
    if option.kind is ValueKind.LABEL and len(text) > high:
        raise InvalidOption(name, f"is a text of {low} to {high} characters.", value=text)
    return text


def column_type(option: SendOption) -> type[DataType]:
    """Return the type of a column with the values of an option."""
    return _TYPES[option.kind]


def to_value(option: SendOption, value: Any) -> Any:
    """Return the value of a row as ``send_message`` takes it."""
    if option.kind is ValueKind.WHOLE_NUMBER:
        number = float(value)
        return int(number) if number.is_integer() else number
    return float(value) if option.kind is ValueKind.SECONDS else value


def format_rows(number: int) -> str:
    """Return a number of rows for people, as in "a row" or "1,000 rows"."""
    return "a row" if number == 1 else format_count(number, "row")


def check_values(
    send: SendColumns, columns: Sequence[tuple[SendOption, str]], values: Sequence[Sequence[Any]]
) -> None:
    """
    Check the values of rows, and that each row has the options that its options need.

    Args:
        columns: the options that have columns, and these columns.
        values: the values of each column; None is not passed.

    Raises:
        InvalidOption: some rows are not valid; the error names the column, their number and the
            rule.
    """
    for (option, column), own in zip(columns, values, strict=True):
        wrong, rule = 0, ""
        for value, number in Counter(own).items():
            try:
                _check_value(option, value)
            except (InvalidFormat, InvalidValue) as error:
                wrong, rule = wrong + number, rule or str(error)
        if wrong:
            raise _make_wrong_rows(option, column, wrong, rule)
    options = [
        *(option for option, _ in columns),
        *(SPARK.options[name] for name, _ in send.values),
    ]
    if columns and any(option.needs or option.excludes for option in options):
        _check_combinations(send, columns, values)


def _check_combinations(
    send: SendColumns, columns: Sequence[tuple[SendOption, str]], values: Sequence[Sequence[Any]]
) -> None:
    passed = {name: set(range(len(values[0]))) for name, _ in send.values}
    for (option, _), own in zip(columns, values, strict=True):
        rows = {at for at, value in enumerate(own) if value is not None and value != option.default}
        passed[option.name] = passed.get(option.name, set()) | rows
    for option in _OPTIONS:
        rows = passed.get(option.name, set())
        wrong: list[tuple[set[int], dict[str, Any]]] = [
            (rows.difference(*(passed.get(name, ()) for name in one_of)), {"needs": (one_of,)})
            for one_of in option.needs
        ]
        wrong += [
            (rows & passed.get(name, set()), {"excludes": (name,)}) for name in option.excludes
        ]
        for of_rule, rule in wrong:
            if of_rule:
                error = InvalidCombination(option.name, value=None, reason=option.reason, **rule)
                raise _make_wrong_combination(option, dict(columns), len(of_rule), error)


def _check_value(option: SendOption, value: Any) -> None:
    low, high = option.low or 0, option.high or 0
    if value is None:
        return
    if option.kind is ValueKind.WHOLE_NUMBER:
        check_whole_number(option.name, to_value(option, value), int(low), int(high))
    elif option.kind is ValueKind.SECONDS:
        if to_milliseconds(option.name, float(value)) < low * 1000:
            raise InvalidValue(option.name, low, high, value=value)
    elif option.kind is ValueKind.RATE:
        parse_rate(value)
    elif option.name == "group":
        check_group(value)
    elif option.name == "limit_key":
        make_limit_group(value, 0)
    elif option.kind is ValueKind.LABEL:
        check_label(option.name, value)


def _make_wrong_rows(option: SendOption, column: str, number: int, rule: str) -> InvalidOption:
    return InvalidOption(
        column_option_of(option), f"column {column} is wrong in {format_rows(number)}: {rule}"
    )


def _make_wrong_combination(
    option: SendOption, columns: Mapping[SendOption, str], number: int, error: InvalidCombination
) -> InvalidOption:
    rule = error.hint_in(option_words)
    if option in columns:
        return _make_wrong_rows(option, columns[option], number, rule)
    return InvalidOption(option_of(option), f"is wrong for {format_rows(number)}: {rule}")


def check_rows(
    values: Mapping[str, Any], own: Sequence[SendOption], rows: Sequence[Any]
) -> tuple[bytes, SendOptions | None]:
    """
    Return what ``check_send`` returns for a call.

    Args:
        values: the options that all rows of the call have.
        own: the options with columns that each row has of its own, in the order of the labels.
        rows: the rows: ``LabelledRow`` if there are such options.

    Raises:
        The errors of ``check_send``.
    """
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        option = SPARK.options[name]
        arguments[option.name_in(BATCH)] = [value] * len(rows) if option.of_message else value
    for place, option in enumerate(own):
        labels = [row.labels[place] for row in rows]
        default = values.get(option.name)
        arguments[option.name_in(BATCH)] = [default if each is None else each for each in labels]
    return check_send(arguments, BATCH, len(rows))


_WEEK_SECONDS = 7 * 86_400.0
_FORMATS = ("column", "json", "msgpack")


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
    send: SendColumns
    maxsize: int
    message_column: str
    queue_column: str | None
    is_staged: bool = switch_option("delivery", "at-least-once", "exactly-once")
    batch_size: int = integer_option("batchSize", 1000, 1, MAX_BATCH)
    create_queue: bool = flag_option("createQueue")
    vt: int = integer_option("vt", DEFAULT_VT, 0, MAX_SECONDS)
    enforce_maxsize: bool = flag_option("enforceMaxSize", True)
    realtime: bool = flag_option("realtime")
    restore: bool = flag_option("restore")
    message_format: str = choice_option("messageFormat", _FORMATS)
    ignore_extra: bool = flag_option("ignoreExtraColumns")
    write_id: str | None = name_option("writeId")
    staging_retention: float = seconds_option("stagingRetention", _WEEK_SECONDS, 60, MAX_SECONDS)


SINK_OPTIONS = (
    "queue", "maxsize", "messageColumn", "queueColumn", *option_names(SinkOptions),
    *SEND_SINK_OPTIONS,
)  # fmt: skip


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
    # A complete row is the message, so its columns "queue" and "delay" are data by default.
    has_body_column = reader.read_choice("messageFormat", _FORMATS) == "column"
    restore = reader.read_flag("restore")
    found = reader.read_record(
        SinkOptions,
        connection=connection,
        queue=queue and check_queue_name(connection.namespaces, "queue", queue),
        send=read_send_columns(reader, takes_names=has_body_column and not restore),
        maxsize=_read_maxsize(reader),
        message_column=reader.read_text("messageColumn") or "message",
        queue_column=reader.read_text("queueColumn") or ("queue" if has_body_column else None),
    )
    if found.write_id and (streaming or not found.is_staged):
        raise InvalidOption(
            "writeId",
            "names a batch write with delivery exactly-once, so that it is done once however "
            "often it is run; a stream is known by its query.",
        )
    others = [each for each in SEND_SINK_OPTIONS if reader.read_text(each)]
    others += ["messageFormat"] * (not has_body_column)
    if restore and others:
        raise InvalidOption(
            "restore",
            f"puts messages back as they were: it does not go with {', '.join(others)}.",
        )
    return found


def _read_maxsize(reader: OptionReader) -> int:
    maxsize = reader.read_integer("maxsize", DEFAULT_MAXSIZE, -1, MAX_MAXSIZE)
    try:
        return check_maxsize(maxsize)
    except InvalidValue as error:
        raise InvalidOption("maxsize", str(error), value=maxsize) from None
