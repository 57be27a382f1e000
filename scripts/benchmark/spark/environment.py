"""The server, the Spark session, and the runs that the cases measure."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import redis

from rsmq import BYTES, RSMQ
from rsmq.spark import pipelines

from .floors import MemorySource
from .processor_time import ProcessorClock

BODY_BYTES = 200
#: Commands that take less time are not in the log of slow commands.
SLOW_MS = 10.0
_SLOW_LOG_ENTRIES = 1024
_MICROSECONDS_PER_MS = 1000
#: A queue for a small job; with so many messages it has a task for each processor.
_SMALL_QUEUE = "small"
_SMALL_QUEUE_MESSAGES = 5000
#: The queue into which small jobs write.
_SMALL_TARGET = "small-target"
#: The queue into which messages with groups are moved, and how many groups they have.
_MOVED = "moved"
GROUPS = 10_000


class Environment:
    """
    A server, a Spark session, and the runs.

    Attributes:
        messages: the number of messages of a read and of a write.
        grouped: the number of messages with groups.
        folder: a folder for checkpoints.
        raw: a redis-py client.
        rsmq: a client of the library.
        clock: the processor time of all processes.
        spark: the session.
        options: the options of the connection in Spark.
        progress: the reports of the progress of the last stream.
    """

    def __init__(self, url: str, messages: int, folder: Path, *, grouped: int = 0) -> None:
        self.messages = messages
        self.grouped = grouped
        self.folder = folder
        self.raw: Any = redis.Redis.from_url(url, protocol=2)
        self.raw.config_set("slowlog-log-slower-than", round(SLOW_MS * _MICROSECONDS_PER_MS))
        self.raw.config_set("slowlog-max-len", _SLOW_LOG_ENTRIES)
        self.rsmq = RSMQ.from_url(url, codec=BYTES)
        self.rsmq.create_queue(_SMALL_QUEUE)
        self.rsmq.create_queue(_SMALL_TARGET)
        self.rsmq.create_queue(_MOVED)
        self.rsmq.send_messages(_SMALL_QUEUE, [b"x"] * _SMALL_QUEUE_MESSAGES)
        self.clock = ProcessorClock(self.raw)
        self.options = {"url": url}
        self.spark = pipelines.session("bench", "local[2,4]")
        self.spark.dataSource.register(MemorySource)
        self.progress: list[dict[str, Any]] = []
        most = max(messages, grouped)
        self._bodies = [b"%08d" % n + b"x" * (BODY_BYTES - 8) for n in range(most)]
        self._filled: tuple[int, float, bool] | None = None
        self._runs = 0

    def fill(self, messages: int, received: float = 0, *, has_groups: bool = False) -> None:
        """
        Fill ``q`` with exactly this many messages, unless the last runs have left them there.

        Args:
            messages: the number of messages.
            received: the share of them that are received, and stay in flight.
            has_groups: whether each has one of 10,000 groups, in turn.
        """
        if self._filled == (messages, received, has_groups):
            return
        self.rsmq.create_queue("q", exist_ok=True)
        self.rsmq.purge_queue("q")
        for begin in range(0, messages, 1000):
            bodies = self._bodies[begin : min(begin + 1000, messages)]
            self.rsmq.send_messages("q", bodies, groups=_groups_of(bodies) if has_groups else None)
        remaining = round(messages * received)
        while remaining:
            remaining -= len(self.rsmq.receive_messages("q", min(1000, remaining), vt=3600))
        self._filled = messages, received, has_groups

    def wake_workers(self) -> None:
        """
        Run small jobs of each kind: Spark ends Python workers that have been idle for a minute.

        Each new one imports its modules again, which takes half a second of processor time.
        """
        reader = self.spark.read.format("rsmq").options(**self.options, queue=_SMALL_QUEUE)
        reader.load().write.format("noop").mode("overwrite").save()
        frame = self._make_frame(_SMALL_QUEUE_MESSAGES)
        for delivery in ("at-least-once", "exactly-once"):
            options = {**self.options, "queue": _SMALL_TARGET, "delivery": delivery}
            frame.write.format("rsmq").options(**options).mode("append").save()
        frame.write.format("bench_memory").mode("append").save()
        self.rsmq.purge_queue(_SMALL_TARGET)

    def plain_read(self) -> int:
        """Read all messages with both counters, which the frame has too; return their number."""
        members = self.raw.execute_command("ZRANGE", "rsmq:q", 0, -1, "WITHSCORES")
        ids, count = members[::2], 0
        for begin in range(0, len(ids), 2000):
            part = ids[begin : begin + 2000]
            fields = [name for id in part for name in (id, id + b":rc", id + b":fr")]
            count += len(self.raw.hmget("rsmq:q:Q", fields)) // 3
        return count

    def spark_read(self, **options: Any) -> int:
        """Read the same messages into a frame whose rows are discarded."""
        frame = self.spark.read.format("rsmq").options(**self.options, queue="q", **options).load()
        frame.write.format("noop").mode("overwrite").save()
        return self.messages

    def floor_read(self) -> int:
        """Read as many messages from memory."""
        frame = self.spark.read.format("bench_memory").option("messages", self.messages).load()
        frame.write.format("noop").mode("overwrite").save()
        return self.messages

    def plain_write(self) -> int:
        """Send all messages with send_messages, a thousand per call."""
        self._filled = None
        for begin in range(0, self.messages, 1000):
            self.rsmq.send_messages("q", self._bodies[begin : begin + 1000])
        return self.messages

    def spark_write(self, delivery: str) -> int:
        """Write a frame of as many messages, generated in Spark."""
        self._filled = None
        options = {**self.options, "queue": "q", "delivery": delivery}
        self._make_frame(self.messages).write.format("rsmq").options(**options).mode(
            "append"
        ).save()
        return self.messages

    def floor_write(self) -> int:
        """Write the same frame to a sink in Python that discards the rows."""
        self._make_frame(self.messages).write.format("bench_memory").mode("append").save()
        return self.messages

    def _make_frame(self, messages: int) -> Any:
        return self.spark.range(0, messages, 1, 4).selectExpr(
            f"rpad(cast(id AS string), {BODY_BYTES}, 'x') AS message"
        )

    def plain_drain(self) -> int:
        """Receive and delete all messages, a thousand per call."""
        self._filled = None
        drained = 0
        while received := self.rsmq.receive_messages("q", 1000, vt=600):
            drained += len(self.rsmq.delete_messages(received))
        return drained

    def spark_stream(self, batch: int) -> int:
        """Run all messages through a query, batch by batch."""
        self._filled = None
        messages = self.rsmq.get_queue_attributes("q").messages
        self._run_stream(
            self.spark.readStream.format("rsmq").options(
                **self.options, queue="q", maxMessagesPerTrigger=batch
            )
        )
        if self.rsmq.get_queue_attributes("q").messages:
            raise SystemExit("The stream has left messages.")
        return messages

    def plain_move(self) -> int:
        """Move all messages with their groups to another queue, a thousand per call."""
        self._filled = None
        while received := self.rsmq.receive_messages("q", 1000, vt=600, extend_groups=True):
            bodies = [each.body for each in received]
            self.rsmq.send_messages(_MOVED, bodies, groups=_groups_of(bodies))
            self.rsmq.delete_messages(received)
        return self._check_moved()

    def spark_move(self) -> int:
        """Move all messages with their groups to another queue, each exactly once."""
        self._filled = None
        options = {**self.options, "queue": "q", "groups": "together", "columns": "message,group"}
        sink = {**self.options, "queue": _MOVED, "delivery": "exactly-once"}
        frame = self.spark.readStream.format("rsmq").options(**options).load()
        self._run_query(frame.writeStream.format("rsmq").options(**sink))
        return self._check_moved()

    def _check_moved(self) -> int:
        left, moved = (self.rsmq.get_queue_attributes(name).messages for name in ("q", _MOVED))
        if left or moved != self.grouped:
            raise SystemExit(f"Of {self.grouped} messages {left} are left, and {moved} were moved.")
        self.rsmq.purge_queue(_MOVED)
        return moved

    def floor_stream(self, batch: int, messages: int) -> int:
        """Run as many messages from memory through a query."""
        self._run_stream(
            self.spark.readStream.format("bench_memory").options(
                messages=messages, maxMessagesPerTrigger=batch
            )
        )
        return messages

    def _run_stream(self, reader: Any) -> None:
        self._run_query(reader.load().writeStream.format("noop"))

    def _run_query(self, writer: Any) -> None:
        query = (
            writer.option("checkpointLocation", self.make_checkpoint())
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        self.progress = [each for each in query.recentProgress if each["numInputRows"]]

    def make_checkpoint(self) -> str:
        """Return the path of a new checkpoint."""
        self._runs += 1
        return str(self.folder / f"checkpoint-{self._runs}")

    def measure_idle_commands(self, seconds: float) -> float:
        """
        Return the Redis commands per second, counted by Redis, of a query that waits for messages.
        """
        self.fill(0)
        frame = self.spark.readStream.format("rsmq").options(**self.options, queue="q").load()
        writer = frame.writeStream.format("noop")
        query = writer.option("checkpointLocation", self.make_checkpoint()).start()
        time.sleep(min(10, 5 * seconds))
        before = self._count_commands()
        time.sleep(seconds)
        rate = (self._count_commands() - before) / seconds
        query.stop()
        return rate

    def _count_commands(self) -> int:
        return int(self.raw.info("stats")["total_commands_processed"])

    def reset_slow_commands(self) -> None:
        """Forget the slow commands so far."""
        self.raw.slowlog_reset()

    def find_longest_command(self) -> tuple[float, str] | None:
        """Return the longest command since the reset, in ms, and its name; None if none is slow."""
        entries = self.raw.slowlog_get(_SLOW_LOG_ENTRIES)
        if not entries:
            return None
        longest = max(entries, key=lambda entry: entry["duration"])
        name = longest["command"].split()[0].decode()
        return longest["duration"] / _MICROSECONDS_PER_MS, name


def _groups_of(bodies: list[bytes]) -> list[str]:
    return [f"g{int(body[:8]) % GROUPS}" for body in bodies]
