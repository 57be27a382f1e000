"""
Subscribers of queues, for asyncio: the targets of webhooks that are stored in Redis.

They change at run time. A subscriber has a queue of its own, to which each message of the queue is
copied: see ``rsmq.push.pusher``.
"""

from __future__ import annotations

from typing import Any

from rsmq.aio import AsyncRSMQ
from rsmq.push.operations import add_subscriber, list_subscribers, remove_subscriber
from rsmq.push.subscriber import (
    DEFAULT_CONCURRENCY,
    Subscriber,
    check_name,
    make_record,
    parse_record,
    parse_subscriber,
    raise_refusal,
)
from rsmq.webhooks.targets import target_field


class AsyncSubscribers:
    """
    The subscribers of the queues of a client.

    Every message of a queue with subscribers is pushed to each of them, with attempts, a circuit
    breaker and a dead-letter queue of its own. It does not matter which client sends the message.
    Processes that push (``rsmq push --subscribers``, ``SubscriberPusher``) notice a change within a
    second.
    """

    def __init__(self, rsmq: AsyncRSMQ[Any]) -> None:
        """
        Make it.

        Args:
            rsmq: an asyncio client.
        """
        self._rsmq = rsmq

    async def add(
        self,
        queue: str,
        name: str,
        url: str,
        *,
        secret_env: str | None = None,
        content_type: str | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        max_retries: int | None = None,
        replace: bool = False,
    ) -> Subscriber:
        """
        Add a subscriber, and create its own queue ``QUEUE-NAME``, in one atomic step.

        It gets the messages that wait in the queue and have not been copied yet, and all later
        ones. If an earlier subscriber of this name and URL was stopped, as by a 410, messages are
        pushed again. Adding it again with the same settings changes nothing.

        Args:
            queue: the name of the queue, which must exist.
            name: its name, of the characters of a queue's name, without ``-dead`` at the end.
            url: the target. It is stored readable in Redis. The pushing processes decide whether
                http, and addresses that are not public, are allowed.
            secret_env: the name of an environment variable of the pushing processes. Its value is
                one secret, or two with a blank between them. The secret itself is not stored.
            content_type: the media type of the bodies; None is application/octet-stream.
            concurrency: maximum number of concurrent pushes of one process, 1 to 1,000.
            max_retries: retries before a message is a dead letter, from 0; None is the policy of
                its own queue, otherwise five.
            replace: whether other settings replace those of a subscriber of this name. Messages
                that wait for it are pushed by the new settings. It also keeps a subscriber that is
                being removed.

        Returns:
            The subscriber as it is stored.

        Raises:
            QueueNotFound: the queue does not exist.
            SubscriberExists: a subscriber of this name has other settings, or is being removed; or
                its own queue exists already.
            MissingParameter, InvalidFormat: an argument is invalid; or the queue belongs to a
                subscriber itself.
            InvalidValue: a number is out of range, or there are 1,000 subscribers already, or 100
                of this queue.
        """
        record = make_record(
            name,
            url,
            secret_env=secret_env,
            content_type=content_type,
            concurrency=concurrency,
            max_retries=max_retries,
        )
        target = target_field(f"{queue}-{name}", url)
        outcome, detail = await self._rsmq.run(
            add_subscriber(self._rsmq.namespace, queue, name, record, target, replace=replace)
        )
        raise_refusal(outcome, detail, queue, name)
        subscriber = parse_subscriber(f"{queue}/{name}", detail)
        assert subscriber is not None  # noqa: S101 - it was stored now
        return subscriber

    async def list(self, queue: str | None = None) -> list[Subscriber]:
        """
        Return the subscribers of a queue, or of all queues, by queue and name.

        Raises:
            MissingParameter, InvalidFormat: the queue's name is invalid.
        """
        if queue is not None:
            self._rsmq.namespace.queue(queue)
        record = await self._rsmq.run(list_subscribers(self._rsmq.namespace, b""))
        found = sorted(parse_record(record or {}), key=lambda each: (each.queue, each.name))
        return [each for each in found if queue is None or each.queue == queue]

    async def remove(self, queue: str, name: str, *, drop: bool = False) -> bool:
        """
        Remove a subscriber: from now on it gets no further messages.

        Its dead-letter queue, and the state of its circuit breaker, are kept.

        Args:
            queue: the name of the queue.
            name: its name.
            drop: True deletes its own queue with all messages, in the same atomic step. Pushes that
                run still end. False lets the pushing processes push the messages that wait, and
                then delete its queue.

        Returns:
            Whether there was such a subscriber.

        Raises:
            MissingParameter, InvalidFormat: a name is invalid.
        """
        check_name(name)
        self._rsmq.namespace.queue(queue)
        field, own = f"{queue}/{name}", f"{queue}-{name}"
        mode = "drop" if drop else "drain"
        removed = await self._rsmq.run(remove_subscriber(self._rsmq.namespace, field, own, mode))
        return removed != 0
