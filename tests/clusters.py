"""A Redis Cluster of several masters and replicas, which tests break and repair."""

from __future__ import annotations

import binascii
import itertools
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Self

from redis import exceptions
from redis.commands import CoreCommands

from tests.nodes import Node, are_in_step, fields, wait_until
from tests.scale import WAIT_SECONDS

SLOTS = 16_384
_HOST = "127.0.0.1"
_MIGRATE_SECONDS = 60
#: Commands whose keys may be in several slots here: their replies are added up.
#: Commands whose only key is their first argument; for others the server is asked.
_FIRST_IS_KEY = {
    "DUMP", "GET", "HDEL", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HSET",
    "PEXPIRE", "PTTL", "SADD", "SET", "SMEMBERS", "SREM", "TTL", "TYPE", "ZADD", "ZCARD", "ZRANGE",
    "ZRANGEBYSCORE", "ZREM", "ZSCORE",
}  # fmt: skip
_COUNTING = {"DEL", "EXISTS", "TOUCH", "UNLINK"}


def slot_of(key: str | bytes) -> int:
    """Return the slot of a key: of the part between its first { and the next }, if not empty."""
    key = key.encode() if isinstance(key, str) else key
    tag, closing, _ = key.partition(b"{")[2].partition(b"}")
    return binascii.crc_hqx(tag if closing and tag else key, 0) & (SLOTS - 1)


class _Entry(NamedTuple):
    """A line of CLUSTER NODES: one node as another node, or itself, sees it."""

    id: str
    port: int
    flags: frozenset[str]
    master: str
    epoch: int
    slots: tuple[tuple[int, int], ...]
    importing: tuple[int, ...]
    migrating: tuple[int, ...]

    @property
    def is_master(self) -> bool:
        return "master" in self.flags

    def has_slot(self, slot: int) -> bool:
        return any(first <= slot <= last for first, last in self.slots)


def _entry(line: str) -> _Entry:
    id, address, flags, master, _sent, _received, epoch, _link, *parts = line.split()
    owned, importing, migrating = [], [], []
    for part in parts:
        if "-<-" in part:
            importing.append(int(part[1:].partition("-<-")[0]))
        elif "->-" in part:
            migrating.append(int(part[1:].partition("->-")[0]))
        else:
            first, _, last = part.partition("-")
            owned.append((int(first), int(last or first)))
    return _Entry(
        id,
        int(address.partition("@")[0].rpartition(":")[2]),
        frozenset(flags.split(",")),
        master,
        int(epoch),
        tuple(owned),
        tuple(importing),
        tuple(migrating),
    )


class ClusterNode(Node):
    """A node of a cluster. Its ``id`` is that of CLUSTER MYID, and stays over restarts."""

    id = ""

    def view(self) -> list[_Entry]:
        """Return all nodes as this node sees them."""
        reply = self.ask("CLUSTER", "NODES")
        return [_entry(line) for line in reply.decode().splitlines()]

    def own_entry(self) -> _Entry:
        """Return this node as it sees itself."""
        return next(entry for entry in self.view() if "myself" in entry.flags)


