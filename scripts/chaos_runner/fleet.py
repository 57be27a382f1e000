"""The processes of a run: producers, consumers and workers."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .topologies import OneServer, Topology

_ROOT = Path(__file__).parents[2]
_STOP_SECONDS = 60
#: The kinds of clients: ours in threads and on asyncio, npm's rsmq, and our worker.
CLIENTS = ("threads", "asyncio", "node", "worker")
#: So many calls of tasks are sent by each of our kinds, beside the messages.
_TASK_SHARE = 0.03


@dataclass
class Member:
    """
    A producer, a consumer or a worker, in the process that it has now.

    Attributes:
        name: its name.
        command: the command; FILE stands for the file of its records.
        environment: variables of the environment, in the same way.
        starts: how often it was started.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    starts: int = 0
    process: subprocess.Popen[bytes] = field(init=False)


class Fleet:
    """
    All processes of a run.

    Attributes:
        producers: those that send.
        consumers: those that receive, workers too.
    """

    def __init__(
        self,
        folder: Path,
        producers: Sequence[Member],
        consumers: Sequence[Member],
        *,
        is_supervised: bool = False,
    ) -> None:
        """
        Prepare the processes.

        Args:
            folder: for the records and logs.
            producers: those that send.
            consumers: those that receive.
            is_supervised: whether a consumer that ends is started again; otherwise it is a fault.
        """
        self._is_supervised = is_supervised
        self._folder = folder
        self.producers = producers
        self.consumers = consumers

    def start(self) -> None:
        """Start all processes, and wait until each of them heeds SIGTERM."""
        for member in (*self.consumers, *self.producers):
            self._start(member)
        for member in (*self.consumers, *self.producers):
            if not self._wait_until_ready(member):
                raise SystemExit(f"{member.name} does not start:\n{self._log_of(member)}")

    def _wait_until_ready(self, member: Member) -> bool:
        """Wait until a process heeds SIGTERM, or has ended; return whether it is ready."""
        while not self._file_of(member).exists():
            if member.process.poll() is not None:
                return False
            time.sleep(0.02)
        return True

    def _file_of(self, member: Member) -> Path:
        """Return the file that a process makes when it heeds SIGTERM."""
        return self._folder / f"{_client(member)}.jsonl"

    def _log_of(self, member: Member) -> str:
        return (self._folder / f"{member.name}.log").read_text()[-2000:]

    def _start(self, member: Member) -> None:
        member.starts += 1
        path = str(self._file_of(member))
        environment = {
            name: path if each == "FILE" else each for name, each in member.environment.items()
        }
        with (self._folder / f"{member.name}.log").open("ab") as log:
            member.process = subprocess.Popen(
                [path if each == "FILE" else each for each in member.command],
                cwd=_ROOT, env={**os.environ, **environment},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                process_group=0,  # Ctrl-C of a terminal is for this process
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )  # fmt: skip

    def kill(self, chance: random.Random) -> dict[str, str]:
        """Kill a consumer, start another one in its place, and return its name and its client."""
        member = chance.choice(self.consumers)
        facts = {"target": member.name, "client": _client(member)}
        _kill(member)
        self._start(member)
        return facts

    def revive(self) -> None:
        """Start consumers again that have ended, as a supervisor does, if there is one."""
        for member in self.consumers if self._is_supervised else ():
            if member.process.poll() is not None:
                self._start(member)

    def freeze(self, chance: random.Random) -> Member:
        """Suspend a consumer, and return it."""
        member = chance.choice(self.consumers)
        os.kill(member.process.pid, signal.SIGSTOP)
        return member

    def thaw(self, member: Member) -> dict[str, str]:
        """Continue a suspended process, and return its name and its client."""
        os.kill(member.process.pid, signal.SIGCONT)
        return {"target": member.name, "client": _client(member)}

    def stop(self, members: Sequence[Member]) -> list[str]:
        """End processes, and return why some of them have not ended well."""
        problems = []
        for member in members:
            if not self._is_supervised:  # else an end at its start is none of its faults
                self._wait_until_ready(member)
            member.process.terminate()
        for member in members:
            try:
                problem = str(member.process.wait(_STOP_SECONDS) or "")
            except subprocess.TimeoutExpired:
                problem = "no end after SIGTERM"
            if problem:
                problems.append(f"{member.name} has failed ({problem}):\n{self._log_of(member)}")
        return problems

    def kill_all(self) -> None:
        """Kill all processes that were started."""
        for member in (*self.producers, *self.consumers):
            if member.starts:
                _kill(member)


def _client(member: Member) -> str:
    """Return the name in the history of the process that a member has now."""
    return f"{member.name}-{member.starts}"


def _kill(member: Member) -> None:
    """Kill a process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(member.process.pid, signal.SIGKILL)
    member.process.wait()


def _end_with_parent() -> None:
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)


def our_fleet(
    topology: Topology, folder: Path, clients: Sequence[str], rate: float, seed: int
) -> Fleet:
    """
    Return the clients of a run.

    Args:
        topology: the servers, which have been started.
        folder: for the records and logs.
        clients: some of ``CLIENTS``.
        rate: messages per second, of all producers together, without those of tasks.
        seed: of the choices of consumers.
    """
    kinds = [each for each in clients if each != "worker"]
    if "node" in kinds and not _has_node(topology):
        kinds.remove("node")
    share = str(rate / len(kinds))
    members: dict[str, list[Member]] = {"producer": [], "consumer": []}
    for role, members_of_role in members.items():
        for kind in kinds:
            if kind == "node":
                port = topology.url.rpartition(":")[2].partition("/")[0]
                command = ["node_client", role, port, topology.ns, "FILE", share]
            else:
                command = [
                    "client", role, kind, topology.url, topology.ns, "FILE", str(seed), share,
                    str(topology.replicas),
                ]  # fmt: skip
            members_of_role.append(Member(f"{kind}-{role}", _program(*command)))
    if "worker" in clients:
        for kind in sorted({"threads", "asyncio"} & set(kinds)):
            command = [
                "task_client", kind, topology.url, topology.ns, "FILE", str(seed),
                str(rate * _TASK_SHARE),
            ]  # fmt: skip
            members["producer"].append(Member(f"{kind}-tasks", _program(*command)))
        command = ["worker", topology.url, topology.ns, "FILE", "worker-1", str(seed)]
        members["consumer"].append(Member("worker", _program(*command)))
    return Fleet(folder, members["producer"], members["consumer"])


def _has_node(topology: Topology) -> bool:
    if not isinstance(topology, OneServer):
        return False  # Node's client knows one server only
    has_node = (_ROOT / "compat" / "node" / "node_modules" / "rsmq").exists()
    if not has_node:
        print("Without Node's client, which scripts/peers installs.", flush=True)
    return has_node


def _program(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"scripts.chaos_runner.{name}", *arguments]
