"""
The module by which Spark finds ``format("rsmq")``: Spark imports all modules ``pyspark_...``.

The wheel has it at the top level. If its import failed, Spark would find no other data source.
"""

from contextlib import suppress

with suppress(ImportError):
    from rsmq.spark import RsmqDataSource as DefaultSource  # noqa: F401 - the name Spark looks for
