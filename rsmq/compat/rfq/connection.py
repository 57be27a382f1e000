"""
The client of a ``Queue`` or a ``Task``.
"""

from __future__ import annotations

import os
from typing import Any

import redis

from rsmq._sync.client import RSMQ


def default_redis() -> redis.Redis:
    """Return a client for the host and port of RFQ_REDIS_HOST and RFQ_REDIS_PORT."""
    host = os.environ.get("RFQ_REDIS_HOST") or "localhost"
    port = os.environ.get("RFQ_REDIS_PORT") or 6379
    return redis.Redis(host=host, port=int(port), decode_responses=True)


def open_client(client: Any, ns: str) -> RSMQ:
    """Return an RSMQ as it is, and otherwise one that connects as the client of redis-py does."""
    if isinstance(client, RSMQ):
        return client
    # Topics of rfq have names that the Node client refuses, such as with dots.
    return RSMQ(client, ns=ns, strict_names=False)
