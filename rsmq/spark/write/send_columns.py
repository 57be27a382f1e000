"""
The options of sends, as options of a write for all rows and as columns with each row's own value.

They follow from the table of options: an option ``max_retries`` is ``maxRetries``, and
``maxRetriesColumn`` names its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.types import BooleanType, DataType, NumericType, StringType, TimestampType

from rsmq.errors import InvalidCombination, InvalidFormat, InvalidOption
from rsmq.operations.send_options import SendOptions, check_send
from rsmq.spark.option_reader import OptionReader, option_words
from rsmq.vocabulary.sends import (
    BATCH,
    SEND_OPTIONS,
    SPARK,
    SendOption,
    ValueKind,
    check_combinations,
)
from rsmq.wire.groups import parse_rate
from rsmq.wire.limits import to_milliseconds

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
        columns: the columns that have those of rows, by the names of ``send_message``.
    """

    values: tuple[tuple[str, Any], ...]
    columns: Mapping[str, str]

    def columns_in(self, names: Iterable[str]) -> list[tuple[SendOption, str]]:
        """Return the options with columns that a frame has, and these columns."""
        found = set(names)
        named = [(each, self.columns.get(each.name)) for each in _OPTIONS]
        return [(option, column) for option, column in named if column in found and column]


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


def read_send_columns(
    reader: OptionReader, *, has_delay_column: bool, is_staged: bool
) -> SendColumns:
    """
    Return the send options of a write.

    Args:
        has_delay_column: whether a column ``delay`` has the delays, if no option names another one.
        is_staged: whether the delivery is exactly once, which stores a delay only.

    Raises:
        InvalidOption: a value is invalid, an option lacks one that it needs, or it does not go with
            the delivery.
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
    for option in _OPTIONS:
        if is_staged and option.name != "delay" and option.name in {**values, **columns}:
            name = option_of(option) if option.name in values else column_option_of(option)
            raise InvalidOption(
                name, "goes with delivery at-least-once: staged rows have a delay only."
            )
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
    if has_delay_column:
        columns.setdefault("delay", "delay")
    return SendColumns(tuple(values.items()), columns)


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
        return reader.read_flag(name, default=False)
    if option.kind is ValueKind.TIME:
        return _EPOCH + timedelta(microseconds=reader.read_time_us(name) or 0)
    if option.kind is ValueKind.LABEL and len(text) > high:
        raise InvalidOption(name, f"is a text of {low} to {high} characters.", value=text)
    return text


def column_types(send: SendColumns) -> Iterable[tuple[str, str, type[DataType]]]:
    """Yield the option that names a column, the column, and its type."""
    for option in _OPTIONS:
        if (column := send.columns.get(option.name)) is not None:
            yield column_option_of(option), column, _TYPES[option.kind]


def to_value(option: SendOption, column: str, value: Any) -> Any:
    """
    Return the value of a row as ``send_message`` takes it.

    Raises:
        InvalidValue: seconds are out of range.
    """
    if option.kind is ValueKind.WHOLE_NUMBER:
        number = float(value)
        return int(number) if number.is_integer() else number
    if option.kind is not ValueKind.SECONDS:
        return value
    title = option.name.replace("_", " ").capitalize()
    item = f"{title} in column {column} (option {column_option_of(option)})"
    return to_milliseconds(item, float(value)) / 1000


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
