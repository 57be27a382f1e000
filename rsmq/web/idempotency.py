"""
``Idempotency-Key``: the dedup_id of a send, and a digest of what was sent with it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import loader_of
from rsmq.web.client import Client
from rsmq.web.fields import Refused
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import MAX_SECONDS, check_label
from rsmq.wire.names import encode_name

load = loader_of("web")

HEADER = "idempotency-key"

#: Seconds for which a key is remembered, unless the send has a ``dedup_window``.
WINDOW_SECONDS = 3600
#: The digest outlives the dedup_id, which is stored after it.
_LONGER_SECONDS = 600

T = TypeVar("T")


class KeyClaim:
    """The claim of an ``Idempotency-Key`` for one send."""

    def __init__(
        self, queues: Client, qname: str, key: str, dedup_id: str, parts: Iterable[bytes]
    ) -> None:
        """
        Make it.

        Args:
            dedup_id: that of the message, or of the first one.
            parts: what is sent, and its options.
        """
        digest = hashlib.sha256()
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        self._queues = queues
        self._qname, self._key, self._dedup_id = qname, key, dedup_id
        self._digest = digest.hexdigest()

    async def send(self, window: float, sending: Coroutine[Any, Any, T]) -> T:
        """
        Claim the key, and then send; a send that is refused leaves the key free.

        Args:
            window: seconds for which the dedup_id is remembered.

        Raises:
            Refused: the key was used for something else.
            InvalidFormat: the key does not have 1 to 128 characters.
            QueueNotFound: the queue does not exist.
            The errors of the send.
        """
        try:
            await self._claim(window)
        except BaseException:
            sending.close()
            raise
        try:
            return await sending
        except RSMQError:
            client = self._queues
            with suppress(RSMQError, RedisError, OSError):
                await client.run(
                    release_key(
                        client.namespace, self._qname, self._key, self._digest, self._dedup_id
                    )
                )
            raise

    async def _claim(self, window: float) -> None:
        client = self._queues
        # A window that is not valid is refused by the send.
        claiming = claim_key(
            client.namespace,
            self._qname,
            self._key,
            self._digest,
            self._dedup_id,
            seconds=min(max(window, 0), MAX_SECONDS) + _LONGER_SECONDS,
        )
        if not await client.run(claiming):
            raise Refused(
                "idempotencyKeyReused",
                "This Idempotency-Key was used for another message",
                hint="Use a new key for each message, and the same key only to repeat its send.",
            )


def batch_dedup_ids(key: str, number: int) -> list[str]:
    """Return the dedup_ids of a batch, which no other Idempotency-Key has."""
    name = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
    return [f"http-batch:{name}:{each}" for each in range(number)]


def claim_key(
    namespace: Namespace, qname: str, key: str, digest: str, dedup_id: str, *, seconds: float
) -> Operation[bool]:
    """
    Store the digest of a key for some seconds; the result is whether no other one is there.

    Args:
        dedup_id: that of the send, or of its first message.
    """
    keys = namespace.queue(qname)
    return Operation(
        load("claim_key"),
        (keys.hash, keys.dedup),
        (
            _record_of(key),
            digest.encode(),
            digits(math.ceil(seconds * 1000)),
            encode_name(dedup_id),
        ),
        bool,
        RetryClass.ALWAYS,
        (keys.name,),
    )


def release_key(
    namespace: Namespace, qname: str, key: str, digest: str, dedup_id: str
) -> Operation[bool]:
    """Forget the digest of a key, unless something was sent with this dedup_id."""
    keys = namespace.queue(qname)
    return Operation(
        load("release_key"),
        (keys.hash, keys.dedup),
        (_record_of(key), digest.encode(), encode_name(dedup_id)),
        bool,
        RetryClass.ALWAYS,
        (keys.name,),
    )


def _record_of(key: str) -> bytes:
    # Longer than any dedup_id may be, so it is none.
    return b"http:" + hashlib.sha512(check_label("Idempotency-Key", key)).hexdigest().encode()
