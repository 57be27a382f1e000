"""
The messages that follow others and can't be sent, because their queue is missing or refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from redis.exceptions import ResponseError

from rsmq._sync.client import RSMQ
from rsmq.errors import InvalidValue, QueueNotFound
from rsmq.transport.retry import is_limited_to_keys
from rsmq.wire.refusals import parse_refusal
from rsmq.worker.operations import FollowingMessage
from rsmq.worker.state.calls import Lease

#: Maximum total bytes of the messages that a step sends; the first one may be larger.
_MAX_BYTES_PER_STEP = 1024 * 1024


def next_message_of(lease: Lease) -> FollowingMessage:
    """Return what follows a message that something follows."""
    following = lease.job.next_message
    assert following is not None  # noqa: S101 - the caller has looked
    return following


def first_of_bytes(leases: Sequence[Lease]) -> Iterator[Lease]:
    """Return the first messages: at least one, and as many as a step may send what follows them."""
    size = 0
    for lease in leases:
        size += len(next_message_of(lease).body)
        if size > _MAX_BYTES_PER_STEP and lease is not leases[0]:
            return
        yield lease


def find_refusals(
    client: RSMQ[Any], leases: Sequence[Lease], results: Sequence[bytes]
) -> dict[Lease, Exception | None]:
    """
    Return why the messages that follow others were refused. Create those queues that are missing.

    Args:
        client: the client of the namespace.
        leases: the messages before them.
        results: the results of ``finish_messages``.

    Returns:
        For each message of which the next one was refused the reason; None if its queue was missing
        and exists now.

    Raises:
        Errors of redis-py: the server can't be reached, or refuses to store anything.
    """
    refusals: dict[Lease, Exception | None] = {}
    problems: dict[str, Exception | None] = {}  # by the name of a missing queue
    for lease, result in zip(leases, results, strict=True):
        if len(result) > 1:  # else it is a digit
            following, text = next_message_of(lease), result.decode(errors="replace")
            queues = following.queue, *following.other_queues
            error: Exception | None = parse_refusal(text, queues) or ResponseError(text)
            if isinstance(error, QueueNotFound):
                queue = str(error.value)
                if queue not in problems:
                    problems[queue] = _create(client, queue)
                error = problems[queue]
            elif isinstance(error, ResponseError) and not is_limited_to_keys(error):
                raise error
            refusals[lease] = error
    return refusals


def _create(client: RSMQ[Any], queue: str) -> Exception | None:
    """Create a queue. Return why that is not possible."""
    try:
        client.create_queue(queue, exist_ok=True)
    except (InvalidValue, ResponseError) as error:
        if isinstance(error, ResponseError) and not is_limited_to_keys(error):
            raise
        return error
    return None
