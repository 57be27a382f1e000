"""
What Rqueue (Java) has in Redis, written as it writes it: of its versions 3 and 4, layouts 1 and 2.

There is no Java here. The layouts, names and fields are those of its sources at version 4.0.0 (the
message of version 3 has its fields in another order); each method leaves the keys as Rqueue leaves
them after what the method is called. Rqueue has no namespace: ``rqueue`` of conftest.py removes all
of it.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass

PREFIX = "__rq::"
_MESSAGE = "com.github.sonus21.rqueue.core.RqueueMessage"
_DB = "com.github.sonus21.rqueue.models.db."

#: The fields of a message as Jackson 2 (Rqueue 3) and Jackson 3 (Rqueue 4) order them.
ORDERS = {
    3: (
        "failureCount", "id", "queueName", "message", "retryCount", "queuedTime", "processAt",
        "reEnqueuedAt", "sourceQueueFailureCount", "sourceQueueName", "period",
    ),
    4: (
        "failureCount", "id", "message", "period", "processAt", "queueName", "queuedTime",
        "reEnqueuedAt", "retryCount", "sourceQueueFailureCount", "sourceQueueName",
    ),
}  # fmt: skip


def compact(value):
    """JSON as Jackson writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def converted(body, java_class="java.lang.String"):
    """A body as Rqueue's default converter has it, which wraps texts too."""
    return compact({"msg": compact(body), "name": java_class})


