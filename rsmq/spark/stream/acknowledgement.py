"""
The acknowledgement of batches that Spark has committed, by the driver of a query.

The source itself acknowledges a batch when Spark requests the next one. That is late with a long
trigger interval, and does not happen for the last batch of a query that is stopped. Spark reports
the progress of a batch after it has written its commit log, so the driver can acknowledge then.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener
from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.spark.connection_options import ConnectionOptions, parse_connection_options
from rsmq.spark.operations.batches import Batch, parse_part_sizes
from rsmq.spark.stream.records import (
    AcknowledgedCounts,
    acknowledge_parts,
    check_version,
    find_names,
    parse_counts,
)

log = get_logger(__name__)

#: How long the listener waits for the next batch, whose request acknowledges the one before.
ACKNOWLEDGE_DELAY_SECONDS = 2.0


def acknowledge_offset(connection: ConnectionOptions, offset: dict[str, Any]) -> tuple[int, int]:
    """
    Acknowledge the batch of an offset that Spark has committed, if it is in flight.

    Args:
        connection: the options of the connection. A batch that has messages of another namespace
            is not acknowledged.
        offset: an offset of the streaming source.

    Returns:
        How many messages were deleted, and how many another consumer has received since.

    Raises:
        NewerVersion: a newer version of this library has stored the batch.
    """
    check_version(offset)
    tally = AcknowledgedCounts()
    if find_names(offset).issubset(connection.names):
        name = offset["lease"]
        last = Batch(name, offset["batch"], offset.get("query", name))
        # A stream without a name of its own always gets its offset from Spark.
        counts = offset["queues"] if "query" in offset else None
        # The query acknowledges a batch while it processes the next one, and may have been killed.
        batches = {last._replace(number=last.number - 1): None, last: counts}
        for queue in parse_counts(connection, offset["queues"], offset.get("ns")):
            found = queue.server.call("HMGET", queue.keys.leases, *map(str, batches))
            for (batch, of_batch), packed in zip(batches.items(), found, strict=True):
                if packed is not None:
                    parts = len(parse_part_sizes(packed))
                    acknowledge_parts(queue, batch, parts, tally, of_batch)
    return tally.acknowledged, tally.lost


def find_offset(source: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an offset of a source in a progress; empty if it has another form, or is missing."""
    offset = source.get(name)
    if isinstance(offset, str):
        offset = json.loads(offset)
    return offset if isinstance(offset, dict) else {}


def find_offsets(progress: dict[str, Any]) -> list[dict[str, Any]]:
    """
    Return the offsets of the sources ``format("rsmq")`` in a progress of a query, in order.

    Those are the start and the end of the batch: a query that was killed may have acknowledged the
    batch before only in part, which may be of other queues.
    """
    names = ("startOffset", "endOffset")
    found = [find_offset(source, name) for source in progress["sources"] for name in names]
    # Other sources have offsets of other forms.
    return [offset for offset in found if offset.keys() >= {"lease", "batch", "queues"}]


class AcknowledgeListener(StreamingQueryListener):
    """
    A listener that acknowledges the last batch of a query, which Spark has committed.

    It waits two seconds for the next batch: a query that is busy acknowledges its batches itself.
    When a query ends, its last batch is acknowledged at once. One listener serves all queries of a
    session on one server and the namespaces of its options. It warns once of queries of others.
    Messages that it deletes are not in the query's progress.

    ``spark.streams.addListener(AcknowledgeListener(url=url))``
    """

    def __init__(self, **options: str) -> None:
        """
        Connect lazily: nothing is opened before the first batch.

        Args:
            options: the options of the connection, as of ``format("rsmq")``.

        Raises:
            InvalidOption: an option is unknown or has an invalid value.
        """
        super().__init__()
        self._connection = parse_connection_options(options)
        self._lock = threading.Lock()
        self._timers: dict[str, threading.Timer] = {}
        self._warned: set[str] = set()

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: the query itself has acknowledged its last batch."""

    def onQueryProgress(self, event: Any) -> None:
        """Acknowledge the batch, unless the query requests another one within two seconds."""
        offsets = find_offsets(json.loads(event.progress.json))
        run = str(event.progress.runId)
        timer = threading.Timer(ACKNOWLEDGE_DELAY_SECONDS, self._acknowledge, (offsets,))
        timer.daemon = True
        with self._lock:
            earlier, self._timers[run] = self._timers.get(run), timer
        if earlier is not None:
            earlier.cancel()
        timer.start()

    def onQueryTerminated(self, event: Any) -> None:
        """Acknowledge the last batch of a query that has ended."""
        with self._lock:
            timer = self._timers.pop(str(event.runId), None)
        if timer is not None:
            timer.cancel()
            self._acknowledge(*timer.args)

    def _acknowledge(self, offsets: Iterable[dict[str, Any]]) -> None:
        for offset in offsets:
            if others := find_names(offset).difference(self._connection.names):
                self._warn_of_others(others)
                continue
            try:
                _, lost = acknowledge_offset(self._connection, offset)
            except (RedisError, RSMQError) as error:  # the next run of the query acknowledges it
                log.warning("A done batch was not acknowledged, and stays in flight: %s", error)
                continue
            if lost:
                log.warning(
                    "Batch %s of stream %s is done. Other consumers had received %s of its "
                    "messages meanwhile; these are not deleted.",
                    offset["batch"],
                    offset["lease"],
                    lost,
                )

    def _warn_of_others(self, names: set[str]) -> None:
        """Warn that a query reads namespaces that this listener does not have, once for each."""
        for name in sorted(names - self._warned):
            log.warning(
                "A query reads namespace %r. This listener acknowledges batches of %s, so the last "
                "batch of the query stays in flight. Add a listener with the ns of the query.",
                name,
                ", ".join(map(repr, self._connection.names)),
            )
        self._warned |= names
