"""
The interface of ``RedisSMQ`` that its commands use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ
    from rsmq.wire.keys import Namespace


class Controller(Protocol):
    """
    The part of ``RedisSMQ`` that its commands use.

    Attributes:
        namespace: the keys of the namespace.
        options: the options ns, realtime and exceptions.
    """

    namespace: Namespace
    options: dict[str, Any]

    @property
    def client(self) -> Any:
        """The client of redis-py."""

    @property
    def core(self) -> RSMQ:
        """The client of this library, on the same connection."""

    def as_client_has_it(self, raw: bytes) -> str | bytes:
        """Return bytes as the client of redis-py would return them."""