@dataclass(frozen=True)
class Message:
    """
    A message as it stands somewhere.

    Attributes:
        fields: what Rqueue knows of it.
        raw: its bytes, by which Rqueue knows it again.
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
        version: of the layout of keys, 2 or the older 1.
        tagged: whether queues' keys have hash tags, as they have unless ``rqueue.cluster.mode`` is
            switched off; layout 1 has none.
        release: of Rqueue, 3 or 4: the order of a message's fields.
    """

    def __init__(self, raw, *, version=2, tagged=True, release=4):
        self.raw = raw
        self.version = version
        self.tagged = tagged
        self.release = release
        self._nanos = 86_400_000_000_000  # since the machine began, which is not a date
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
        if self.version == 1:
            return old + queue
        tagged = self.tagged and "{" not in queue
        return PREFIX + kind + (f"{{{queue}}}" if tagged else queue)

    def metadata(self, queue, id):
        return f"{PREFIX}m-mdata::{queue}::{id}"

    # What happens to queues.

    def now_ms(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def configure(self, queue, *, dead_letter_queue=None, dead_letter_listener=False, **values):
        """A queue's listener has started."""
        now = self.now_ms()
        config = {
            "@class": f"{_DB}QueueConfig",
            "id": f"{PREFIX}q-config::{queue}",
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
            "createdOn": now,
            "updatedOn": now,
        }  # fmt: skip
        if dead_letter_queue:
            letters = {
                "@class": f"{_DB}DeadLetterQueue",
                "name": dead_letter_queue,
                "consumerEnabled": dead_letter_listener,
            }
            config["deadLetterQueuesV2"] = ["java.util.LinkedList", [letters]]
        config |= values
        if self.release == 4:
            config = {"@class": config.pop("@class"), **dict(sorted(config.items()))}
        self.raw.set(config["id"], compact(config))
        if self.release == 3:
            self.raw.sadd(f"{PREFIX}queues", queue)
        return config

    def prioritize(self, queue, **levels):
        """A listener with priorities has started: each level is a queue; their names."""
        given = {"@class": "java.util.HashMap", **levels}
        self.configure(queue, priority=given, priorityGroup=queue)
        names = [f"{queue}_{level}" for level in levels]
        for name in names:
            self.configure(name, systemGenerated=True, priorityGroup=queue)
        return names

    def collect(self, queue, message):
        """The dashboard has statistics, a job and a worker of a queue: nothing to move."""
        job, worker = uuid.uuid4(), uuid.uuid4()
        self.raw.set(
            f"{PREFIX}q-stat::{queue}",
            compact({"@class": f"{_DB}QueueStatistics", "id": f"{PREFIX}q-stat::{queue}"}),
        )
        self.raw.set(f"{PREFIX}job::{job}", compact({"@class": f"{_DB}RqueueJob"}), ex=1800)
        self.raw.rpush(f"{PREFIX}jobs::{message.id}", f"{PREFIX}job::{job}")
        self.raw.set(f"{PREFIX}worker::{worker}", compact({"id": str(worker)}), ex=300)
        self.raw.hset(f"{PREFIX}q-pollers::{{{queue}}}", str(worker), compact({"host": "h"}))
        self.raw.set(f"{PREFIX}lock::{message.id}", str(worker), ex=60)

    # What happens to messages.

    def message(self, queue, message, **fields):
        """A message that nobody has put anywhere."""
        self._nanos += 1_000_000
        known = {
            "failureCount": 0, "id": str(uuid.uuid4()), "queueName": queue, "message": message,
            "queuedTime": self._nanos, "processAt": self.now_ms(), "sourceQueueFailureCount": 0,
            "period": 0, **fields,
        }  # fmt: skip
        return self._stored(known)

    def _stored(self, fields):
        ordered = {name: fields[name] for name in ORDERS[self.release] if name in fields}
        raw = compact({"@class": _MESSAGE, **ordered}).encode()
        return Message(ordered, raw)

    def note(self, message, status="ENQUEUED", *, queue=None, ttl=7 * 86400, **values):
        """Its metadata, of which the latest state of the message is a part."""
        name = queue or message.fields["queueName"]
        key = self.metadata(name, message.id)
        known = {
            "@class": f"{_DB}MessageMetadata",
            "id": key,
            "totalExecutionTime": 0,
            "deleted": False,
            "rqueueMessage": json.loads(message.raw),
            "status": status,
            "updatedOn": self.now_ms(),
            **values,
        }
        self.raw.set(key, compact(known), ex=ttl)

    def enqueue(self, queue, message, **fields):
        """Enqueued, to be processed at once."""
        made = self.message(queue, message, **fields)
        self.raw.rpush(self.ready(queue), made.raw)
        self.note(made)
        return made

    def enqueue_in(self, queue, message, ms, **fields):
        """Enqueued, to be processed in so many ms."""
        made = self.message(queue, message, processAt=self.now_ms() + ms, **fields)
        self.raw.zadd(self.scheduled(queue), {made.raw: made.fields["processAt"]})
        self.note(made)
        return made

    def enqueue_periodic(self, queue, message, period_ms):
        """Enqueued, to be processed every so many ms; it has no queuedTime."""
        at = self.now_ms() + period_ms
        made = self.message(queue, message, period=period_ms, processAt=at, queuedTime=0)
        self.raw.zadd(self.scheduled(queue), {made.raw: at})
        key = f"{self.ready(queue)}::{made.id}::sch::{at}"
        self.raw.set(key, 1, ex=max(1, 2 * period_ms // 1000))
        self.note(made)
        return made

    def receive(self, queue, *, visibility_ms=900_000):
        """The first of those that are ready is being processed."""
        raw = self.raw.lpop(self.ready(queue))
        self.raw.zadd(self.processing(queue), {raw: self.now_ms() + visibility_ms})
        received = Message(self._fields(raw), raw)
        self.note(received, "PROCESSING")
        return received

    def fail(self, received, *, failures=1, delay_ms=5000):
        """Processing it has failed: it is tried again later."""
        queue = received.fields["queueName"]
        now = self.now_ms()
        again = self._stored({**received.fields, "failureCount": failures, "reEnqueuedAt": now})
        self.raw.zrem(self.processing(queue), received.raw)
        self.raw.zadd(self.scheduled(queue), {again.raw: now + delay_ms})
        self.note(again, "FAILED")
        return again

    def bury(self, received, dead_letter_queue, *, failures=3, listener=False):
        """
        Processing it has failed too often: it is a dead letter.

        Without a listener they are a list of just that name, newest first. With one they are
        scheduled there, and that at the delay itself, in 1970.
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
        else:
            self.raw.lpush(dead_letter_queue, dead.raw)
        self.raw.zrem(self.processing(queue), received.raw)
        self.note(dead, "MOVED_TO_DLQ", queue=queue)
        return dead

    def succeed(self, received):
        """Processed: only metadata is left, for half an hour, and an entry among the completed."""
        queue = received.fields["queueName"]
        self.raw.zrem(self.processing(queue), received.raw)
        self.note(received, "SUCCESSFUL", ttl=1800)
        key = self.metadata(queue, received.id)
        self.raw.zadd(self.completed(queue), {key: self.now_ms() + 1_800_000})

    def delete(self, message):
        """Deleted by hand: it stays where it is, and only its metadata says so."""
        now = self.now_ms()
        self.note(message, "DELETED", ttl=1800, deleted=True, deletedOn=now)

    def supersede(self, message, text):
        """Enqueued again under the same id: the first one stays, and its queuedTime is old."""
        fields = message.fields
        return self.enqueue(fields["queueName"], text, id=fields["id"])

    def _fields(self, raw):
        fields = json.loads(raw)
        del fields["@class"]
        return fields


@dataclass(frozen=True)
class Whole:
    """
    One queue with a message of each kind.

    Attributes:
        queue: its name; ``dead_letter_queue`` and ``priorities`` are those of others.
        ready: to be processed at once, in order; of the last the body is not a wrapped one.
        urgent: in the first of the priorities.
        failed: has failed twice and waits for its next attempt.
        later: is due in an hour.
        periodic: comes back every minute.
        processing: is being processed; had failed once.
        dead: dead letters, the oldest first.
        deleted: stands among those that are ready, and does not count.
        superseded: stands there too; ``ready`` has the one that counts.
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


def whole(rqueue, queue, *, listener=False):
    """Write one of everything, with the given queue; ``listener`` is one of dead letters."""
    dead_letter_queue = f"{queue}-dead"
    options = {"dead_letter_queue": dead_letter_queue, "dead_letter_listener": listener}
    priorities = rqueue.prioritize(queue, critical=10, low=1)
    rqueue.configure(queue, **options)
    if listener:
        rqueue.configure(dead_letter_queue)

    rqueue.enqueue(queue, converted("bad 1"))
    rqueue.enqueue(queue, converted("bad 2"))
    dead = [
        rqueue.bury(rqueue.receive(queue), dead_letter_queue, listener=listener) for _ in range(2)
    ]
    rqueue.enqueue(queue, converted({"n": 1}, "com.example.Order"))
    failed = rqueue.fail(rqueue.receive(queue), failures=2, delay_ms=60_000)
    rqueue.enqueue(queue, converted("slow"), failureCount=1)
    processing = rqueue.receive(queue)
    rqueue.enqueue(queue, converted("done"))
    rqueue.succeed(rqueue.receive(queue))

    first = rqueue.enqueue(queue, converted("grüße \N{GRINNING FACE}"))
    deleted = rqueue.enqueue(queue, converted("deleted"))
    rqueue.delete(deleted)
    superseded = rqueue.enqueue(queue, converted("old"))
    last = rqueue.supersede(superseded, "new, and no JSON")
    rqueue.collect(queue, first)
    return Whole(
        queue=queue,
        dead_letter_queue=dead_letter_queue,
        priorities=priorities,
        ready=[first, last],
        urgent=rqueue.enqueue(priorities[0], converted("urgent"), retryCount=5),
        failed=failed,
        later=rqueue.enqueue_in(queue, converted("later"), 3_600_000),
        periodic=rqueue.enqueue_periodic(queue, converted("tick"), 60_000),
        processing=processing,
        dead=dead,
        deleted=deleted,
        superseded=superseded,
    )
