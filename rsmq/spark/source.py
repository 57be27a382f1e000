"""
``format("rsmq")``: the data source that Spark asks for readers and writers.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from rsmq.errors import InvalidOption
from rsmq.spark.batch_read import PushdownReader, SnapshotReader
from rsmq.spark.options import (
    SinkOptions,
    sink_options,
    snapshot_options,
    source_options,
    stream_options,
)
from rsmq.spark.schema import check_schema, schema_of
from rsmq.spark.sink import BatchWriter, StreamWriter, prepare
from rsmq.spark.stream import StreamReader


class RsmqDataSource(DataSource):
    """
    RSMQ queues as sources and sinks of Spark; the README has the options.

    Methods have Spark's names and parameters.
    """

    @classmethod
    def name(cls) -> str:
        return "rsmq"

    def schema(self) -> StructType:
        return schema_of(source_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        check_schema(schema)
        source, options = source_options(self.options), snapshot_options(self.options)
        kind = PushdownReader if options.pushdown else SnapshotReader
        return kind(source, options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        check_schema(schema)
        return StreamReader(source_options(self.options), stream_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        options = self._sink(schema, overwrite, streaming=False)
        return BatchWriter(options, schema)

    def streamWriter(
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamWriter:
        options = self._sink(schema, overwrite, streaming=True)
        return StreamWriter(options, schema)

    def _sink(self, schema: StructType, overwrite: bool, *, streaming: bool) -> SinkOptions:  # noqa: FBT001
        if overwrite:
            raise InvalidOption(
                "mode",
                "a queue is appended to: use mode('append'), or outputMode('append') or "
                "outputMode('update') of a stream. RSMQ.purge_queue empties a queue.",
            )
        options = sink_options(self.options, streaming=streaming)
        prepare(options, schema)
        return options
