"""
The scripts of SQS: queues with all their attributes, and messages while their timeout runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from rsmq.model import Message
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import loader_of
from rsmq.web.sqs.errors import invalid
from rsmq.wire.keys import Namespace
from rsmq.wire.names import encode_name

load = loader_of("web")


#: In place of the name of a dead-letter queue: the policy is removed.
_REMOVED = "-"


def store_queue(
    namespace: Namespace,
    qname: str,
    fields: Mapping[str, Any],
    policy: tuple[str, int] | None,
    *,
    creates: bool = False,
    known: bytes = b"",
) -> Operation[bool]:
    """
    Return what creates a queue, or changes attributes of one.

    Its result is False if a queue to create exists, or if the settings of one to change are others.

    Args:
        fields: what to store in the queue's hash.
        policy: the name of the dead-letter queue in this library, and the receives that it allows;
            an empty name removes the policy; None leaves it.
        known: the field of the settings as it was read; empty without it.

    Raises:
        SqsError: the queue is its own dead-letter queue.
    """
    keys = namespace.queue(qname)
    target, limit = policy or ("", 0)
    to = namespace.queue(target) if target else keys
    if target and to == keys:
        raise invalid("A queue can't be its own dead-letter queue.")
    pairs = [
        each if isinstance(each, bytes) else str(each).encode()
        for pair in fields.items()
        for each in pair
    ]
    return Operation(
        load("store_sqs_queue"),
        (keys.hash, namespace.queues, to.hash),
        (
            encode_name(keys.name), b"create" if creates else b"change", known,
            encode_name(target if policy is None else target or _REMOVED), digits(limit), *pairs,
        ),
        lambda reply: int(reply) == 1,
        RetryClass.NEVER,
        (keys.name, to.name),
    )  # fmt: skip


class Settled(Enum):
    """The outcome for a message that was to be deleted or hidden."""

    GONE = 0  # it is not in the queue, or was received again
    DONE = 1
    EXPIRED = 2


def settle_leased(
    namespace: Namespace, qname: str, receipts: list[Message[bytes]], vt: int | None
) -> Operation[list[Settled]]:
    """
    Return what deletes received messages, or hides them, if their visibility timeouts still run.

    Args:
        vt: seconds for which they are hidden from now; None deletes them.
    """
    keys = namespace.queue(qname)
    return Operation(
        load("settle_leased"),
        (keys.hash, keys.zset),
        (
            b"" if vt is None else digits(vt * 1000),
            *(
                part
                for each in receipts
                for part in (encode_name(each.id), digits(each.receive_count))
            ),
        ),
        lambda reply: [Settled(int(each)) for each in reply],
        RetryClass.ALWAYS,
        (keys.name,),
    )
