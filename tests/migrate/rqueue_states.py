"""
The keys of Rqueue (Java) in Redis, written as Rqueue 2.0, 3 and 4 write them, in layouts 1 and 2.

No Java runs here. The layouts, names and fields are those of Rqueue's sources at version 4.0.0 (a
message of version 3 has its fields in another order), and for release 2 those of 2.0.1: fewer
fields, dead letters at the other end, metadata without the queue's name in its key. Each method
leaves the keys as Rqueue leaves them after the action that the method is named after. Rqueue has no
namespace: the fixture ``create_rqueue`` of conftest.py removes all of its keys.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass

PREFIX = "__rq::"
_MESSAGE = "com.github.sonus21.rqueue.core.RqueueMessage"
_DB = "com.github.sonus21.rqueue.models.db."

#: The fields of a message as Jackson 2 (Rqueue 2 and 3) and Jackson 3 (Rqueue 4) order them.
ORDERS = {
    2: (
        "id", "queueName", "message", "retryCount", "queuedTime", "processAt", "reEnqueuedAt",
        "failureCount",
    ),
    3: (
        "failureCount", "id", "queueName", "message", "retryCount", "queuedTime", "processAt",
        "reEnqueuedAt", "sourceQueueFailureCount", "sourceQueueName", "period",
    ),
    4: (
        "failureCount", "id", "message", "period", "processAt", "queueName", "queuedTime",
        "reEnqueuedAt", "retryCount", "sourceQueueFailureCount", "sourceQueueName",
    ),
}  # fmt: skip


def to_json(value):
    """Return JSON as Jackson writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def convert(body, java_class="java.lang.String"):
    """Return a body as Rqueue's default converter encodes it, which also wraps texts."""
    return to_json({"msg": to_json(body), "name": java_class})


@dataclass(frozen=True)
class Message:
    """
    A message as it is stored.

    Attributes:
        fields: its fields in Rqueue.
        raw: its bytes, by which Rqueue finds it again.
    """

    fields: dict
    raw: bytes

    @property
    def id(self):
        return self.fields["id"]


