"""
The slots of a Redis Cluster, and the nodes that serve them.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from typing import Any

import redis.exceptions as redis_errors

from rsmq.transport.topology.address import SLOT_COUNT, Address, AddressRemap, slot_of
from rsmq.transport.topology.topology import Question, Topology


class ClusterTopology(Topology):
    """The nodes of a Redis Cluster, from CLUSTER SLOTS and from redirections."""

    kind = "Redis Cluster"

    def __init__(
        self, seeds: Iterable[Address], *, remap: AddressRemap | None, prefers_host_names: bool
    ) -> None:
        """
        Create a topology that knows nothing but the seeds.

        Args:
            seeds: some nodes.
            remap: changes the addresses that nodes report.
            prefers_host_names: whether nodes that report a host name are connected by it, so that
                it can be compared with their certificates.
        """
        super().__init__(seeds)
        self._remap = remap
        self._prefers_host_names = prefers_host_names
        self._slots: list[Address | None] = [None] * SLOT_COUNT
        self._primaries: tuple[Address, ...] = ()
        self._replicas: tuple[Address, ...] = ()

    def address_of(self, key: bytes) -> Address | None:
        return self._slots[slot_of(key)]

    def addresses(self) -> Collection[Address]:
        return self._primaries

    def note_failure(self, error: BaseException, address: Address) -> None:
        if isinstance(error, redis_errors.MovedError):
            moved_to = self.redirected_to(error)
            self._slots[error.slot_id] = moved_to
            if moved_to not in self._primaries:
                self._primaries = (*self._primaries, moved_to)
            self.mark_stale()
        else:
            super().note_failure(error, address)

    def redirected_to(self, error: redis_errors.AskError) -> Address:
        """Return the node that a MOVED or ASK error names; without a host it is the same host."""
        owner = self._slots[error.slot_id] or self.seeds[0]
        host = error.host or owner.host
        return self._reachable(host, error.port)

    def refresh(self, now: float) -> Generator[Question, Any, None]:
        last: Exception = redis_errors.ClusterDownError("The cluster has no nodes.")
        for address in self._in_order([*self._primaries, *self._replicas]):
            try:
                reply = yield Question(address, ("CLUSTER", "SLOTS"))
            except redis_errors.AuthenticationError:
                raise
            except (redis_errors.RedisError, OSError) as error:
                last = error
                continue
            if reply:
                self._use(reply, address)
                self._note_refresh(now)
                return
            last = redis_errors.ClusterDownError(f"Node {address} knows no slots.")
        raise last

    def _use(self, reply: Sequence[Any], asked: Address) -> None:
        slots: list[Address | None] = [None] * SLOT_COUNT
        primaries: dict[Address, None] = {}
        replicas: dict[Address, None] = {}
        for first, last, *nodes in reply:
            addresses = [self._address_in(node, asked) for node in nodes]
            primaries[addresses[0]] = None
            replicas.update(dict.fromkeys(addresses[1:]))
            slots[first : last + 1] = [addresses[0]] * (last + 1 - first)
        self._slots = slots
        self._primaries = tuple(primaries)
        self._replicas = tuple(replicas)

    def _address_in(self, node: Sequence[Any], asked: Address) -> Address:
        """Return the address of a node in a reply to CLUSTER SLOTS: ``[host, port, id, [...]]``."""
        host = _text(node[0]) or asked.host
        if self._prefers_host_names and len(node) > 3:  # noqa: PLR2004 - since Redis 7
            metadata = [_text(each) for each in node[3]]
            names = dict(zip(metadata[::2], metadata[1::2], strict=False))
            host = names.get("hostname") or host
        return self._reachable(host, int(node[1]))

    def _reachable(self, host: str, port: int) -> Address:
        return Address(*self._remap((host, port))) if self._remap else Address(host, port)


def _text(value: Any) -> str:
    text = value.decode() if isinstance(value, bytes) else value or ""
    return "" if text == "?" else text  # an unknown endpoint
