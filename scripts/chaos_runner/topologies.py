"""
The servers of a run: one server, a primary with a replica and Sentinels, or a Redis Cluster.

Each has the same faults. A cut and a delay are made by a proxy in front of one server, so that a
reply can be lost after its call was executed. With several servers, whose addresses clients learn
from the servers, the server itself closes the connections (``CLIENT KILL``), or holds all commands
(``CLIENT PAUSE``).
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import redis

from tests.clusters import Cluster, ClusterNode, slot_of
from tests.engines import installed_engine_path
from tests.nodes import Node, wait_until, wait_until_in_step
from tests.proxy import Proxy
from tests.sentinels import SentinelGroup

from .client import QUEUE
from .task_functions import TASK_QUEUE, text_of

ENGINE = "redis-7.0"
_FULL_BYTES = 1_000_000
_PROMOTION_SECONDS = 60

#: The queues of a run, and what returns the text of a stored body.
_TEXT_OF: dict[str, Callable[[bytes], str]] = {QUEUE: bytes.decode, TASK_QUEUE: text_of}

#: Facts of a fault that the checker reads.
Facts = dict[str, Any]


class Topology(ABC):
    """
    The servers of a run.

    Attributes:
        ns: the namespace of the queue.
        url: for clients.
        replicas: the number of replicas of each primary.
    """

    ns = "chaos"
    url: str
    replicas = 0

    def __init__(self, appendfsync: str) -> None:
        self._options = ["appendonly yes", f"appendfsync {appendfsync}"]

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @property
    @abstractmethod
    def primary(self) -> Node:
        """The server that has the queue."""

    @property
    @abstractmethod
    def nodes(self) -> list[Node]:
        """The servers that store data."""

    def heal(self) -> None:  # noqa: B027 - one server needs no repair
        """Wait until all servers work together again."""

    def wait_until_in_step(self) -> float | None:
        """Wait until the replicas have the primary's data; return the time until which they do."""
        return None

    def failover(self, chance: random.Random) -> Facts:
        """Let a replica become the primary."""
        raise NotImplementedError

    def restart(self) -> Facts:
        """Kill the server with the queue, and start it again."""
        primary = self.primary
        primary.restart()
        self.heal()
        return {"promoted": self.primary is not primary}

    def cut(self, _chance: random.Random) -> Facts:
        """Close all connections of clients."""
        for kind in ("normal", "pubsub"):
            self.primary.ask("CLIENT", "KILL", "TYPE", kind)
        return {}

    def delay(self, chance: random.Random) -> Facts:
        """Let all calls take longer for a second."""
        for _ in range(5):
            pause = chance.uniform(0.05, 0.2)
            self.primary.ask("CLIENT", "PAUSE", int(pause * 1000), "ALL")
            time.sleep(0.2)
        return {}

    def freeze(self, chance: random.Random) -> Facts:
        """Suspend the server with the queue, for less time than until a failover."""
        primary = self.primary
        primary.freeze()
        time.sleep(chance.uniform(0.2, 0.8))
        primary.thaw()
        self.heal()
        return {"promoted": self.primary is not primary}

    def flush(self) -> Facts:
        """Remove all scripts."""
        for node in self.nodes:
            node.ask("SCRIPT", "FLUSH")
        return {}

    def fill(self, chance: random.Random) -> Facts:
        """Let the server with the queue be full for a second."""
        primary = self.primary
        primary.ask("CONFIG", "SET", "maxmemory", _FULL_BYTES)
        time.sleep(chance.uniform(0.5, 1.5))
        primary.ask("CONFIG", "SET", "maxmemory", 0)
        return {}

    def count(self) -> int:
        """Return how many messages are in the queues."""
        return sum(int(self.primary.ask("ZCARD", f"{self.ns}:{each}")) for each in _TEXT_OF)

    def read_left(self) -> list[dict[str, Any]]:
        """Return the messages that are in the queues."""
        return [message for queue in _TEXT_OF for message in self._read_queue(queue)]

    def _read_queue(self, queue: str) -> Iterator[dict[str, Any]]:
        ids = [id.decode() for id in self.primary.ask("ZRANGE", f"{self.ns}:{queue}", 0, -1)]
        stored = self.primary.ask("HGETALL", f"{self.ns}:{queue}:Q")
        for id in ids:
            if id.encode() in stored:
                body = _TEXT_OF[queue](stored[id.encode()])
                yield {"id": id, "body": body, "count": int(stored.get(f"{id}:rc".encode(), 0))}


