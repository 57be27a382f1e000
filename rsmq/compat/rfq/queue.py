"""
``Queue``, rfq's class of all topics of a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rsmq import __version__
from rsmq.compat import rfq_topics as topics
from rsmq.compat.rfq.bodies import decode_body, encode_body
from rsmq.compat.rfq.connection import default_redis, open_client
from rsmq.compat.rfq.task import Task
from rsmq.errors import InvalidFormat, QueueNotFound
from rsmq.wire.keys import DEFAULT_NS


class Queue:
    """
    rfq's topics as RSMQ queues. Threads can share it.

    Attributes:
        r: the client that was handed in, or else the one that was made.
    """

    def __init__(
        self, redis: Any = None, *, ns: str = DEFAULT_NS, vt: float = topics.DAY_SECONDS
    ) -> None:
        """
        Connect. Nothing is sent to Redis.

        Args:
            redis: a ``Redis`` or ``RedisCluster`` of redis-py, or an ``RSMQ``, whose namespace
                and rule for names then hold. None connects to the host RFQ_REDIS_HOST, default
                localhost, at the port RFQ_REDIS_PORT, default 6379.
            ns: the namespace of the queues.
            vt: seconds after which a consumed message that is not done is visible again, 0 to
                9,999,999; the default is a day. In rfq it waits until it is harvested.

        Raises:
            InvalidFormat: redis is not such a client.
        """
        self.r = default_redis() if redis is None else redis
        self._rsmq = open_client(self.r, ns)
        self._vt = vt

    def version(self) -> tuple[str, str]:
        """Return the versions of this library and of Redis."""
        return __version__, topics.read_redis_version(self._rsmq)

    def publish(self, topic: str, message: Mapping[str, str], front: bool = False) -> str:  # noqa: FBT001, FBT002 - rfq's
        """
        Send a message to a topic, which is created if it is missing. Return its id.

        Args:
            topic: the topic.
            message: texts by name; at least one.
            front: True sends it to the front: it precedes all messages that are visible now.

        Raises:
            MessageNotString: the message is not a dict of texts, or is empty.
        """
        return self.publish_batch(topic, [message], front)[0]

    def publish_batch(
        self,
        topic: str,
        messages: Sequence[Mapping[str, str]],
        front: bool = False,  # noqa: FBT001, FBT002 - rfq's
    ) -> list[str]:
        """
        Send messages to a topic, all or none. Return their ids in the order of the messages.

        Args:
            topic: the topic, which is created if it is missing.
            messages: at most 10,000, and 16 MiB.
            front: True sends them to the front, the first one first.

        Raises:
            MessageNotString: a message is not a dict of texts, or is empty.
            InvalidValue: there are too many.
        """
        bodies = [encode_body(message) for message in messages]
        return topics.publish(self._rsmq, topic, bodies, front=front) if bodies else []

    def info(self, topic: str) -> tuple[int, int]:
        """
        Return how many messages are in the backlog and in the nextlog.

        Args:
            topic: the topic; a missing one has none.
        """
        try:
            counts = self._rsmq.count_messages(topic)
        except QueueNotFound:
            return 0, 0
        return counts.visible, topics.count_nextlog(counts)

    def listq(self, topic: str, queue: str) -> list[str]:
        """
        Return the ids of a list. As in rfq, the message that is received next is the last.

        Args:
            topic: the topic; a missing one has no messages.
            queue: ``backlog`` or ``nextlog``.

        Raises:
            InvalidFormat: queue is another value.
        """
        _check_list(queue)
        ids: list[str] = []
        try:
            for part in topics.list_ids(self._rsmq, topic, queue):
                ids += part
        except QueueNotFound:
            pass
        return ids[::-1]

    def purge(self, topic: str, queue: str) -> list[str]:
        """
        Remove the messages of a list, and return their ids, the next message first.

        Args:
            topic: the topic; a missing one has no messages.
            queue: ``backlog``, or ``nextlog``, whose messages consumers may be working on.

        Raises:
            InvalidFormat: queue is another value.
        """
        _check_list(queue)
        removed: list[str] = []
        try:
            for ids in topics.purge(self._rsmq, topic, queue, self.info(topic)[0]):
                removed += ids
        except QueueNotFound:
            pass
        return removed

    def topics(self) -> list[str]:
        """Return the topics, sorted: all queues, also those without messages."""
        return self._rsmq.list_queues()

    def harvest(self, topic: str) -> list[str]:
        """
        Put the messages of the nextlog back into the backlog, and return their ids.

        As in rfq, these are all of them, also those that consumers still work on. Each returns to
        its old place, by the time at which it was sent.

        Args:
            topic: the topic; a missing one has no messages.
        """
        released: list[str] = []
        try:
            for ids in topics.harvest(self._rsmq, topic):
                released += ids
        except QueueNotFound:
            pass
        return released

    def consume(self, topic: str) -> Task:
        """
        Wait for a message, forever, and move it to the nextlog.

        Call ``done`` of the task when the work is done. Otherwise the message is visible again
        after ``vt``, or after a harvest. If this call is interrupted, no message is hidden.

        Args:
            topic: the topic, which is created if it is missing.

        Raises:
            InvalidValue: the ``vt`` of this object is out of range.
        """
        message = topics.consume(self._rsmq, topic, self._vt)
        return Task(topic, message.id, decode_body(message.raw), self._rsmq, receipt=message)

    def peek(self, topic: str, msgid: str) -> dict[str, str] | None:
        """
        Return the texts of a message without consuming it; None if it does not exist.

        Args:
            topic: the topic of the message.
            msgid: its id.
        """
        try:
            message = self._rsmq.get_message(topic, msgid)
        except QueueNotFound:
            return None
        return None if message is None else decode_body(message.raw)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}<{self.r}>>"


def _check_list(queue: str) -> None:
    if queue not in topics.LISTS:
        raise InvalidFormat("queue", value=queue, hint="Pass 'backlog' or 'nextlog'.")