class Cluster:
    """
    A Redis Cluster on loopback. Start it with ``start``, end it with ``stop``.

    A node that is killed loses its data, because there is no persistence. If its replica has been
    promoted before it is started again, it copies the data from there.

    Attributes:
        nodes: all nodes. The first ones are the masters at the start, then their replicas.
        raw: redis-py's commands for single keys, each sent to the master that owns the key.
    """

    def __init__(
        self,
        binary: str,
        *,
        masters: int = 3,
        replicas: int = 1,
        node_timeout: int = 2000,
        options: Iterable[str] = (),
    ) -> None:
        """
        Prepare the nodes; ``start`` starts them.

        Args:
            binary: the path of the server program.
            masters: the number of masters.
            replicas: the number of replicas of each master.
            node_timeout: milliseconds until a node that does not answer counts as failed.
            options: more lines of each node's configuration.
        """
        config = [
            "cluster-enabled yes",
            f"cluster-node-timeout {node_timeout}",
            "cluster-config-file nodes.conf",
            # A replica stays with its master's slots, so that tests can foretell the failover.
            "cluster-allow-replica-migration no",
            "repl-diskless-sync yes",
            "repl-diskless-sync-delay 0",
            *options,
        ]
        self._masters = masters
        self._replicas = replicas
        self.nodes = [ClusterNode(binary, config) for _ in range(masters * (1 + replicas))]
        self.raw = RawKeys(self)

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{_HOST}:{node.port}" for node in self.nodes)

    def start(self) -> None:
        """Start the nodes, form the cluster, and wait until it is complete."""
        try:
            for node in self.nodes:
                node.launch()
            for number, node in enumerate(self.nodes, 1):
                node.wait_until_ready()
                node.id = node.ask("CLUSTER", "MYID").decode()
                node.ask("CLUSTER", "SET-CONFIG-EPOCH", number)
            self._form()
        except BaseException:
            self.stop()
            raise

    def _form(self) -> None:
        count = self._masters
        masters = self.nodes[:count]
        for number, node in enumerate(masters):
            first, end = SLOTS * number // count, SLOTS * (number + 1) // count
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        # All pairs: to wait for gossip would take longer.
        for one, other in itertools.combinations(self.nodes, 2):
            one.ask("CLUSTER", "MEET", _HOST, other.port)
        ids = {node.id for node in self.nodes}
        for node in self.nodes:
            wait_until(
                lambda node=node: {each.id for each in node.view()} == ids,
                failure=lambda node=node: f"{node} does not see all nodes: {node.view()}",
            )
        for number, node in enumerate(self.nodes[count:]):
            node.ask("CLUSTER", "REPLICATE", masters[number % count].id)
        self._wait_until_complete()

    def stop(self) -> None:
        """End all nodes, and remove their folders."""
        for node in self.nodes:
            node.stop()

    @property
    def running(self) -> list[ClusterNode]:
        """The nodes that are neither dead nor suspended."""
        return [node for node in self.nodes if node.is_running]

    @property
    def masters(self) -> list[ClusterNode]:
        """The nodes that own slots now, by the newest configuration that a running node has."""
        owners = {self.owner_of(slot).id for slot in self._first_slots()}
        return [node for node in self.nodes if node.id in owners]

    def _first_slots(self) -> set[int]:
        views = [node.view() for node in self.running]
        return {first for view in views for each in view for first, _last in each.slots}

    def owner_of(self, slot: int) -> ClusterNode:
        """Return the current master of a slot."""
        entries = [
            entry
            for node in self.running
            for entry in node.view()
            if entry.is_master and entry.has_slot(slot)
        ]
        assert entries, f"no running node has slot {slot}"
        # A master that was replaced still counts itself as the owner, with a lower epoch.
        newest = max(entries, key=lambda entry: entry.epoch)
        return self._node(newest.id)

    def node_of(self, key: str | bytes) -> ClusterNode:
        """Return the current master of the key's slot."""
        return self.owner_of(slot_of(key))

    def replicas_of(self, node: ClusterNode) -> list[ClusterNode]:
        """Return the replicas of a node, also while it is dead or suspended."""
        observer = self.running[0]
        found = []
        for other in self.nodes:
            source = other if other.is_running else observer
            entries = [entry for entry in source.view() if entry.id == other.id]
            if any(not entry.is_master and entry.master == node.id for entry in entries):
                found.append(other)
        return found

    def _node(self, id: str) -> ClusterNode:
        return next(node for node in self.nodes if node.id == id)

    def failover(self, replica: ClusterNode) -> None:
        """Promote a replica with CLUSTER FAILOVER, and wait until all nodes agree."""

        def is_promoted() -> bool:
            return replica.own_entry().is_master

        deadline = time.monotonic() + WAIT_SECONDS
        while not is_promoted():
            assert time.monotonic() < deadline, f"{replica} does not become a master"
            replica.ask("CLUSTER", "FAILOVER")
            # The server gives a failover up after 5 seconds.
            pause = time.monotonic() + 6
            while not is_promoted() and time.monotonic() < pause:
                time.sleep(0.02)
        self.wait_until_ok()

    def wait_until_promoted(self, replica: ClusterNode, seconds: float = WAIT_SECONDS) -> None:
        """Wait until a replica has replaced its failed master, and the running nodes agree."""
        wait_until(
            lambda: replica.own_entry().is_master, seconds, f"{replica} does not become a master"
        )
        self.wait_until_ok()

    def begin_slot_move(self, slot: int, to: ClusterNode) -> None:
        """Mark a slot as importing and migrating: step 1 of 3."""
        source = self.owner_of(slot)
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)

    def move_keys(self, slot: int, to: ClusterNode, count: int | None = None) -> list[bytes]:
        """
        Move keys of a slot with MIGRATE: step 2 of 3.

        Args:
            slot: the slot.
            to: the node that imports the slot.
            count: the highest number of keys to move; all by default.

        Returns:
            The keys that were moved.
        """
        source = self.owner_of(slot)
        moved: list[bytes] = []
        with source.raw(socket_timeout=2 * _MIGRATE_SECONDS) as raw:
            while count is None or len(moved) < count:
                left = 100 if count is None else min(count - len(moved), 100)
                keys = raw.execute_command("CLUSTER", "GETKEYSINSLOT", slot, left)
                if not keys:
                    break
                raw.execute_command(
                    "MIGRATE", _HOST, to.port, "", 0, _MIGRATE_SECONDS * 1000, "KEYS", *keys
                )
                moved += keys
        return moved

    def end_slot_move(self, slot: int, to: ClusterNode) -> None:
        """Assign a slot to its new master, and wait until all running nodes agree: step 3 of 3."""
        masters = [node for node in self.running if node.own_entry().is_master]
        source = self.owner_of(slot)
        for node in dict.fromkeys([to, source, *masters]):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", to.id)
        wait_until(
            lambda: all(
                entry.has_slot(slot) == (entry.id == to.id)
                for node in self.running
                for entry in node.view()
            ),
            failure=f"the nodes do not agree that {to} has slot {slot}",
        )

    def move_slot(self, slot: int, to: ClusterNode) -> None:
        """Move a slot and its keys to another master."""
        self.begin_slot_move(slot, to)
        self.move_keys(slot, to)
        self.end_slot_move(slot, to)

    def wait_until_ok(self, seconds: float = WAIT_SECONDS) -> None:
        """
        Wait until the running nodes agree on all slots and roles.

        Then each of them reports cluster_state:ok, and the links of running replicas are up.
        """
        wait_until(lambda: self._problem() is None, seconds, self._problem)

    def _wait_until_complete(self, seconds: float = WAIT_SECONDS) -> None:
        wait_until(lambda: self._missing() is None, seconds, self._missing)

    def _problem(self) -> str | None:
        """Return why the running nodes do not form a cluster that is ok, or None."""
        running = self.running
        ids = {node.id for node in running}
        views = {node: node.view() for node in running}
        for node, view in views.items():
            if fields(node.ask("CLUSTER", "INFO")).get("cluster_state") != "ok":
                return f"{node} reports that the cluster is not ok: {view}"
            faulty = {"fail", "fail?", "handshake", "noaddr"}
            for entry in view:
                if entry.id in ids and entry.flags & faulty:
                    return f"{node} sees a fault: {entry}"
        roles = [
            sorted(
                (entry.id, entry.is_master, entry.master, entry.slots)
                for entry in view
                if entry.id in ids
            )
            for view in views.values()
        ]
        if not roles or any(each != roles[0] for each in roles):
            return f"the nodes do not agree: {roles}"
        covered = sum(last - first + 1 for *_role, slots in roles[0] for first, last in slots)
        if covered != SLOTS:
            return f"the running nodes have {covered} slots"
        for id, is_master, master, _slots in roles[0]:
            if not is_master and master in ids:
                state = self._node(id).info("replication")
                if state.get("master_link_status") != "up":
                    return f"{self._node(id)} is not connected with its master"
        return None

    def _missing(self) -> str | None:
        """Return why the cluster is not complete, or None."""
        if len(self.running) < len(self.nodes):
            return f"only these nodes run: {self.running}"
        problem = self._problem()
        if problem is not None:
            return problem
        roles = {node: node.own_entry() for node in self.nodes}
        for master in (node for node, entry in roles.items() if entry.is_master):
            replicas = [node for node, entry in roles.items() if entry.master == master.id]
            if len(replicas) != self._replicas:
                return f"{master} has {len(replicas)} replicas"
            if not are_in_step(master, replicas):
                return f"the replicas of {master} are not in step"
        return None

    def heal(self) -> None:
        """
        Repair everything that a test has left broken, and wait until the cluster is complete.

        Suspended nodes continue. A dead master is replaced by its replica before it starts again,
        so that its data is kept. A slot that was being moved is moved to the end.
        """
        for node in self.nodes:
            if node.is_alive and node.is_frozen:
                node.thaw()
        dead = [node for node in self.nodes if not node.is_alive]
        for node in dead:
            self._replace(node)
        for node in dead:
            node.launch()
        for node in dead:
            node.wait_until_ready()
        self._wait_until_complete()
        self._end_open_moves()
        self._wait_until_complete()

    def _replace(self, dead: ClusterNode) -> None:
        """Promote a replica of a dead node, if it has one, without a vote of the masters."""
        replicas = [node for node in self.replicas_of(dead) if node.is_running]
        if self.running and replicas:
            # The one that has read most.
            best = max(
                replicas, key=lambda node: int(node.info("replication")["slave_repl_offset"])
            )
            best.ask("CLUSTER", "FAILOVER", "TAKEOVER")
            wait_until(lambda: best.own_entry().is_master, failure=f"{best} is still a replica")

    def _end_open_moves(self) -> None:
        for node in self.masters:
            for slot in node.own_entry().importing:
                if self.owner_of(slot) is node:
                    node.ask("CLUSTER", "SETSLOT", slot, "STABLE")
                else:
                    self.move_slot(slot, node)
        for node in self.masters:
            for slot in node.own_entry().migrating:
                node.ask("CLUSTER", "SETSLOT", slot, "STABLE")


