"""The processes of a run: producers, consumers and workers."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .topologies import OneServer, Topology

_ROOT = Path(__file__).parents[2]
_STOP_SECONDS = 60
#: The kinds of clients: ours in threads and on asyncio, npm's rsmq, and our worker.
CLIENTS = ("threads", "asyncio", "node", "worker")
_WORKER = "worker-1"


@dataclass
class Member:
    """
    A producer, a consumer or a worker, in the process that it has now.

    Attributes:
        name: its name.
        command: the command; FILE stands for the file of its records.
        starts: how often it was started.
    """

    name: str
    command: list[str]
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
        self, topology: Topology, folder: Path, clients: Sequence[str], rate: float, seed: int
    ) -> None:
        """
        Prepare the processes.

        Args:
            topology: the servers, which have been started.
            folder: for the records and logs.
            clients: some of ``CLIENTS``.
            rate: messages per second, of all producers together.
            seed: of their choices.
        """
        self._folder = folder
        self.producers: list[Member] = []
        self.consumers: list[Member] = []
        has_node = isinstance(topology, OneServer)  # Node's client knows one server only
        kinds = [each for each in clients if each != "worker" and (each != "node" or has_node)]
        share = str(rate / len(kinds))
        for role, members in (("producer", self.producers), ("consumer", self.consumers)):
            for kind in kinds:
                if kind == "node":
                    port = topology.url.rpartition(":")[2].partition("/")[0]
                    command = ["node_client", role, port, topology.ns, "FILE", share]
                else:
                    command = [
                        "client", role, kind, topology.url, topology.ns, "FILE", str(seed), share,
                        str(topology.replicas),
                    ]  # fmt: skip
                members.append(Member(f"{kind}-{role}", command))
        if "worker" in clients:
            command = ["worker", topology.url, topology.ns, "FILE", _WORKER, str(seed)]
            self.consumers.append(Member("worker", command))

    def start(self) -> None:
        """Start all processes, and wait until each has recorded a call."""
        for member in (*self.consumers, *self.producers):
            self._start(member)
        for member in (*self.consumers, *self.producers):
            while not self._has_recorded(member):
                if member.process.poll() is not None:
                    raise SystemExit(f"{member.name} does not start:\n{self._log_of(member)}")
                time.sleep(0.02)

    def _file_of(self, member: Member) -> Path:
        return self._folder / f"{member.name}-{member.starts}.jsonl"

    def _has_recorded(self, member: Member) -> bool:
        path = self._file_of(member)
        return path.exists() and path.stat().st_size > 0

    def _log_of(self, member: Member) -> str:
        return (self._folder / f"{member.name}.log").read_text()[-2000:]

    def _start(self, member: Member) -> None:
        member.starts += 1
        path = str(self._file_of(member))
        program, *arguments = (path if each == "FILE" else each for each in member.command)
        with (self._folder / f"{member.name}.log").open("ab") as log:
            member.process = subprocess.Popen(
                [sys.executable, "-m", f"scripts.chaos_runner.{program}", *arguments],
                cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                process_group=0,  # Ctrl-C of a terminal is for this process
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )  # fmt: skip

    def kill(self, chance: random.Random) -> str:
        """Kill a consumer, start another one in its place, and return its name."""
        member = chance.choice(self.consumers)
        member.process.kill()
        member.process.wait()
        self._start(member)
        return member.name

    def freeze(self, chance: random.Random) -> Member:
        """Suspend a consumer, and return it."""
        member = chance.choice(self.consumers)
        os.kill(member.process.pid, signal.SIGSTOP)
        return member

    def thaw(self, member: Member) -> None:
        """Continue a suspended process."""
        os.kill(member.process.pid, signal.SIGCONT)

    def stop(self, members: list[Member]) -> list[str]:
        """End processes, and return why some of them have not ended well."""
        problems = []
        for member in members:
            member.process.terminate()
        for member in members:
            try:
                problem = str(member.process.wait(_STOP_SECONDS) or "")
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
                problem = "no end after SIGTERM"
            if problem:
                problems.append(f"{member.name} has failed ({problem}):\n{self._log_of(member)}")
        return problems

    def kill_all(self) -> None:
        """Kill all processes."""
        for member in (*self.producers, *self.consumers):
            if member.starts:
                member.process.kill()
                member.process.wait()


def _end_with_parent() -> None:
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)
