"""
The servers of cells that could not be reached, and when they are tried again.
"""

from __future__ import annotations

from collections.abc import Hashable
from time import monotonic

from rsmq.transport.backoff import exponential_seconds

#: How long a server is left alone after a failure: doubled with each failure in a row.
_FIRST_SECONDS = 0.25
_LONGEST_SECONDS = 5.0


class Failures:
    """
    The last failures of servers.

    A server that hangs costs each call the time-out of its connection. So calls that can go to
    another cell leave its cells alone for a while.
    """

    def __init__(self) -> None:
        self._by_server: dict[Hashable, tuple[int, float, Exception]] = {}

    def __bool__(self) -> bool:
        """Return whether a server has failed and was not reached since."""
        return bool(self._by_server)

    def recent(self, server: Hashable) -> Exception | None:
        """Return the failure because of which a server is left alone now; None if it is not."""
        failure = self._by_server.get(server)
        return failure[2] if failure is not None and monotonic() < failure[1] else None

    def note(self, server: Hashable, error: Exception) -> None:
        """Note that a call could not reach a server."""
        count = self._by_server.get(server, (0, 0.0, error))[0] + 1
        until = monotonic() + exponential_seconds(count, _FIRST_SECONDS, _LONGEST_SECONDS)
        self._by_server[server] = count, until, error

    def forget(self, server: Hashable) -> None:
        """Note that a call has reached a server."""
        self._by_server.pop(server, None)