class RawKeys(CoreCommands):
    """
    redis-py's commands for keys of a cluster, to read and write raw keys.

    Each command goes to the master that owns its key. Commands without a key are not offered, but
    for ``keys``, ``scan_iter`` and ``time``.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._owners: dict[int, ClusterNode] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Do nothing: the connections are those of the nodes."""

    def close(self) -> None:
        """Do nothing: the connections are those of the nodes."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        keys = self._keys_of(args)
        if str(args[0]).upper() in _COUNTING and len(keys) > 1:
            return sum(self.execute_command(args[0], key, **options) for key in keys)
        slots = {slot_of(key) for key in keys}
        if len(slots) > 1:
            raise NotImplementedError(f"Keys in several slots: {keys}. Use one slot.")
        return self._execute_in(slots.pop(), args, options)

    def _keys_of(self, args: tuple[Any, ...]) -> list[bytes]:
        if str(args[0]).upper() in _FIRST_IS_KEY:
            return [args[1] if isinstance(args[1], bytes) else str(args[1]).encode()]
        # redis-py writes some commands as one word, such as "MEMORY USAGE".
        words = [*str(args[0]).split(), *args[1:]]
        try:
            return self._cluster.running[0].ask("COMMAND GETKEYS", *words)
        except exceptions.ResponseError as error:
            raise NotImplementedError(
                f"No command for a key: {args[0]!r} ({error}). Use raw() of one node."
            ) from error

    def _execute_in(self, slot: int, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            owner = self._owners.get(slot)
            if owner is None or not owner.is_running:
                owner = self._owners[slot] = self._cluster.owner_of(slot)
            try:
                if owner.is_running:
                    return owner.control.execute_command(*args, **options)
                assert time.monotonic() < deadline, f"{owner} does not run, and owns slot {slot}"
            except (
                exceptions.MovedError,  # before its base class AskError
                exceptions.TryAgainError,
                exceptions.ClusterDownError,
                exceptions.ReadOnlyError,
            ):
                if time.monotonic() > deadline:
                    raise
            except exceptions.AskError as error:
                return self._ask_other(error.port, args, options)
            self._owners.pop(slot, None)
            time.sleep(0.02)

    def _ask_other(self, port: int, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        target = next(node for node in self._cluster.nodes if node.port == port)
        with target.raw(protocol=2, single_connection_client=True) as raw:
            raw.execute_command("ASKING")
            return raw.execute_command(*args, **options)

    def keys(self, pattern: str | bytes = "*", **_options: Any) -> list[bytes]:
        """Return the keys of all masters that match the pattern."""
        return [key for node in self._cluster.masters for key in node.ask("KEYS", pattern)]

    def scan_iter(
        self, match: str | bytes | None = None, *_args: Any, **_options: Any
    ) -> Iterator[bytes]:
        """Yield the keys of all masters that match the pattern."""
        yield from self.keys(match or "*")

    def time(self, **_options: Any) -> tuple[int, int]:
        """Return the time of a server: seconds and microseconds."""
        return self._cluster.running[0].control.time()
