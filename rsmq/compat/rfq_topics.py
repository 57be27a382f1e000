"""
The operations of rfq on a topic, on a queue. The commands of ``rsmq rfq`` do the same.

A topic is a queue. Its backlog contains the visible messages, its nextlog those in flight and those
that wait for a retry. Delayed messages, which rfq does not have, are in neither list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rsmq.codecs import BYTES
from rsmq.errors import QueueNotFound
from rsmq.model import Message, MessageCounts, State
from rsmq.operations.plain import parse_info, plain_command
from rsmq.operations.walk import Position, parse_next_position, walk_step
from rsmq.wire.limits import MAX_BATCH, UNLIMITED
from rsmq.wire.names import decode_names

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ

#: The states of the messages of each list.
LISTS: dict[str, tuple[State, ...]] = {
    "backlog": ("visible",),
    "nextlog": ("in_flight", "retrying"),
}

#: The visibility timeout of consumed messages. rfq has none: a message stays in the nextlog until
#: it is done or harvested.
DAY_SECONDS = 86_400


def publish(rsmq: RSMQ, topic: str, bodies: Sequence[bytes], *, front: bool) -> list[str]:
    """
    Send messages, all or none, and return their ids.

    A topic that does not exist is created, without a size limit, because rfq has none.
    """
    try:
        return rsmq.send_messages(topic, bodies, front=front, codec=BYTES)
    except QueueNotFound:
        rsmq.create_queue(topic, maxsize=UNLIMITED, exist_ok=True)
        return rsmq.send_messages(topic, bodies, front=front, codec=BYTES)


def consume(rsmq: RSMQ, topic: str, vt: float) -> Message[bytes]:
    """
    Wait for a message, forever, and receive it.

    A topic that does not exist is created.

    Args:
        vt: the visibility timeout, seconds.
    """
    while True:
        try:
            message = rsmq.receive_message(topic, vt=vt, wait=None, codec=BYTES)
        except QueueNotFound:
            rsmq.create_queue(topic, maxsize=UNLIMITED, exist_ok=True)
        else:
            if message is not None:
                return message


def count_nextlog(counts: MessageCounts) -> int:
    """Return the number of messages in the nextlog."""
    return counts.in_flight + counts.retrying


def list_ids(rsmq: RSMQ, topic: str, list_name: str) -> Iterator[list[str]]:
    """Yield the ids of a list in steps, beginning with the message that is received next."""
    for state in LISTS[list_name]:
        start = 0
        while found := rsmq.peek_messages(topic, start, MAX_BATCH, state=state):
            yield [message.id for message in found]
            start += len(found)


def purge(rsmq: RSMQ, topic: str, list_name: str, number: int) -> Iterator[list[str]]:
    """
    Remove the messages of a list in steps, and yield their ids.

    Args:
        number: how many messages are removed from the backlog at most.
    """
    if list_name == "nextlog":
        for ids in list(list_ids(rsmq, topic, list_name)):
            yield rsmq.delete_messages(topic, ids)
        return
    # Popped, so that a message that a consumer receives meanwhile is not deleted.
    remaining = number
    while remaining > 0 and (popped := rsmq.pop_messages(topic, min(remaining, MAX_BATCH))):
        remaining -= len(popped)
        yield [message.id for message in popped]


def harvest(rsmq: RSMQ, topic: str) -> Iterator[list[str]]:
    """Release the messages of the nextlog in steps, and yield their ids."""
    keys = rsmq.namespace.queue(topic)
    position: Position | None = (b"", b"0")
    while position is not None:
        reply = rsmq.run(walk_step("received_messages", keys, position, b""))
        ids = decode_names(reply[2][::2])
        yield rsmq.release_messages(topic, ids) if ids else []
        position = parse_next_position(reply)


def read_redis_version(rsmq: RSMQ) -> str:
    """Return the version of the Redis server."""
    command = plain_command("INFO", "server", key=rsmq.namespace.queues, parse=parse_info)
    return rsmq.run(command).get("redis_version", "?")
