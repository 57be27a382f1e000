"""
Tables of Spark's catalog.

Spark passes the options of a table to a data source in Python only when the table is created, and
the columns of the table with each read. So the first column keeps the options in its metadata, and
the catalog stores them with it. A write does not use them: its columns may be those of the table
that its rows come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql.types import StructField, StructType

from rsmq.errors import InvalidOption
from rsmq.spark.option_reader import has_options
from rsmq.spark.read.schema import build_schema
from rsmq.spark.read.source_options import check_read_options

#: A property that only a new table has.
_NEW_TABLE = "provider"

#: Spark's prefix of the name of each option of a new table, beside the name itself.
_OPTION = "option."

_METADATA = "rsmq"


def is_new_table(options: Mapping[str, str]) -> bool:
    """Return whether Spark creates a table, and asks for its columns."""
    return _NEW_TABLE in {name.lower() for name in options}


def make_table_schema(options: Mapping[str, str]) -> StructType:
    """
    Return the columns of a new table, of which the first one has the options of the table.

    Args:
        options: the options and properties of the table, as Spark passes them.

    Raises:
        InvalidOption: an option is unknown, or is not valid for a read.
    """
    own = {
        name[len(_OPTION) :]: text
        for name, text in options.items()
        if name.lower().startswith(_OPTION)
    }
    if not own:
        raise InvalidOption("queue", "give it in OPTIONS (...): the table would have no queue.")
    # An INSERT may name some columns; Spark fills the others with nulls.
    columns = [
        StructField(each.name, each.dataType) for each in build_schema(check_read_options(own))
    ]
    columns[0].metadata = {_METADATA: own}
    return StructType(columns)


def find_read_options(
    options: Mapping[str, str], schema: StructType, others: Iterable[str]
) -> Mapping[str, str]:
    """
    Return the options of a read: those of its statement, or else those of its table.

    Args:
        schema: the columns of the read.
        others: the options that a table may have for reads of the other kind.

    Raises:
        InvalidOption: there are none.
    """
    if has_options(options):
        return options
    for field in schema.fields:
        own: dict[str, str] | None = (field.metadata or {}).get(_METADATA)
        if own is not None:
            without = {name.lower() for name in others}
            return {name: text for name, text in own.items() if name.lower() not in without}
    raise InvalidOption(
        "queue",
        "no option has arrived: pass at least queue. A table whose CREATE TABLE names columns has "
        "no options here, because Spark does not pass them to a source in Python: create it "
        "without columns (the option columns selects some), or read with the options, as in FROM "
        "name WITH (url = '...', queue = '...').",
    )


def refuse_write_without_options(options: Mapping[str, str]) -> None:
    """
    Refuse a write to which no option has arrived.

    Raises:
        InvalidOption: there are none.
    """
    if not has_options(options):
        raise InvalidOption(
            "queue",
            "no option has arrived: pass at least queue. Spark does not pass the options of a "
            "table to a write in Python: use INSERT INTO name WITH (url = '...', queue = '...'), "
            "writeTo(name).options(...).append(), or a temporary view.",
        )
