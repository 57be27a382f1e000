"""
The operation of HTTP that the clients do not have.
"""

from __future__ import annotations

import hashlib

from rsmq.lua.load import loader_of
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import check_label

load = loader_of("web")


def claim_key(
    namespace: Namespace, qname: str, key: str, digest: str, seconds: int
) -> Operation[bool]:
    """Store the digest of a key for some seconds; the result is whether no other one is there."""
    keys = namespace.queue(qname)
    # Longer than any dedup_id may be, so it is none.
    name = "http:" + hashlib.sha512(check_label("Idempotency-Key", key)).hexdigest()
    return Operation(
        load("claim_key"),
        (keys.hash, keys.dedup),
        (name.encode(), digest.encode(), digits(seconds * 1000)),
        bool,
        RetryClass.ALWAYS,
        (keys.name,),
    )
