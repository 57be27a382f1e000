"""
``Idempotency-Key``: the dedup_id of a send, and a digest of what was sent with it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from rsmq.web.fields import Refused
from rsmq.web.operations import claim_key
from rsmq.web.table import Client
from rsmq.wire.cells import cell_of_key

HEADER = "idempotency-key"

#: Seconds for which a key is remembered.
WINDOW_SECONDS = 3600
#: The digest outlives the dedup_id, which is stored after it.
_DIGEST_SECONDS = WINDOW_SECONDS + 600


async def claim(queues: Client, qname: str, key: str, *parts: bytes) -> None:
    """
    Claim a key for what will be sent to a queue.

    Args:
        parts: what is sent, and its options.

    Raises:
        Refused: the key was used for something else.
        InvalidFormat: the key does not have 1 to 128 characters.
        QueueNotFound: the queue does not exist.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    number = queues.engine.number
    client: Any = await queues.engine.client(cell_of_key(key, number) if number > 1 else 0)
    claiming = claim_key(client.namespace, qname, key, digest.hexdigest(), _DIGEST_SECONDS)
    if not await client.run(claiming):
        raise Refused(
            "idempotencyKeyReused",
            "This Idempotency-Key was used for another message",
            hint="Use a new key for each message, and the same key only to repeat its send.",
        )
