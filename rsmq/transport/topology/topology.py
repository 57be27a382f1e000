"""
The topology of several servers: which of them has a key, and how to ask again.

Without I/O or clock. The routers of ``threads`` and ``asyncio_`` send the questions of ``refresh``,
and tell the topology which calls failed. ``cluster.py`` and ``sentinel.py`` are the two kinds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import redis.exceptions as redis_errors

from rsmq.errors import NotReplicated
from rsmq.transport.topology.address import Address

#: The shortest time between two refreshes.
REFRESH_PAUSE_SECONDS = 0.1

#: The number of addresses in a text.
_MAX_SHOWN_SEEDS = 3

#: A refresh asks each server with this timeout, so that one that hangs does not hold up the others.
QUESTION_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Question:
    """
    A command to send on a new connection.

    Attributes:
        address: the server to ask.
        is_for_sentinel: whether the server is a Sentinel, which has its own user and password.
    """

    address: Address
    command: tuple[str, ...]
    is_for_sentinel: bool = False


class Topology(ABC):
    """
    The servers of one set of keys, by what is known.

    Threads may use it at the same time: each change is one assignment.

    Attributes:
        kind: what the servers are, for texts.
        seeds: the addresses that the program gave.
        is_stale: whether a call has failed since the last refresh.
    """

    kind: ClassVar[str]

    def __init__(self, seeds: Iterable[Address]) -> None:
        self.seeds: tuple[Address, ...] = tuple(seeds)
        self.is_stale: bool = True
        self._refresh_at = -math.inf
        self._failed_refresh: Exception | None = None
        #: The addresses that failed since the last refresh.
        self._suspects: frozenset[Address] = frozenset()

    @abstractmethod
    def address_of(self, key: bytes) -> Address | None:
        """Return the server of a key; None if it is not known."""

    @abstractmethod
    def addresses(self) -> Collection[Address]:
        """Return the servers that are known to have keys."""

    @abstractmethod
    def refresh(self, now: float) -> Generator[Question, Any, None]:
        """
        Learn which servers there are.

        Yields:
            Questions. The answer, or the error with which the question failed, is sent or thrown
            into the generator.

        Raises:
            RedisError: no server could say it.
        """

    def redirected_to(self, error: redis_errors.AskError) -> Address:
        """Return the server that a MOVED or ASK error names; only a cluster has such errors."""
        raise error

    def may_refresh(self, now: float) -> bool:
        """Return whether the last refresh is long enough ago for another one."""
        return now >= self._refresh_at

    def note_failed_refresh(self, now: float, error: Exception) -> None:
        """Note that no server could answer: calls raise the error until the next refresh."""
        self._failed_refresh = error
        self._refresh_at = now + REFRESH_PAUSE_SECONDS

    def raise_failed_refresh(self) -> None:
        """Raise a copy of the error of the last refresh, if it failed."""
        error = self._failed_refresh
        if error is not None:
            raise type(error)(*error.args) from error

    def note_failure(self, error: BaseException, address: Address) -> None:
        """Learn from a call that a server refused or did not confirm, or that broke under way."""
        if isinstance(error, redis_errors.AskError):
            return
        if isinstance(error, NotReplicated):  # its replica may have replaced it
            self.mark_stale()
            return
        if isinstance(error, redis_errors.ResponseError | redis_errors.BusyLoadingError):
            if isinstance(
                error,
                redis_errors.ClusterDownError
                | redis_errors.MasterDownError
                | redis_errors.ReadOnlyError,
            ):
                self.mark_stale()
            return
        if isinstance(error, redis_errors.RedisError | OSError):
            self._suspects |= {address}
            self.mark_stale()

    def mark_stale(self) -> None:
        """Refresh before the next call, but not sooner than after a short pause."""
        self.is_stale = True

    def _in_order(self, servers: Iterable[Address]) -> list[Address]:
        """Return the addresses to ask: these servers, the seeds, and last those that failed."""
        unique = dict.fromkeys([*servers, *self.seeds])
        return sorted(unique, key=lambda address: address in self._suspects)

    def _note_refresh(self, now: float) -> None:
        self._suspects = frozenset()
        self._failed_refresh = None
        self.is_stale = False
        self._refresh_at = now + REFRESH_PAUSE_SECONDS


def describe_seeds(topology: Topology) -> str:
    """Return a text that names the servers: some of those that the program gave."""
    shown = ", ".join(map(str, topology.seeds[:_MAX_SHOWN_SEEDS]))
    more = " ..." if len(topology.seeds) > _MAX_SHOWN_SEEDS else ""
    return f"{shown}{more} ({topology.kind})"
