"""
The queues of a stream, which a pattern may find while the stream runs, and their backlog; and the
entry by which others see that the stream reads them.

An idle stream waits for messages over many short polls. Spark polls the sources of a query one
after another, so a poll must not block the others. The watcher of each server reports changes of
the queues on its connection: while nothing has changed, a poll needs no command.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import RedisError

from rsmq.errors import QueueNotFound, RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.figures.operations import HiddenCounts, sample_hidden
from rsmq.history.call_operations import record_calls
from rsmq.history.call_records import CallCounts, bucket_of
from rsmq.operations.plain import parse_fields
from rsmq.spark.connections import SparkQueue, SparkServer, make_queue_not_found
from rsmq.spark.stream.records import StreamIdentity
from rsmq.waiting.schedule import Waiter
from rsmq.waiting.threads import Watcher
from rsmq.wire.names import decode_name
from rsmq.wire.streams import ALIVE_MS, MAX_STREAMS, StreamInfo, pack_stream, parse_streams

log = get_logger(__name__)

#: The name of the task under which the history has the messages of streams; that of a consumer
#: group has the name of the group after it.
STREAM_TASK = "Spark stream"
#: How long the list of a stream's queues is reused before they are listed again.
_LIST_SECONDS = 10.0
#: How long the backlog of each queue is reported without reading it again, while no batch is
#: received: reading one queue takes five commands.
_BACKLOG_SECONDS_PER_QUEUE = 4.0


class StreamQueues:
    """
    The queues of a stream in each namespace, without its own dead-letter queue.

    Whenever they were listed, ``note_listed`` is called with them.
    """

    def __init__(
        self, stream: StreamIdentity, note_listed: Callable[[list[SparkQueue]], None]
    ) -> None:
        self._stream = stream
        self._note_listed = note_listed
        self._is_complete = False
        self._queues: list[SparkQueue] = []
        self._listed_at = float("-inf")

    def get(self) -> list[SparkQueue]:
        """
        Return the queues. Lists them again after 10 seconds, if others may exist then.

        Those are queues of a pattern; or with ``failOnDataLoss=false``, queues that the options
        name, and without which the stream continues while they do not exist.
        """
        if self._is_complete or time.monotonic() - self._listed_at <= _LIST_SECONDS:
            return self._queues
        stream = self._stream
        source, may_lack = stream.source, not stream.options.fail_on_data_loss
        dead_letters = stream.options.dead_letters
        queues = [
            SparkQueue(server, keys)
            for server in stream.servers
            for keys in server.find_queues(source, may_lack=may_lack)
            if dead_letters is None or keys.name != dead_letters.queue
        ]
        self._note_listed(queues)
        named = {each.make_label(name) for each in stream.servers for name in source.queues}
        missing = named - {queue.label for queue in queues}
        if self._listed_at == float("-inf"):
            for label in sorted(missing):
                log.warning("Queue %s does not exist. The query starts without it.", label)
        self._is_complete = source.pattern is None and not missing
        self._queues, self._listed_at = queues, time.monotonic()
        return self._queues

    @property
    def listed(self) -> list[SparkQueue]:
        """The queues that were listed last; reads nothing."""
        return self._queues

    def remove(self, queue: SparkQueue) -> None:
        """
        Leave a deleted queue out from now on.

        Raises:
            QueueNotFound: the options name the queue, and ``failOnDataLoss`` is true.
        """
        if self._stream.source.pattern is None:
            if self._stream.options.fail_on_data_loss:
                raise make_queue_not_found(queue.keys.name, queue.server.namespace.name)
            log.warning("Queue %s was deleted. The query continues without it.", queue.label)
            self._is_complete = False
        self._queues = [each for each in self._queues if each != queue]

    def have_visible(self, latest_ms: int | None) -> bool:
        """Return whether messages became visible until a Unix time in ms, or until now."""
        for queue in self.get():
            until = latest_ms or queue.server.now_ms()
            if queue.server.call("ZCOUNT", queue.keys.zset, "-inf", until):
                return True
        return False


class StreamEntry:
    """
    The entry of a stream in each namespace, by which others see it, also while it is idle; and its
    figures in the history of its queues, as those of a task.

    Its errors are logged only: a stream does not need it.

    Attributes:
        received: how many messages of each queue this process has received.
    """

    def __init__(self, stream: StreamIdentity, queues: StreamQueues) -> None:
        self._stream = stream
        self._queues = queues
        self.received: Counter[SparkQueue] = Counter()
        self._written: Counter[SparkQueue] = Counter()
        self._lock = threading.Lock()
        self._done: dict[SparkQueue, CallCounts] = {}

    def count_done(self, queue: SparkQueue, messages: int, seconds: float) -> None:
        """Count the messages of a queue in a batch that is done, and the time of the batch."""
        if messages:
            counts = CallCounts(messages, durations={bucket_of(seconds): messages})
            with self._lock:
                self._done.setdefault(queue, CallCounts()).add(counts)

    def write(self) -> None:
        """Write the entries and figures, and delete entries of streams that ended without it."""
        self._record_done()
        received = Counter(self.received)
        for server in self._stream.servers:
            counts = {
                queue.keys.name: received[queue] - self._written[queue]
                for queue in self._queues.listed
                if queue.server is server
            }
            try:
                self._write(server, counts)
            except (RedisError, RSMQError) as error:  # no right, memory is full, or no answer
                log.info("The entry of the stream was not written: %s", error)
        self._written = received

    def _write(self, server: SparkServer, counts: dict[str, int]) -> None:
        key, query, now_ms = server.namespace.streams, self._stream.query, server.now_ms()
        entries = server.call("HGETALL", key, parse=parse_fields)
        others = parse_streams(entries, now_ms)
        ended = [each for each in entries if decode_name(each) not in others]
        if ended:
            server.call("HDEL", key, *ended)
        if query in others or len(others) < MAX_STREAMS:
            entry = pack_stream(StreamInfo(self._stream.name, now_ms, counts))
            server.call("HSET", key, query, entry)
            server.call("PEXPIRE", key, ALIVE_MS)

    def _record_done(self) -> None:
        """Record what was counted; if that fails, it is lost, as are the figures of workers."""
        with self._lock:
            done, self._done = self._done, {}
        task = f"{STREAM_TASK} {self._stream.name}" if self._stream.is_named else STREAM_TASK
        for queue, counts in done.items():
            minute = int(time.time() // 60)
            try:
                queue.server.rsmq.run(record_calls(queue.keys, minute, [(task, counts.pack())]))
            except (RedisError, RSMQError) as error:
                log.info("%s: the figures of the stream were not recorded: %s", queue.label, error)

    def delete(self) -> None:
        """Write the last figures and delete the entries, when the stream ends."""
        self._record_done()
        for server in self._stream.servers:
            try:
                server.call("HDEL", server.namespace.streams, self._stream.query)
            except (RedisError, RSMQError) as error:  # others see that it is not written any more
                log.info("The entry of the stream was not deleted: %s", error)


@dataclass(slots=True)
class Backlog:
    """
    The messages of a stream's queues at one moment.

    Attributes:
        recent_until: the time of ``time.monotonic`` from which it is to be read again.
        queues: by label, how many messages of a queue are visible, hidden, and of the hidden ones
            held back, or waiting for a retry by a worker; of more than 400 hidden ones, the last
            two are estimates.
        oldest_age: seconds since the first visible message of any queue was sent; None if there is
            none, or if its id does not have the time.
    """

    recent_until: float
    queues: dict[str, dict[str, int]] = field(default_factory=dict)
    oldest_age: float | None = None

    @property
    def visible(self) -> int:
        """How many messages are visible: the stream could receive them now."""
        return sum(counts["visible"] for counts in self.queues.values())

    @property
    def lag(self) -> int:
        """How many messages are visible, or wait for others of their group."""
        return self.visible + sum(counts["held_back"] for counts in self.queues.values())

    def describe(self) -> dict[str, Any]:
        """Return the values for the progress of a query."""
        return {
            "backlog": self.queues,
            "lag": self.lag,
            "oldestAgeSeconds": None if self.oldest_age is None else round(self.oldest_age, 3),
        }


def read_backlog(queues: Sequence[SparkQueue]) -> Backlog:
    """Return the backlog of queues; queues that were deleted are left out."""
    backlog = Backlog(time.monotonic() + _BACKLOG_SECONDS_PER_QUEUE * max(1, len(queues)))
    for queue in queues:
        server, name = queue.server, queue.keys.name
        try:
            attributes = server.rsmq.get_queue_attributes(name)
            hidden = HiddenCounts()
            if attributes.hidden_messages:
                hidden = server.rsmq.run(sample_hidden(queue.keys))
            backlog.queues[queue.label] = {
                "visible": attributes.visible_messages,
                "hidden": attributes.hidden_messages,
                "held_back": hidden.held_back,
                "retrying": hidden.retrying,
            }
            first = server.rsmq.peek_messages(name, 0, 1) if attributes.visible_messages else []
            for message in first:
                if message.sent_ms is not None:
                    age = max(0.0, (server.now_ms() - message.sent_ms) / 1000)
                    backlog.oldest_age = max(age, backlog.oldest_age or 0.0)
        except QueueNotFound:
            continue
    return backlog


#: The longest time that a poll blocks the other sources of a query.
MAX_POLL_SECONDS = 0.05


class IdleWait:
    """A wait for messages in queues that were empty when it began."""

    def __init__(self, poll_seconds: float) -> None:
        self._poll_seconds = min(poll_seconds, MAX_POLL_SECONDS)
        self._awake = threading.Event()
        self._waiters: dict[Watcher, Waiter] = {}

    def may_have_messages(self, queues: Iterable[SparkQueue]) -> bool:
        """
        Return whether the queues may have messages; wait for a change for a moment.

        True before the first empty receive, and for other queues than those of that receive.
        """
        if not self._waiters:
            return True
        if _group(queues) != {watcher: waiter.queues for watcher, waiter in self._waiters.items()}:
            self.end()
            return True
        return self._awake.wait(self._poll_seconds)

    def note_empty(self, queues: Iterable[SparkQueue]) -> None:
        """Begin to wait, or continue to, after a receive from the queues returned no message."""
        self._awake.clear()
        for waiter in self._waiters.values():
            waiter.empty_receives += waiter.is_awake
        if not self._waiters:
            self._waiters = {
                watcher: Waiter(keys, self._awake.set) for watcher, keys in _group(queues).items()
            }
        for watcher, waiter in self._waiters.items():
            watcher.add(waiter)

    def end(self, *, has_received: bool = False) -> None:
        """End the wait, also because a receive returned messages; the next poll receives."""
        waiters, self._waiters = self._waiters, {}
        for watcher, waiter in waiters.items():
            if has_received and waiter.is_awake:
                watcher.note_receive(waiter)
            else:
                watcher.remove(waiter)


def _group(queues: Iterable[SparkQueue]) -> dict[Watcher, tuple[bytes, ...]]:
    """Return the sorted sets of queues by the watcher of their server."""
    groups: dict[Watcher, list[bytes]] = {}
    for queue in queues:
        groups.setdefault(queue.server.rsmq.watcher, []).append(queue.keys.zset)
    return {watcher: tuple(keys) for watcher, keys in groups.items()}
