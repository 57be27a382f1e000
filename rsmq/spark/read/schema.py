"""
The columns of a message in Spark.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rsmq.errors import InvalidOption
from rsmq.spark.read.sent_columns import FACT_COLUMNS, REASON_COLUMNS, SENT_COLUMNS
from rsmq.spark.read.source_options import SourceOptions

DEFAULT_COLUMNS = (
    "queue", "id", "message", "sent", "first_received", "receive_count", "visible_at",
)  # fmt: skip
_STORED_BESIDE = REASON_COLUMNS | SENT_COLUMNS | FACT_COLUMNS
_NULLABLE = ("sent", "first_received", "visible_at", *REASON_COLUMNS, *SENT_COLUMNS, "state")


def build_schema(options: SourceOptions) -> StructType:
    """
    Return the columns that options select.

    Raises:
        InvalidOption: a column does not exist, or is selected twice.
    """
    fields = make_fields(is_binary=options.is_binary)
    with_raw = (*DEFAULT_COLUMNS[:3], "raw", *DEFAULT_COLUMNS[3:])
    default = with_raw if options.include_raw else DEFAULT_COLUMNS
    if len(options.connection.namespaces) > 1:  # an id may be in several
        default = ("ns", *default)
    selected = options.columns or default
    for name in selected:
        if name not in fields or selected.count(name) > 1:
            raise InvalidOption(
                "columns",
                f"names some of {', '.join(fields)}, each once, with commas between; got {name!r}.",
                value=name,
            )
    added = ["raw"] if options.include_raw else []
    added += REASON_COLUMNS if options.include_reasons else []
    selected += tuple(name for name in added if name not in selected)
    return StructType([fields[name] for name in selected])


def check_schema(schema: StructType) -> None:
    """
    Check a schema that a user specified.

    Raises:
        InvalidOption: a column does not exist or has another type, or one that can be null is
            declared as not nullable.
    """
    for field in schema.fields:
        if not field.nullable and field.name in _NULLABLE:
            raise InvalidOption(
                "schema", f"column {field.name} can be null: say so.", value=field.name
            )
        possible = {
            fields[field.name].dataType
            for fields in (make_fields(is_binary=False), make_fields(is_binary=True))
            if field.name in fields
        }
        if field.dataType not in possible:
            columns = ", ".join(
                f"{each.name} {each.dataType.simpleString()}"
                for each in make_fields(is_binary=False).values()
            )
            raise InvalidOption(
                "schema",
                f"there is no column {field.name} {field.dataType.simpleString()}. There are "
                f"{columns}; message may also be binary.",
                value=field.name,
            )


def make_fields(*, is_binary: bool) -> dict[str, StructField]:
    """Return all columns by name; ``message`` is bytes if ``is_binary``, else text."""
    text, time = StringType(), TimestampType()
    fields = [
        StructField("queue", text, nullable=False),
        StructField("id", text, nullable=False),
        StructField("message", BinaryType() if is_binary else text),
        StructField("raw", BinaryType()),
        StructField("sent", time),
        StructField("first_received", time),
        StructField("receive_count", LongType()),
        StructField("visible_at", time),
        StructField("ns", text, nullable=False),
        *(StructField(name, kind) for name, kind in _STORED_BESIDE.items()),
    ]
    return {field.name: field for field in fields}
