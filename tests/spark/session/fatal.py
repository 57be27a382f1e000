"""The source and the sink with points at which the driver kills itself, once."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path

from rsmq import RSMQ
from rsmq.spark.source import RsmqDataSource
from rsmq.spark.stream.reader import StreamReader
from rsmq.spark.versions import HAS_START
from rsmq.spark.write.sink import StreamWriter

#: Environment variables: the point, the batch (from 1) at which it kills, the process group to
#: kill, and the file that is created when the point is reached.
POINT, BATCH, GROUP, MARK = "FATAL_POINT", "FATAL_BATCH", "FATAL_GROUP", "FATAL_MARK"

_ran = Counter()
_run = RSMQ.run


def reach(point, batch):
    """Kill the driver with all its processes, if this is the selected point."""
    if os.environ.get(POINT) != point or batch < int(os.environ[BATCH]):
        return
    Path(os.environ[MARK]).touch()
    os.killpg(int(os.environ[GROUP]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)  # a worker may be in another group


def run(self, operation):
    """Run an operation, with points between operations, while tasks run or not."""
    script = operation.script.name
    if script in ("acknowledge_leased", "publish_staged"):
        if script == "acknowledge_leased":
            batch = int(operation.args[1])
        else:
            batch = int(operation.args[0].split(b":")[1]) + 1
        before = _ran[script, batch]
        _ran[script, batch] += 1
        if script == "acknowledge_leased" and before == 1:
            reach("acknowledge", batch)
        elif script == "publish_staged" and before < 2:
            reach(("adopted", "publish")[before], batch)
    elif script == "lease_messages" and threading.current_thread().name == "rsmq-ahead":
        reach("ahead", int(operation.args[1]))
    elif script == "finish_write":
        reach("published", int(operation.args[1]) + 1)
    return _run(self, operation)


RSMQ.run = run


class FatalReader(StreamReader):
    def latestOffset(self, start, limit):
        reach("before claim", start["batch"] + 1)
        end = super().latestOffset(start, limit)
        if end != start:
            reach("after claim", end["batch"])
        return end

    def partitions(self, start, end):
        planned = super().partitions(start, end)
        reach("partitions", end["batch"])
        return planned

    def read(self, partition):
        for batch in super().read(partition):
            yield batch
            reach("read", partition.batch.number)


class FatalStreamWriter(StreamWriter):
    def write(self, iterator):
        written = super().write(iterator)
        reach("staged", written.batch + 1)
        return written

    def commit(self, messages, batchId):
        super().commit(messages, batchId)
        reach("committed", batchId + 1)


class FatalDataSource(RsmqDataSource):
    @classmethod
    def name(cls):
        return "fatal"

    def streamReader(self, schema):
        reader = super().streamReader(schema)
        if not HAS_START:
            return reader
        return FatalReader(reader.source, reader.options, schema)

    def streamWriter(self, schema, overwrite):
        writer = super().streamWriter(schema, overwrite)
        return FatalStreamWriter(writer._options, schema)
