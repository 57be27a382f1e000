"""
The servers of cells that could not be reached, when they are tried again, and what errors mean.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from time import monotonic
from typing import Any

from rsmq.errors import NotReplicated
from rsmq.transport.backoff import exponential_seconds
from rsmq.transport.retry import Failure, classify, code_of, has_not_run

#: How long a server is left alone after a failure: doubled with each failure in a row.
_FIRST_SECONDS = 0.25
_LONGEST_SECONDS = 5.0
#: The pause before cells that are down are tried again: doubled from the first to the longest.
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.5
#: The server refuses the first write of a script: it has no memory left, can't save to disk, or has
#: fewer replicas than its setting demands.
_WRITE_REFUSED_CODES = {"OOM", "MISCONF", "NOREPLICAS"}


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


def pause_seconds(passes: int) -> float:
    """Return the pause before cells that are down are tried again, after so many passes."""
    return exponential_seconds(passes, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether a server refused a change because it has no memory left."""
    return code_of(error) == "OOM"


def is_write_refused(error: Exception) -> bool:
    """Return whether a server refused a change because of its own state, so that nothing ran."""
    return code_of(error) in _WRITE_REFUSED_CODES


def may_have_run(error: Exception) -> bool:
    """Return whether a call may have run although it failed."""
    return not has_not_run(error) and classify(error, is_sent=True) is Failure.AMBIGUOUS


def is_final(error: Exception) -> bool:
    """Return whether a call that is repeated would get the same error."""
    return not has_not_run(error) and classify(error, is_sent=True) is Failure.FINAL


def raise_unconfirmed(errors: Mapping[int, NotReplicated], result: Any) -> None:
    """Raise the first error of cells that have not confirmed a call in time, if there is one."""
    for error in errors.values():
        error.result = result
        raise error


def first_error(errors: Mapping[int, Exception]) -> Exception:
    """Return the first of several errors by cell."""
    return next(iter(errors.values()))
