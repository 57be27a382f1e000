"""
The streams of jobs: they read from queues until all due messages are processed, or forever.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.spark.pipelines.delayed_signals import delayed_signals
from rsmq.spark.pipelines.progress import ProgressCallback, StreamCount
from rsmq.spark.pipelines.queues import Queues, count_partitions, join_names
from rsmq.spark.stream.acknowledgement import acknowledge_offset, find_offsets
from rsmq.spark.versions import HAS_START, make_newer_needed

log = get_logger(__name__)

_POLL_SECONDS = 0.5

#: The pause between batches of a stream that runs forever: larger batches make fewer small files.
_FOLLOW_INTERVAL = "5 seconds"


def require_streams() -> None:
    """
    Refuse a PySpark that has no streams that end.

    Raises:
        NotPossible: as above.
    """
    if not HAS_START:
        raise make_newer_needed(
            "A job that receives messages",
            "4.2",
            "archive with keep, replay, migrate and report run on this version.",
        )


def read_stream(
    spark: SparkSession, source: Queues, queues: str | Sequence[str], **options: Any
) -> DataFrame:
    """
    Return the messages of queues as a stream, with further options of the source.

    Messages of a group are in a batch together: a run needs no batch for each of them.

    Raises:
        NotPossible: this PySpark has no streams that end.
    """
    require_streams()
    all_options = source.options(
        subscribe=join_names(queues),
        numPartitions=count_partitions(spark),
        groups="together",
        **options,
    )
    return spark.readStream.format("rsmq").options(**all_options).load()


def run_stream(
    job: str, source: Queues, writer: Any, *, follow: bool, report_progress: ProgressCallback
) -> StreamCount:
    """
    Run a stream until it ends, and return its counts.

    Ctrl-C stops it; the next run repeats the unfinished batch. The last batch that Spark has
    committed is acknowledged when the stream ends, for whatever reason. A stream that runs forever
    ends by Ctrl-C as intended; for another one the KeyboardInterrupt is raised again.

    Args:
        job: the name of the job, for the progress.
        source: the server and the namespaces of the queues that the stream reads.
        writer: Spark's DataStreamWriter.
        follow: True runs forever; False until all messages that were due at the start are done.
        report_progress: a function that is called after each batch.
    """
    count = StreamCount(job, report_progress)
    trigger = {"processingTime": _FOLLOW_INTERVAL} if follow else {"availableNow": True}
    query = writer.trigger(**trigger).start()
    try:
        with delayed_signals() as run_handlers:
            while not query.awaitTermination(_POLL_SECONDS):
                count.add_batches(_read_progress(query))
                run_handlers()
    except KeyboardInterrupt:
        query.stop()
        if not follow:
            raise
    finally:
        _acknowledge_last_batch(source, query)
    count.add_batches(_read_progress(query))
    return count


def _acknowledge_last_batch(source: Queues, query: Any) -> None:
    """Acknowledge the last batch of which Spark has reported the progress: it is committed."""
    for progress in _read_progress(query)[-1:]:
        for offset in find_offsets(progress):
            try:
                acknowledge_offset(source.connection(), offset)
            except (RedisError, RSMQError) as error:  # the next run acknowledges it
                log.warning("The last batch was not acknowledged, and stays in flight: %s", error)


def _read_progress(query: Any) -> list[dict[str, Any]]:
    return [json.loads(progress.json) for progress in query.recentProgress]
