"""
The streams of jobs: they read from queues until all due messages are processed, or forever.

Signals take effect between two calls to Spark. A handler that raises in the middle of a call leaves
its answer unread on the connection to the JVM. Py4J then closes the connection, which can fail the
next call, too.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.spark.pipelines.queues import Queues, count_partitions, join_names
from rsmq.spark.stream.acknowledgement import acknowledge_offset, find_offset, find_offsets
from rsmq.spark.versions import HAS_START, make_newer_needed


@dataclass(frozen=True, slots=True)
class JobProgress:
    """
    The progress of a job.

    Attributes:
        job: the name of the job.
        step: the step that the job is doing.
        messages: the number of messages that it has processed.
        per_second: the messages per second of the last batch; None if unknown.
        backlog: the number of messages that are still visible in the queues that it reads; None if
            unknown.
        lost: the number of messages that it has received and whose leases were lost.
    """

    job: str
    step: str
    messages: int = 0
    per_second: float | None = None
    backlog: int | None = None
    lost: int = 0


ProgressCallback = Callable[[JobProgress], object]


def ignore_progress(_: JobProgress) -> None:
    """Do nothing: the default progress callback."""


@dataclass(frozen=True, slots=True)
class StreamResult:
    """
    The result of a job that receives messages.

    Attributes:
        messages: how many messages it processed.
        lost: how many messages other consumers had received meanwhile, in all batches but the
            last; these are not deleted from the queue.
    """

    messages: int
    lost: int


class StreamCount:
    """A counter of the batches and messages of a stream, which reports the progress."""

    def __init__(self, job: str, report_progress: ProgressCallback) -> None:
        self._job = job
        self._report_progress = report_progress
        self._batch_ids: set[int] = set()
        self.messages = 0
        self.batches = 0
        self.lost = 0

    def add_batches(self, progresses: list[Any]) -> None:
        """Count the batches of the progress that Spark has reported, each batch once."""
        for progress in progresses:
            # Spark Connect does not have the sums of all sources.
            batch, rows = progress["batchId"], _add_up(progress, "numInputRows")
            offset = find_offset(progress["sources"][0], "latestOffset")
            self.lost = max(self.lost, offset.get("lost", 0))
            if batch in self._batch_ids or not rows:
                continue
            self._batch_ids.add(batch)
            self.messages += rows
            self.batches += 1
            rate = _add_up(progress, "processedRowsPerSecond")
            queues = offset.get("backlog")
            backlog = None if queues is None else sum(each["visible"] for each in queues.values())
            step = f"batch {batch}"
            self._report_progress(
                JobProgress(self._job, step, self.messages, rate, backlog, self.lost)
            )


def _add_up(progress: Any, name: str) -> Any:
    return sum(source.get(name, 0) for source in progress["sources"])


@contextmanager
def delayed_signals() -> Iterator[Callable[[], None]]:
    """
    Delay SIGINT and SIGTERM in the block, if it runs in the main thread.

    Signals without a handler in Python are not delayed: they end the process, or are ignored.

    Yields:
        A function that runs the handlers of the signals that have arrived. They also run at the end
        of the block, unless it has failed.
    """
    handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
    arrived: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        arrived.append(number)

    def run_handlers() -> None:
        while arrived:
            number = arrived.pop(0)
            handlers[number](number, None)

    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(each)
            if callable(handler):
                handlers[each] = handler
                signal.signal(each, note)
    try:
        yield run_handlers
    finally:
        for number, earlier in handlers.items():
            if signal.getsignal(number) is note:  # else a handler has chosen another one
                signal.signal(number, earlier)
    run_handlers()


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
    spark: SparkSession, source: Queues, queues: str | Sequence[str], batch: int, **options: Any
) -> DataFrame:
    """
    Return the messages of queues as a stream, with further options of the source.

    Messages of a group are in a batch together: a run needs no batch for each of them. A batch has
    at most ``batch`` messages.

    Raises:
        NotPossible: this PySpark has no streams that end.
    """
    require_streams()
    all_options = source.options(
        subscribe=join_names(queues),
        numPartitions=count_partitions(spark),
        maxMessagesPerTrigger=batch,
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
