"""
Streams of jobs: read from queues, run until they end or are stopped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rsmq.spark.pipelines.progress import StreamCount, Tell
from rsmq.spark.pipelines.queues import Queues, subscribed

#: Seconds between two looks at a running stream.
_LOOK = 0.5

#: Seconds between two batches of a stream that goes on: fuller batches, fewer small files.
FOLLOW = "5 seconds"


def stream(
    spark: SparkSession, source: Queues, queues: str | Sequence[str], **options: Any
) -> DataFrame:
    """The messages of queues, as a stream."""
    known = source.options(subscribe=subscribed(queues), **options)
    return spark.readStream.format("rsmq").options(**known).load()


def run(job: str, writer: Any, *, follow: bool, tell: Tell) -> StreamCount:
    """
    Run a stream: until all that was due at its start is done, or forever.

    Ctrl-C ends it; the batch under way is done again by the next run.
    """
    count = StreamCount(job, tell)
    trigger = {"processingTime": FOLLOW} if follow else {"availableNow": True}
    query = writer.trigger(**trigger).start()
    try:
        while not query.awaitTermination(_LOOK):
            count.take(_progresses(query))
    except KeyboardInterrupt:
        query.stop()
    count.take(_progresses(query))
    return count


def _progresses(query: Any) -> list[dict[str, Any]]:
    return [json.loads(progress.json) for progress in query.recentProgress]