class Rqueue:
    """
    Rqueue on a Redis.

    Args:
        raw: the client.
        version: version of the key layout: 2, or the older 1.
        tagged: whether the keys of queues have hash tags. They have unless ``rqueue.cluster.mode``
            is switched off; layout 1 has none.
        release: release of Rqueue, 3 or 4, which decides the order of a message's fields; or 2 for
            2.0.x.
        prefix: the setting ``rqueue.key.prefix``.
        kinds: the settings ``rqueue.simple.queue.prefix`` and the like, by their default values.
    """

    def __init__(self, raw, *, version=2, tagged=True, release=4, prefix=PREFIX, kinds=()):
        self.raw = raw
        self.version = version
        self.tagged = tagged
        self.release = release
        self.prefix = prefix
        self._kinds = dict(kinds)
        self._parents = {}
        self._nanos = 86_400_000_000_000  # nanoseconds since the machine was started, not a date
        raw.set(f"{PREFIX}version", version)

    # Names of keys.

    def ready(self, queue):
        return self._key("queue::", "", queue)

    def scheduled(self, queue):
        return self._key("d-queue::", "rqueue-delay::", queue)

    def processing(self, queue):
        return self._key("p-queue::", "rqueue-processing::", queue)

    def completed(self, queue):
        return self._key("c-queue::", "rqueue-completed::", queue)

    def _key(self, kind, old, queue):
        if queue in self._parents:  # the keys of a priority are those of the queue and a suffix
            parent = self._parents[queue]
            return self._key(kind, old, parent) + queue.removeprefix(parent)
        if self.version == 1:
            return old + queue
        has_tag = self.tagged and "{" not in queue
        return self.prefix + self._kinds.get(kind, kind) + (f"{{{queue}}}" if has_tag else queue)

    def metadata(self, queue, id):
        """Return the key of metadata: its prefix is not a setting."""
        return f"{PREFIX}m-mdata::{id}" if self.release == 2 else f"{PREFIX}m-mdata::{queue}::{id}"

    # Events of queues.

    def now_ms(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def configure(self, queue, *, dead_letter_queue=None, dead_letter_listener=False, **values):
        """Write the keys as after the start of a queue's listener."""
        now_ms = self.now_ms()
        config = {
            "@class": f"{_DB}QueueConfig",
            "id": f"{self.prefix}q-config::{queue}",
            "name": queue,
            "queueName": self.ready(queue),
            "completedQueueName": self.completed(queue),
            "processingQueueName": self.processing(queue),
            "scheduledQueueName": self.scheduled(queue),
            "numRetry": 3 if dead_letter_queue else 2**31 - 1,
            "visibilityTimeout": 900_000,
            "paused": False,
            "concurrency": {
                "@class": "com.github.sonus21.rqueue.models.MinMax", "min": 1, "max": 1
            },
            "systemGenerated": False,
            "priority": {"@class": "java.util.HashMap"},
            "deleted": False,
            "createdOn": now_ms,
            "updatedOn": now_ms,
        }  # fmt: skip
        if dead_letter_queue:
            letters = {
                "@class": f"{_DB}DeadLetterQueue",
                "name": dead_letter_queue,
                "consumerEnabled": dead_letter_listener,
            }
            config["deadLetterQueuesV2"] = ["java.util.LinkedList", [letters]]
        if self.release == 2:
            config["delayedQueueName"] = config.pop("scheduledQueueName")
            for name in ("completedQueueName", "paused", "systemGenerated", "priority"):
                del config[name]
            if config.pop("deadLetterQueuesV2", None):
                config["deadLetterQueues"] = ["java.util.LinkedHashSet", [dead_letter_queue]]
        config |= values
        if self.release == 4:
            config = {"@class": config.pop("@class"), **dict(sorted(config.items()))}
        self.raw.set(config["id"], to_json(config))
        if self.release < 4:
            self.raw.sadd(f"{self.prefix}queues", queue)
        return config

    def prioritize(self, queue, **levels):
        """
        Write the keys as after the start of a listener with priorities; return the queue of each
        level.
        """
        levels_with_class = {"@class": "java.util.HashMap", **levels}
        self.configure(queue, priority=levels_with_class, priorityGroup=queue)
        names = [f"{queue}_{level}" for level in levels]
        for name in names:
            self._parents[name] = queue
            self.configure(name, systemGenerated=True, priorityGroup=queue)
        return names

    def write_dashboard_keys(self, queue, message):
        """Write statistics, a job and a worker of a queue for the dashboard: nothing to migrate."""
        job, worker = uuid.uuid4(), uuid.uuid4()
        self.raw.set(
            f"{self.prefix}q-stat::{queue}",
            to_json({"@class": f"{_DB}QueueStatistics", "id": f"{self.prefix}q-stat::{queue}"}),
        )
        self.raw.set(f"{self.prefix}job::{job}", to_json({"@class": f"{_DB}RqueueJob"}), ex=1800)
        self.raw.rpush(f"{self.prefix}jobs::{message.id}", f"{self.prefix}job::{job}")
        self.raw.set(f"{self.prefix}worker::{worker}", to_json({"id": str(worker)}), ex=300)
        self.raw.hset(f"{self.prefix}q-pollers::{{{queue}}}", str(worker), to_json({"host": "h"}))
        self.raw.set(f"{self.prefix}lock::{message.id}", str(worker), ex=60)

    # Events of messages.

    def message(self, queue, message, **fields):
        """Return a message that is not stored anywhere."""
        self._nanos += 1_000_000
        fields_with_defaults = {
            "failureCount": 0, "id": str(uuid.uuid4()), "queueName": queue, "message": message,
            "queuedTime": self._nanos, "processAt": self.now_ms(), "sourceQueueFailureCount": 0,
            "period": 0, **fields,
        }  # fmt: skip
        return self._stored(fields_with_defaults)

    def _stored(self, fields):
        ordered = {name: fields[name] for name in ORDERS[self.release] if name in fields}
        raw = to_json({"@class": _MESSAGE, **ordered}).encode()
        return Message(ordered, raw)

    def write_metadata(self, message, status="ENQUEUED", *, queue=None, ttl=7 * 86400, **values):
        """Write the metadata of a message, which contains the latest state of the message."""
        name = queue or message.fields["queueName"]
        key = self.metadata(name, message.id)
        metadata = {
            "@class": f"{_DB}MessageMetadata",
            "id": key,
            "totalExecutionTime": 0,
            "deleted": False,
            "rqueueMessage": json.loads(message.raw),
            "status": status,
            "updatedOn": self.now_ms(),
            **values,
        }
        if self.release == 2:
            for name in ("rqueueMessage", "status", "updatedOn"):
                del metadata[name]
            metadata["messageId"] = message.id
        self.raw.set(key, to_json(metadata), ex=ttl)

    def enqueue(self, queue, body, **fields):
        """Enqueue a message that is to be processed at once."""
        message = self.message(queue, body, **fields)
        self.raw.rpush(self.ready(queue), message.raw)
        self.write_metadata(message)
        return message

    def enqueue_in(self, queue, body, ms, **fields):
        """Enqueue a message that is to be processed in `ms` milliseconds."""
        message = self.message(queue, body, processAt=self.now_ms() + ms, **fields)
        self.raw.zadd(self.scheduled(queue), {message.raw: message.fields["processAt"]})
        self.write_metadata(message)
        return message

    def enqueue_periodic(self, queue, body, period_ms):
        """Enqueue a message that is to be processed every `period_ms`; it has no queuedTime."""
        due_ms = self.now_ms() + period_ms
        message = self.message(queue, body, period=period_ms, processAt=due_ms, queuedTime=0)
        self.raw.zadd(self.scheduled(queue), {message.raw: due_ms})
        key = f"{self.ready(queue)}::{message.id}::sch::{due_ms}"
        self.raw.set(key, 1, ex=max(1, 2 * period_ms // 1000))
        self.write_metadata(message)
        return message

    def receive(self, queue, *, visibility_ms=900_000):
        """Begin to process the first ready message."""
        raw = self.raw.lpop(self.ready(queue))
        self.raw.zadd(self.processing(queue), {raw: self.now_ms() + visibility_ms})
        received = Message(self._fields(raw), raw)
        self.write_metadata(received, "PROCESSING")
        return received

    def fail(self, received, *, failures=1, delay_ms=5000):
        """Let the processing of a message fail; it is scheduled for a retry."""
        queue = received.fields["queueName"]
        now = self.now_ms()
        failed = self._stored({**received.fields, "failureCount": failures, "reEnqueuedAt": now})
        self.raw.zrem(self.processing(queue), received.raw)
        self.raw.zadd(self.scheduled(queue), {failed.raw: now + delay_ms})
        self.write_metadata(failed, "FAILED")
        return failed

    def dead_letter(self, received, dead_letter_queue, *, failures=3, listener=False):
        """
        Dead-letter a message whose processing failed too often.

        Without a listener, dead letters are in a list of exactly that name, newest first, or with
        Rqueue 2.0 to 2.3 oldest first. With a listener they are scheduled in that queue, at a score
        that is the delay itself (in 1970).
        """
        queue, now = received.fields["queueName"], self.now_ms()
        fields = {**received.fields, "failureCount": failures, "reEnqueuedAt": now}
        if listener:
            fields |= {
                "queueName": dead_letter_queue,
                "failureCount": 0,
                "sourceQueueName": queue,
                "sourceQueueFailureCount": failures,
            }
        dead = self._stored(fields)
        if listener:
            self.raw.zadd(self.scheduled(dead_letter_queue), {dead.raw: 5000})
        elif self.release == 2:
            self.raw.rpush(dead_letter_queue, dead.raw)
        else:
            self.raw.lpush(dead_letter_queue, dead.raw)
        self.raw.zrem(self.processing(queue), received.raw)
        self.write_metadata(dead, "MOVED_TO_DLQ", queue=queue)
        return dead

    def succeed(self, received):
        """
        Finish the processing: only metadata remains, for half an hour, and an entry in `completed`.
        """
        queue = received.fields["queueName"]
        self.raw.zrem(self.processing(queue), received.raw)
        self.write_metadata(received, "SUCCESSFUL", ttl=1800)
        key = self.metadata(queue, received.id)
        self.raw.zadd(self.completed(queue), {key: self.now_ms() + 1_800_000})

    def delete(self, message):
        """Delete a message by hand: it stays where it is, and only its metadata is marked."""
        now = self.now_ms()
        self.write_metadata(message, "DELETED", ttl=1800, deleted=True, deletedOn=now)

    def supersede(self, message, text):
        """
        Enqueue a message again under the same id: the first one stays, with an old queuedTime.
        """
        fields = message.fields
        return self.enqueue(fields["queueName"], text, id=fields["id"])

    def _fields(self, raw):
        fields = json.loads(raw)
        del fields["@class"]
        return fields


@dataclass(frozen=True)
class FilledQueue:
    """
    One queue with a message of each kind.

    Attributes:
        queue: its name.
        dead_letter_queue: name of its dead-letter queue.
        priorities: names of the queues of its priorities.
        ready: messages to be processed at once, in order; the body of the last is not wrapped.
        urgent: a message in the queue of the first priority.
        failed: a message that has failed twice and waits for its next attempt.
        later: a message that is due in an hour.
        periodic: a message that is scheduled every minute.
        processing: a message that is being processed, and has failed once.
        dead: dead letters, the oldest first.
        deleted: a message in the list of ready ones that does not count.
        superseded: another such message; ``ready`` has the one that replaced it.
    """

    queue: str
    dead_letter_queue: str
    priorities: list[str]
    ready: list[Message]
    urgent: Message
    failed: Message
    later: Message
    periodic: Message
    processing: Message
    dead: list[Message]
    deleted: Message
    superseded: Message


def fill_queue(rqueue, queue, *, listener=False):
    """Write one message of each kind; `listener` is whether dead letters have a listener."""
    dead_letter_queue = f"{queue}-dead"
    options = {"dead_letter_queue": dead_letter_queue, "dead_letter_listener": listener}
    priorities = rqueue.prioritize(queue, critical=10, low=1)
    rqueue.configure(queue, **options)
    if listener:
        rqueue.configure(dead_letter_queue)

    rqueue.enqueue(queue, convert("bad 1"))
    rqueue.enqueue(queue, convert("bad 2"))
    dead = [
        rqueue.dead_letter(rqueue.receive(queue), dead_letter_queue, listener=listener)
        for _ in range(2)
    ]
    rqueue.enqueue(queue, convert({"n": 1}, "com.example.Order"))
    failed = rqueue.fail(rqueue.receive(queue), failures=2, delay_ms=60_000)
    rqueue.enqueue(queue, convert("slow"), failureCount=1)
    processing = rqueue.receive(queue)
    rqueue.enqueue(queue, convert("done"))
    rqueue.succeed(rqueue.receive(queue))

    first = rqueue.enqueue(queue, convert("grüße \N{GRINNING FACE}"))
    deleted = rqueue.enqueue(queue, convert("deleted"))
    rqueue.delete(deleted)
    superseded = rqueue.enqueue(queue, convert("old"))
    last = rqueue.supersede(superseded, "new, and no JSON")
    rqueue.write_dashboard_keys(queue, first)
    return FilledQueue(
        queue=queue,
        dead_letter_queue=dead_letter_queue,
        priorities=priorities,
        ready=[first, last],
        urgent=rqueue.enqueue(priorities[0], convert("urgent"), retryCount=5),
        failed=failed,
        later=rqueue.enqueue_in(queue, convert("later"), 3_600_000),
        periodic=rqueue.enqueue_periodic(queue, convert("tick"), 60_000),
        processing=processing,
        dead=dead,
        deleted=deleted,
        superseded=superseded,
    )
