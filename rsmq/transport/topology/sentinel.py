"""
The primary that a group of Sentinels watches.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from typing import Any

import redis.exceptions as redis_errors

from rsmq.transport.topology.address import Address, AddressRemap
from rsmq.transport.topology.topology import Question, Topology


class SentinelTopology(Topology):
    """The address of a primary, from its Sentinels, and confirmed by the server itself."""

    kind = "Sentinels"

    def __init__(
        self, seeds: Iterable[Address], service: str, *, remap: AddressRemap | None
    ) -> None:
        """
        Create a topology that knows only the Sentinels.

        Args:
            service: the name of the primary in their configuration.
            remap: changes the addresses that Sentinels report.
        """
        super().__init__(seeds)
        self.service = service
        self._remap = remap
        self._primary: Address | None = None

    def address_of(self, key: bytes) -> Address | None:  # noqa: ARG002 - it has all keys
        return self._primary

    def addresses(self) -> Collection[Address]:
        return () if self._primary is None else (self._primary,)

    def refresh(self, now: float) -> Generator[Question, Any, None]:
        last: Exception | None = None
        failed: set[Address] = set()
        for sentinel in self._in_order(()):
            command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
            try:
                reply = yield Question(sentinel, command, is_for_sentinel=True)
            except redis_errors.AuthenticationError:
                raise
            except (redis_errors.RedisError, OSError) as error:
                last = error
                continue
            address = reply and self._reachable(reply[0].decode(), int(reply[1]))
            if not address or address in failed:
                continue
            last = yield from _find_fault(address)
            if last is None:
                self._primary = address
                self.seeds = (sentinel, *(each for each in self.seeds if each != sentinel))
                self._note_refresh(now)
                return
            failed.add(address)
        if failed - {self._primary}:
            self._primary = None  # it was replaced, though its successor does not answer yet
        raise last or redis_errors.ResponseError(
            f"No Sentinel watches a primary with the name {self.service!r}: "
            f"{', '.join(map(str, self.seeds))}."
        )

    def _reachable(self, host: str, port: int) -> Address:
        return Address(*self._remap((host, port))) if self._remap else Address(host, port)


def _find_fault(address: Address) -> Generator[Question, Any, Exception | None]:
    """Return why a server is not usable as the primary; None if it is."""
    try:
        role = yield Question(address, ("ROLE",))
    except redis_errors.NoPermissionError:
        return None
    except redis_errors.AuthenticationError:
        raise
    except (redis_errors.RedisError, OSError) as error:
        return error
    return None if is_primary(role) else replica_error(address)


def replica_error(address: object) -> Exception:
    """Return the error for a server that should be the primary, and is a replica."""
    return redis_errors.ReadOnlyError(f"{address} is a replica, not the primary.")


def replaced_error(address: object) -> Exception:
    """Return the error for a server that says that it is the primary, when Sentinels deny it."""
    return redis_errors.ReadOnlyError(f"{address} is not the primary any more.")


def is_primary(role: Any) -> bool:
    """Return whether a reply to ROLE is that of a primary."""
    return role[0] in (b"master", "master")
