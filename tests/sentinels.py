"""A Redis primary with replicas and three Sentinels, which tests break and repair."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import redis

from tests.nodes import Node, are_in_step, wait_until
from tests.scale import WAIT_SECONDS

NAME = "mymaster"
_HOST = "127.0.0.1"
_SENTINELS = 3
_QUORUM = 2
#: A Sentinel first asks a new primary after a second. With less time than that it counts as down.
_DOWN_AFTER_MILLISECONDS = 1500
_FAILOVER_MILLISECONDS = 3000


class SentinelGroup:
    """
    One primary, its replicas and three Sentinels on loopback.

    A server that is killed loses its data, unless ``options`` has ``appendonly yes``. If a replica
    has been promoted before it is started again, it copies the data from there.

    Attributes:
        servers: the primary of the start, then the replicas of the start.
        sentinels: the Sentinels.
        password: the password of the servers, or None.
        sentinel_password: the password of the Sentinels, or None.
    """

    def __init__(
        self,
        binary: str,
        *,
        replicas: int = 1,
        password: str | None = None,
        sentinel_password: str | None = None,
        options: Iterable[str] = (),
        down_after_milliseconds: int = _DOWN_AFTER_MILLISECONDS,
    ) -> None:
        """
        Prepare the processes; ``start`` starts them.

        Args:
            binary: the path of the server program.
            replicas: the number of replicas.
            password: the password of the servers.
            sentinel_password: the password of the Sentinels.
            options: more lines of each server's configuration.
            down_after_milliseconds: for how long a server may not answer before it counts as down.
        """
        self.password = password
        self.sentinel_password = sentinel_password
        self.servers: list[Node] = []
        self.sentinels: list[Node] = []
        self._binary = binary
        self._replicas = replicas
        self._down_after_milliseconds = down_after_milliseconds
        self._config = ["repl-diskless-sync yes", "repl-diskless-sync-delay 0", *options]
        if password is not None:
            self._config.append(f"masterauth {password}")

    @property
    def url(self) -> str:
        hosts = ",".join(f"{_HOST}:{node.port}" for node in self.sentinels)
        user = "" if self.password is None else f":{self.password}@"
        query = (
            "" if self.sentinel_password is None else f"?sentinel_password={self.sentinel_password}"
        )
        return f"redis+sentinel://{user}{hosts}/{NAME}/0{query}"

    def start(self) -> None:
        """Start all processes, and wait until the Sentinels know each other and the replicas."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        primary = Node(self._binary, self._config, password=self.password)
        self.servers.append(primary)
        primary.start()
        for _ in range(self._replicas):
            config = [*self._config, f"replicaof {_HOST} {primary.port}"]
            self.servers.append(Node(self._binary, config, password=self.password))
            self.servers[-1].launch()
        for node in self.servers:
            node.wait_until_ready()
        # A Sentinel asks the primary for its replicas only every 10 seconds.
        wait_until(lambda: are_in_step(primary, self.servers[1:]), failure="replicas not in step")
        config = [
            f"sentinel monitor {NAME} {_HOST} {primary.port} {_QUORUM}",
            f"sentinel down-after-milliseconds {NAME} {self._down_after_milliseconds}",
            f"sentinel failover-timeout {NAME} {_FAILOVER_MILLISECONDS}",
        ]
        if self.password is not None:
            config.append(f"sentinel auth-pass {NAME} {self.password}")
        if self.sentinel_password is not None:
            config.append(f"sentinel sentinel-pass {self.sentinel_password}")
        for _ in range(_SENTINELS):
            self.sentinels.append(
                Node(self._binary, config, password=self.sentinel_password, is_sentinel=True)
            )
            self.sentinels[-1].launch()
        for node in self.sentinels:
            node.wait_until_ready()
        self._wait_until_complete()

    def stop(self) -> None:
        """End all processes, and remove their folders."""
        for node in (*self.sentinels, *self.servers):
            node.stop()

    @property
    def primary(self) -> Node:
        """The server that most running Sentinels name as the primary."""
        ports: Counter[int] = Counter()
        for sentinel in self.sentinels:
            if sentinel.is_running:
                _host, port = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
                ports[int(port)] += 1
        assert ports, "no Sentinel runs"
        port = ports.most_common(1)[0][0]
        return next(node for node in self.servers if node.port == port)

    @property
    def replicas(self) -> list[Node]:
        """All servers but the primary."""
        primary = self.primary
        return [node for node in self.servers if node is not primary]

    def count_failovers(self) -> int:
        """Return how many failovers the Sentinels have logged, also unplanned ones."""
        logs = [node.folder / "server.log" for node in self.sentinels]
        return max(log.read_text().count(" +switch-master ") for log in logs)

    def raw(self, **options: object) -> redis.Redis:
        """Return a client of the current primary, without retries."""
        return self.primary.raw(**options)

    def failover(self) -> None:
        """Promote a replica with SENTINEL FAILOVER, and wait until the Sentinels agree."""
        old = self.primary
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._is_replaced(old):
            assert time.monotonic() < deadline, f"{old} is still the primary"
            with suppress(redis.exceptions.ResponseError):
                # Refused while no replica is ready, or while another failover runs.
                self._observer().ask("SENTINEL", "FAILOVER", NAME)
            pause = time.monotonic() + 2
            while not self._is_replaced(old) and time.monotonic() < pause:
                time.sleep(0.02)

    def wait_until_promoted(self, old: Node, seconds: float = WAIT_SECONDS) -> None:
        """Wait until another server than ``old`` is the primary for all running Sentinels."""
        wait_until(
            lambda: self._is_replaced(old),
            seconds,
            lambda: "\n".join([f"{old} is still the primary", *(s.log() for s in self.sentinels)]),
        )

    def _observer(self) -> Node:
        return next(node for node in self.sentinels if node.is_running)

    def _is_replaced(self, old: Node) -> bool:
        ports = {
            int(node.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])
            for node in self.sentinels
            if node.is_running
        }
        if len(ports) != 1 or old.port in ports:
            return False
        new = self.primary
        return new.is_running and new.info("replication")["role"] == "master"

    def heal(self) -> None:
        """
        Repair everything that a test has left broken, and wait until the group is complete.

        Suspended processes continue. A dead primary is replaced by a replica before it starts
        again, so that its data is kept.
        """
        for node in (*self.sentinels, *self.servers):
            if node.is_alive and node.is_frozen:
                node.thaw()
        self._restart([node for node in self.sentinels if not node.is_alive])
        primary = self.primary
        if not primary.is_alive and any(node.is_alive for node in self.servers):
            self.wait_until_promoted(primary)
        self._restart([node for node in self.servers if not node.is_alive])
        self._wait_until_complete()

    @staticmethod
    def _restart(nodes: list[Node]) -> None:
        for node in nodes:
            node.launch()
        for node in nodes:
            node.wait_until_ready()

    def _wait_until_complete(self, seconds: float = WAIT_SECONDS) -> None:
        wait_until(lambda: self._missing() is None, seconds, self._missing)

    def _missing(self) -> str | None:
        """Return why the group is not complete, or None. Attach servers that are not replicas."""
        primary = self.primary
        for sentinel in self.sentinels:
            problem = self._problem_of(sentinel, primary)
            if problem is not None:
                return problem
        if primary.info("replication")["role"] != "master":
            return f"{primary} is not a primary"
        replicas = self.replicas
        for replica in replicas:
            if replica.info("replication").get("master_port") != str(primary.port):
                # The Sentinels do the same, but after 8 seconds.
                replica.ask("REPLICAOF", _HOST, primary.port)
                return f"{replica} was not a replica of {primary}"
        return None if are_in_step(primary, replicas) else f"{replicas} are not in step"

    def _problem_of(self, sentinel: Node, primary: Node) -> str | None:
        state = _pairs(sentinel.ask("SENTINEL", "MASTER", NAME))
        if state["flags"] != "master" or state["port"] != str(primary.port):
            return f"{sentinel} does not see {primary} as a healthy primary: {state}"
        if int(state["num-other-sentinels"]) != _SENTINELS - 1:
            return f"{sentinel} does not see all Sentinels: {state}"
        replicas = [_pairs(each) for each in sentinel.ask("SENTINEL", "REPLICAS", NAME)]
        if sum(each["flags"] == "slave" for each in replicas) != self._replicas:
            return f"{sentinel} does not see all replicas: {replicas}"
        return None


def _pairs(reply: list[bytes]) -> dict[str, str]:
    words: list[Any] = [word.decode() for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))
