"""
The data source ``format("rsmq")``, from which Spark gets readers and writers.

Spark imports this module in each of its Python processes. Methods import the modules of readers and
writers, and with them redis-py, because most processes need one of them or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructField, StructType

from rsmq.errors import InvalidOption
from rsmq.spark.connection_options import has_options
from rsmq.spark.read.schema import build_schema, check_schema
from rsmq.spark.read.source_options import (
    SNAPSHOT_OPTIONS,
    STREAM_OPTIONS,
    check_read_options,
    parse_snapshot_options,
    parse_source_options,
    parse_stream_options,
)
from rsmq.spark.versions import HAS_FILTERS, HAS_START, HAS_STREAM_SINK, make_newer_needed
from rsmq.spark.write.sink_options import SinkOptions, parse_sink_options


class RsmqDataSource(DataSource):
    """
    RSMQ queues as sources and sinks of Spark. Their options are on the page "Spark".

    The names and parameters of the methods are Spark's.
    """

    @classmethod
    def name(cls) -> str:
        return "rsmq"

    def schema(self) -> StructType:
        if is_new_table(self.options):
            return make_table_schema(self.options)
        find_read_options(self.options, StructType(), ())
        return build_schema(check_read_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from rsmq.spark.read.batch_read import PushdownReader, SnapshotReader  # noqa: PLC0415

        texts = find_read_options(self.options, schema, STREAM_OPTIONS)
        check_schema(schema)
        source = parse_source_options(texts)
        options = parse_snapshot_options(texts)
        if options.pushdown and not HAS_FILTERS:
            raise make_newer_needed("The option pushdown", "4.1", "Remove the option.")
        reader_class = PushdownReader if options.pushdown else SnapshotReader
        return reader_class(source, options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from rsmq.spark.stream.older_reader import OlderStreamReader  # noqa: PLC0415
        from rsmq.spark.stream.reader import StreamReader  # noqa: PLC0415

        texts = find_read_options(self.options, schema, SNAPSHOT_OPTIONS)
        check_schema(schema)
        source = parse_source_options(texts)
        options = parse_stream_options(texts)
        if HAS_START:
            return StreamReader(source, options, schema)
        if options.consumer_group is None:
            raise make_newer_needed(
                "A stream from rsmq without a consumerGroup",
                "4.2",
                "Pass the option consumerGroup, a name that no other query of these queues has.",
            )
        return OlderStreamReader(source, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        from rsmq.spark.write.sink import BatchWriter  # noqa: PLC0415

        options = self._prepare_write(schema, overwrite, streaming=False)
        return BatchWriter(options, schema)

    def streamWriter(
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamWriter:
        from rsmq.spark.write.sink import StreamWriter  # noqa: PLC0415

        if not HAS_STREAM_SINK:
            raise make_newer_needed(
                "A stream into rsmq",
                "4.1",
                "Write each batch in foreachBatch, with delivery=exactly-once and a writeId that "
                "has the number of the batch.",
            )
        options = self._prepare_write(schema, overwrite, streaming=True)
        return StreamWriter(options, schema)

    def _prepare_write(
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
        *,
        streaming: bool,
    ) -> SinkOptions:
        from rsmq.spark.write.sink import prepare_write  # noqa: PLC0415

        if overwrite:
            # Spark does not say to the source whether this write would replace a table.
            raise InvalidOption(
                "mode",
                "a queue is appended to: use mode('append'), or outputMode('append') or "
                "outputMode('update') of a stream. RSMQ.purge_queue empties a queue. If this write "
                "was to replace a table (saveAsTable, createOrReplace, REPLACE TABLE ... AS), "
                "Spark has dropped the table, and its messages are still in the queue: create it "
                "again by CREATE TABLE name USING rsmq OPTIONS (...).",
            )
        refuse_write_without_options(self.options)
        options = parse_sink_options(self.options, streaming=streaming)
        prepare_write(options, schema)
        return options


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
