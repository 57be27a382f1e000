"""
The decisions of writes of Spark that happen exactly once: which staged parts are published.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgpack

from rsmq.errors import BatchLost, CheckpointSetBack
from rsmq.spark.connections import PlacedQueue, SparkServer, find_placed_queue, get_home
from rsmq.spark.operations.staged_writes import (
    Decision,
    check_staged,
    decide_write,
    finish_write,
    publish_staged,
)
from rsmq.spark.write.sink_options import SinkOptions

#: How long it is stored that a write without a ``writeId`` is done: no later write asks for it.
_UNNAMED_WRITE_RETENTION_SECONDS = 3600.0


def is_written(home: SparkServer, write: str, batch: int) -> bool:
    """
    Return whether a batch of a write is done already: then Spark repeats it after a crash.

    Args:
        home: the server that stores the decisions of the write.

    Raises:
        CheckpointSetBack: a later batch was done or decided, so Spark repeats an older batch than
            the last one.
    """
    last, is_unfinished = read_last_batch(home, write)
    if last > batch:
        raise make_checkpoint_set_back(write, batch, last)
    return last == batch and not is_unfinished


def make_checkpoint_set_back(write: str, batch: int, last: int) -> CheckpointSetBack:
    """Return the error of a write whose batch is older than the last one that was written."""
    return CheckpointSetBack(f"query {write}", batch, last, "written", "")


def read_last_batch(home: SparkServer, write: str) -> tuple[int, bool]:
    """
    Return the last batch of a write that was done or decided, and whether it is not done yet.

    The number is -1 if none is stored.
    """
    with home.naming_cell():
        packed = home.call("HGET", home.namespace.written, write)
    if packed is None:
        return -1, False
    batch, decision, _ = msgpack.unpackb(packed, raw=True)
    return batch, bool(decision)


def publish(
    options: SinkOptions, write: str, batch: int, decision: Decision, *, is_named: bool = True
) -> None:
    """
    Publish the staged parts of a batch, once; complete an interrupted decision first.

    Args:
        decision: the parts to publish, unless a decision of this batch is stored already.
        is_named: whether the write may be repeated under its name. Else it is stored for an hour
            at most that it is done.

    Raises:
        BatchLost: a part is not in Redis any more.
        CheckpointSetBack: a later batch was published.
    """
    home = get_home(options.connection, write)
    labels = set(decision)
    retention = options.staging_retention
    lifetime = retention if is_named else min(retention, _UNNAMED_WRITE_RETENTION_SECONDS)
    while True:
        decided = _decide(options, home, write, batch, decision)
        if decided is None:
            raise _make_batch_lost(write, batch, "Nothing of it was published: run the write again")
        number, parts_by_label = decided
        if parts_by_label is None:
            break
        labels.update(parts_by_label)
        for label, parts in parts_by_label.items():
            queue = find_placed_queue(options.connection, label)
            for part in parts:
                operation = publish_staged(queue.keys, part, realtime=options.realtime)
                if queue.server.run(operation) is None:
                    raise _make_batch_lost(write, number, "Some of it was published")
        home.run(finish_write(home.namespace, write, number, lifetime=lifetime))
        if number >= batch:
            break
    if number > batch:
        raise make_checkpoint_set_back(write, batch, number)
    for label in labels:
        delete_unused_parts(find_placed_queue(options.connection, label), write, batch)


def _decide(
    options: SinkOptions, home: SparkServer, write: str, batch: int, decision: Decision
) -> tuple[int, Decision | None] | None:
    """
    Store the decision of a batch, unless one is stored; see ``decide_write``.

    The parts of a set of cells are checked one cell after another, before the atomic step.
    """
    has_cells = options.connection.cells is not None
    lifetime = options.staging_retention
    if has_cells:
        last, is_unfinished = read_last_batch(home, write)
        for label, parts in decision.items() if last < batch and not is_unfinished else ():
            queue = find_placed_queue(options.connection, label)
            if queue.server.run(check_staged(queue.keys, parts, lifetime=lifetime)):
                return None
    return home.run(
        decide_write(
            home.namespace, write, batch, decision, lifetime=lifetime, is_checked=has_cells
        )
    )


def _make_batch_lost(write: str, batch: int, remedy: str) -> BatchLost:
    return BatchLost(
        f"Not all that was staged for batch {batch} of write {write} is in Redis: a queue was "
        "purged or deleted, Redis lost data, or stagingRetention is over",
        value=write,
        hint=f"{remedy}.",
    )


def delete_if_decided(
    home: SparkServer, queue: PlacedQueue, write: str, batch: int, part: str
) -> bool:
    """
    Delete a part that was staged in another cell than ``home``, if its batch is decided already.

    ``stage_messages`` sees only the decisions of its own cell. A part that was staged before the
    decision is deleted after the batch was published.

    Args:
        home: the server that stores the decisions of the write.

    Returns:
        Whether the batch is decided. Then the part is not in the decision, because its task has not
        ended.
    """
    is_decided = read_last_batch(home, write)[0] >= batch
    if is_decided:
        delete_parts(queue, [part])
    return is_decided


def delete_unused_parts(queue: PlacedQueue, write: str, batch: int) -> None:
    """Delete the staged parts of a write up to a batch, and the expired parts of all writes."""
    call, staged = queue.server.call, queue.keys.staged
    with queue.server.naming_cell():
        now_ms = queue.server.now_ms()
        unused = []
        for name in call("HKEYS", staged):
            part_write, part_batch, attempt, _ = name.decode().split(":")
            is_own = part_write == write and int(part_batch) <= batch
            if is_own or int(attempt.partition("-")[0]) < now_ms:
                unused.append(name)
    delete_parts(queue, unused)


def delete_parts(queue: PlacedQueue, parts: Sequence[str] | Sequence[bytes]) -> None:
    """Delete staged parts of a queue by their names."""
    with queue.server.naming_cell():
        for begin in range(0, len(parts), 1000):
            queue.server.call("HDEL", queue.keys.staged, *parts[begin : begin + 1000])