class OneServer(Topology):
    """One server behind a proxy."""

    def start(self) -> None:
        self._node = Node(installed_engine_path(ENGINE), self._options)
        self._node.start()
        self.proxy = Proxy(self._node.port)
        self.url = self.proxy.url

    def stop(self) -> None:
        self.proxy.close()
        self._node.stop()

    @property
    def primary(self) -> Node:
        return self._node

    @property
    def nodes(self) -> list[Node]:
        return [self._node]

    def restart(self) -> Facts:
        """Kill the server, and start it again."""
        self.proxy.refuse = True
        facts = super().restart()
        self.proxy.refuse = False
        return facts

    def cut(self, chance: random.Random) -> Facts:
        """Close all connections, or drop the replies of some calls that were executed."""
        replies = chance.choice([0, 1, 2, 5])
        if not replies:
            self.proxy.close_connections()
            return {"replies": 0}
        self.proxy.drop = replies
        try:
            wait_until(lambda: self.proxy.drop == 0, seconds=2)
        except AssertionError:
            self.proxy.drop = 0  # there were fewer calls
        return {"replies": replies}

    def delay(self, chance: random.Random) -> Facts:
        """Let all replies take longer for a second."""
        self.proxy.delay = chance.uniform(0.02, 0.2)
        time.sleep(1)
        self.proxy.delay = 0
        return {}


class WithSentinel(Topology):
    """A primary with a replica, and three Sentinels."""

    replicas = 1

    def start(self) -> None:
        self._group = SentinelGroup(
            installed_engine_path(ENGINE), replicas=self.replicas, options=self._options
        )
        self._group.start()
        self.url = self._group.url

    def stop(self) -> None:
        self._group.stop()

    @property
    def primary(self) -> Node:
        return self._group.primary

    @property
    def nodes(self) -> list[Node]:
        return self._group.servers

    def heal(self) -> None:
        self._group.heal()

    def wait_until_in_step(self) -> float:
        return wait_until_in_step(self.primary, lambda: self._group.replicas)

    def failover(self, chance: random.Random) -> Facts:
        """Kill the primary, or demand a failover, which does not wait for the replica."""
        if chance.choice([True, False]):
            self._group.failover()
            how = "SENTINEL FAILOVER"
        else:
            old = self.primary
            old.kill()
            self._group.wait_until_promoted(old, _PROMOTION_SECONDS)
            how = "kill"
        self.heal()
        return {"how": how, "promoted": True}


class WithCluster(Topology):
    """Three masters with a replica each."""

    ns = "{chaos}"
    replicas = 1

    def start(self) -> None:
        self._cluster = Cluster(
            installed_engine_path(ENGINE), replicas=self.replicas, options=self._options
        )
        self._cluster.start()
        self.url = self._cluster.url

    def stop(self) -> None:
        self._cluster.stop()

    @property
    def primary(self) -> ClusterNode:
        return self._cluster.owner_of(slot_of(f"{self.ns}:q"))

    @property
    def nodes(self) -> list[Node]:
        return list(self._cluster.nodes)

    def heal(self) -> None:
        self._cluster.heal()

    def wait_until_in_step(self) -> float:
        return wait_until_in_step(self.primary, lambda: self._cluster.replicas_of(self.primary))

    def failover(self, chance: random.Random) -> Facts:
        """Kill the master, or demand a failover, which waits for the replica."""
        old = self.primary
        (replica,) = self._cluster.replicas_of(old)
        if chance.choice([True, False]):
            self._cluster.failover(replica)
            return {"how": "CLUSTER FAILOVER", "promoted": True, "planned": True}
        old.kill()
        self._cluster.wait_until_promoted(replica, _PROMOTION_SECONDS)
        self.heal()
        return {"how": "kill", "promoted": True}


TOPOLOGIES: dict[str, type[Topology]] = {
    "plain": OneServer,
    "sentinel": WithSentinel,
    "cluster": WithCluster,
}


def version_of(topology: Topology) -> str:
    """Return the version of the servers."""
    client: redis.Redis = topology.primary.raw()
    with client:
        return str(client.info("server")["redis_version"])
