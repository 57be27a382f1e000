"""
The decisions of writes of Spark that happen exactly once: which staged parts are published.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgpack

from rsmq.errors import BatchLost, CheckpointSetBack
from rsmq.spark.connections import SparkServer, get_server
from rsmq.spark.operations.staged_writes import Decision, decide_write, finish_write, publish_staged
from rsmq.spark.write.sink_options import SinkOptions
from rsmq.wire.keys import QueueKeys

#: How long it is stored that a write without a ``writeId`` is done: no later write asks for it.
_UNNAMED_WRITE_RETENTION_SECONDS = 3600.0


def is_written(server: SparkServer, write: str, batch: int) -> bool:
    """
    Return whether a batch of a write is done already: then Spark repeats it after a crash.

    Raises:
        CheckpointSetBack: a later batch was done or decided, so Spark repeats an older batch than
            the last one.
    """
    last, is_unfinished = read_last_batch(server, write)
    if last > batch:
        raise make_checkpoint_set_back(write, batch, last)
    return last == batch and not is_unfinished


def make_checkpoint_set_back(write: str, batch: int, last: int) -> CheckpointSetBack:
    """Return the error of a write whose batch is older than the last one that was written."""
    return CheckpointSetBack(f"query {write}", batch, last, "written", "")


def read_last_batch(server: SparkServer, write: str) -> tuple[int, bool]:
    """
    Return the last batch of a write that was done or decided, and whether it is not done yet.

    The number is -1 if none is stored.
    """
    packed = server.call("HGET", server.namespace.written, write)
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
    server = get_server(options.connection)
    names = set(decision)
    retention = options.staging_retention
    lifetime = retention if is_named else min(retention, _UNNAMED_WRITE_RETENTION_SECONDS)
    while True:
        decided = server.rsmq.run(
            decide_write(server.namespace, write, batch, decision, lifetime=retention)
        )
        if decided is None:
            raise _make_batch_lost(write, batch, "Nothing of it was published: run the write again")
        number, parts_by_name = decided
        if parts_by_name is None:
            break
        names.update(parts_by_name)
        for name, parts in parts_by_name.items():
            keys = server.namespace.queue(name)
            for part in parts:
                operation = publish_staged(keys, part, realtime=options.realtime)
                if server.rsmq.run(operation) is None:
                    raise _make_batch_lost(write, number, "Some of it was published")
        server.rsmq.run(finish_write(server.namespace, write, number, lifetime=lifetime))
        if number >= batch:
            break
    if number > batch:
        raise make_checkpoint_set_back(write, batch, number)
    for name in names:
        delete_unused_parts(server, server.namespace.queue(name), write, batch)


def _make_batch_lost(write: str, batch: int, remedy: str) -> BatchLost:
    return BatchLost(
        f"Not all that was staged for batch {batch} of write {write} is in Redis: a queue was "
        "purged or deleted, Redis lost data, or stagingRetention is over",
        value=write,
        hint=f"{remedy}.",
    )


def delete_unused_parts(server: SparkServer, keys: QueueKeys, write: str, batch: int) -> None:
    """Delete the staged parts of a write up to a batch, and the expired parts of all writes."""
    now_ms = server.now_ms()
    unused = []
    for name in server.call("HKEYS", keys.staged):
        part_write, part_batch, attempt, _ = name.decode().split(":")
        is_own = part_write == write and int(part_batch) <= batch
        if is_own or int(attempt.partition("-")[0]) < now_ms:
            unused.append(name)
    delete_parts(server, keys, unused)


def delete_parts(
    server: SparkServer, keys: QueueKeys, parts: Sequence[str] | Sequence[bytes]
) -> None:
    """Delete staged parts of a queue by their names."""
    for begin in range(0, len(parts), 1000):
        server.call("HDEL", keys.staged, *parts[begin : begin + 1000])
