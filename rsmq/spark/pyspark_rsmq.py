"""
The module by which Spark finds ``format("rsmq")``: it imports all named ``pyspark_...``.

The wheel has it at the top level. It must never fail, or Spark finds no other source either.
"""

from contextlib import suppress

with suppress(ImportError):
    from rsmq.spark import RsmqDataSource as DefaultSource  # noqa: F401 - the name Spark looks for
