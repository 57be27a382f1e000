"""
The costs of workers and jobs beside other systems: the program behind ``scripts/bench --costs``.

Each system has a worker with its defaults, on a server of its own, and the same job, which returns
a short text. Round trips are the reads of Redis from sockets; commands are those that Redis runs,
with those of scripts.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsmq import RSMQ
from scripts.benchmark import machine
from scripts.benchmark.contender import FOLDER, Contender
from scripts.benchmark.figures import Track
from scripts.benchmark.processes import cpu_seconds, memory_mb
from scripts.benchmark.server import Server

HOME = FOLDER / "python" / "costs"
TIMEOUT_SECONDS = 1200.0
TRACKED, UNTRACKED = "1", "0"


@dataclass(frozen=True)
class System:
    """
    A system whose costs are measured.

    Attributes:
        label: its name.
        command: its program.
        unfinished: the commands that count the unfinished jobs of a queue.
        package: the package of Python that its users import; empty for others.
        has_queues: whether one worker serves several queues.
        most_jobs: how many jobs at most are handled in one measurement.
        most_workers: how many idle workers at most are started.
    """

    label: str
    command: Sequence[str]
    unfinished: Sequence[tuple[str, str]]
    package: str = ""
    has_queues: bool = True
    most_jobs: int = 100_000
    most_workers: int = 10


def _other(name: str, environment: str = ".venv-workers") -> tuple[str, ...]:
    python = FOLDER / "python" / environment / "bin" / "python"
    # -E: PYTHONPATH might lead to another package.
    return (str(python), "-E", str(HOME / f"{name}_.py"))


OURS = System(
    "rsmq", (sys.executable, str(HOME / "ours.py")), [("ZCARD", "rsmq:{}")], "rsmq.tasks",
    most_workers=100,
)  # fmt: skip
SYSTEMS = (
    OURS,
    System(
        "Celery", _other("celery", ".venv-celery"), [("LLEN", "{}"), ("HLEN", "unacked")], "celery",
        most_jobs=20_000,
    ),
    System(
        "RQ", _other("rq"), [("LLEN", "rq:queue:{}"), ("ZCARD", "rq:wip:{}")], "rq",
        most_jobs=1_000,
    ),
    System("dramatiq", _other("dramatiq"), [("HLEN", "dramatiq:{}.msgs")], "dramatiq"),
    System("arq", _other("arq"), [("ZCARD", "{}")], "arq", has_queues=False, most_jobs=20_000),
    System(
        "SAQ", _other("saq"), [("ZCARD", "saq:{}:incomplete")], "saq",
        has_queues=False, most_jobs=20_000,
    ),
    System(
        "BullMQ", ("node", str(FOLDER / "node" / "costs.js")),
        [("LLEN", "bull:{}:wait"), ("LLEN", "bull:{}:active")],
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Extent:
    """How much is measured: jobs, numbers of workers and queues, seconds, repetitions."""

    waiting: int = 10_000
    finished: int = 5_000
    jobs: int = 100_000
    jobs_of_queues: int = 5_000
    queues: Sequence[int] = (1, 10, 100)
    workers: Sequence[int] = (1, 10, 100)
    waits: int = 1_000
    idle_seconds: float = 20.0
    settle_seconds: float = 5.0
    starts: int = 5


FULL = Extent()
QUICK = Extent(20, 20, 50, 20, (1, 2), (1,), 20, 0.2, 0.2, 1)


class Bench:
    """One system on a server."""

    def __init__(self, system: System, server: Server) -> None:
        self.system, self.server = system, server

    def send(self, count: int, size: int, tracked: str = UNTRACKED, queues: int = 1) -> None:
        """Send jobs, one after the other; size 0 is the body of the first job."""
        arguments = ["send", str(count), str(size), tracked]
        subprocess.run(self.command(queues, *arguments), check=True, cwd=HOME)

    @contextmanager
    def work(self, queues: int = 1, first: str = "", tracked: str = UNTRACKED) -> Iterator[int]:
        """Run a worker in a process during the block, and pass its id."""
        process = subprocess.Popen(
            self.command(queues, "work", tracked),
            cwd=HOME,
            env=os.environ | {"COSTS_FIRST": first},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def finish(self, queues: int = 1) -> None:
        """Wait until no job is left."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        names = [f"q{number}" for number in range(queues)]
        while any(
            self.server.client.execute_command(command, key.format(name))
            for name in names
            for command, key in self.system.unfinished
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.system.label}: jobs are left")
            time.sleep(0.2)

    def counts(self) -> tuple[int, int]:
        """Return the commands that Redis has run, and its reads from sockets, without these."""
        found = self.server.client.info("everything")
        calls = sum(
            value["calls"]
            for name, value in found.items()
            if name.startswith("cmdstat_") and name != "cmdstat_info"
        )
        return calls, found["total_reads_processed"] - found.get("cmdstat_info", {"calls": 0})[
            "calls"
        ]

    def rates(self, extent: Extent) -> list[float]:
        """Return the commands and the reads a second, measured for some seconds."""
        before, begin = self.counts(), time.monotonic()
        time.sleep(extent.idle_seconds)
        after, seconds = self.counts(), time.monotonic() - begin
        return [(new - old) / seconds for old, new in zip(before, after, strict=True)]

    def memory(self) -> int:
        """Return the bytes that Redis uses."""
        return int(self.server.client.info("memory")["used_memory"])

    def command(self, queues: int, *arguments: str) -> list[str]:
        """Return the command of a program of the system."""
        return [*self.system.command, str(self.server.port), str(queues), *arguments]


def measure(extent: Extent, track: Track, systems: Sequence[System] = SYSTEMS) -> dict[str, Any]:
    """Return the costs of systems by their labels, and of what machine and versions."""
    with Server() as server:
        versions = machine.versions(server)
    results: dict[str, Any] = {}
    for system in track(systems, description="Costs of systems"):
        found: dict[str, Any] = {}
        for part in (_waiting, _finished, _per_job, _start, _idle, _long, _queues, _import):
            part(system, extent, found)
        results[system.label] = found
    _waits(extent, results[OURS.label])
    results |= _messages(extent)
    return {"machine": machine.facts(), "versions": versions, "costs": results}


def _waiting(system: System, extent: Extent, found: dict[str, Any]) -> None:
    """Measure the memory of waiting jobs."""
    for size in (100, 10_000):
        with Server() as server:
            bench = Bench(system, server)
            bench.send(10, size)
            before = bench.memory()
            bench.send(extent.waiting, size)
            found[f"bytes waiting {size}"] = (bench.memory() - before) / extent.waiting


def _finished(system: System, extent: Extent, found: dict[str, Any]) -> None:
    """Measure the memory that finished jobs leave, with a result and without."""
    for kind, tracked in (("result", TRACKED), ("no result", UNTRACKED)):
        with Server() as server:
            bench = Bench(system, server)
            memory = []
            number = min(extent.finished, system.most_jobs)
            for count in (100, number):
                bench.send(count, 100, tracked)
                with bench.work(tracked=tracked):
                    bench.finish()
                memory.append(bench.memory())
            found[f"bytes finished, {kind}"] = (memory[1] - memory[0]) / number


def _per_job(system: System, extent: Extent, found: dict[str, Any]) -> None:
    """Measure the commands and the round trips of a job: of its send, and of a worker's."""
    for kind, tracked in (("result", TRACKED), ("no result", UNTRACKED)):
        with Server() as server:
            bench = Bench(system, server)
            bench.send(10, 100, tracked)
            marks = [bench.counts()]
            number = min(extent.finished, system.most_jobs)
            bench.send(number, 100, tracked)
            marks.append(bench.counts())
            with bench.work(tracked=tracked):
                bench.finish()
                marks.append(bench.counts())
            for place, name in ((0, "send"), (1, "work")):
                found[f"{name}, {kind}"] = [
                    (after - before) / number
                    for before, after in zip(marks[place], marks[place + 1], strict=True)
                ]


def _start(system: System, extent: Extent, found: dict[str, Any]) -> None:
    """Measure the time from the start of a worker to the begin of its first job."""
    seconds, processor = [], []
    for _ in range(extent.starts):
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            bench, first = Bench(system, server), Path(folder, "first")
            bench.send(1, 0)
            begin = time.monotonic()
            with bench.work(first=str(first)) as pid:
                while not first.exists():
                    if time.monotonic() > begin + TIMEOUT_SECONDS:
                        raise TimeoutError(f"{system.label}: no first job")
                    time.sleep(0.002)
                processor.append(cpu_seconds(pid))
                seconds.append(float(first.read_text()) - begin)
    found["start seconds"] = statistics.median(seconds)
    found["start processor"] = statistics.median(processor)


def _idle(system: System, extent: Extent, found: dict[str, Any]) -> None:
    """Measure the commands of idle workers, and the memory of one."""
    for number in extent.workers:
        if number > system.most_workers:
            continue
        with Server() as server, ExitStack() as stack:
            bench = Bench(system, server)
            bench.send(1, 100)
            pids = [stack.enter_context(bench.work()) for _ in range(number)]
            bench.finish()
            time.sleep(extent.settle_seconds * (1 + number / 10))
            found[f"idle {number}"] = bench.rates(extent)
            if number == 1:
                found["memory idle"] = memory_mb(pids[0])


def _long(system: System, extent: Extent, found: dict[str, Any]) -> None:
    """Measure the memory of a worker after many jobs."""
    count = min(extent.jobs, system.most_jobs)
    with Server() as server:
        bench = Bench(system, server)
        bench.send(count, 100)
        with bench.work() as pid:
            bench.finish()
            found["memory after"] = memory_mb(pid)
        found["jobs"] = count


def _queues(system: System, extent: Extent, found: dict[str, Any]) -> None:
    """Measure the processor time of a job in a worker of several queues, and in Redis."""
    for queues in extent.queues if system.has_queues else (1,):
        with Server() as server:
            bench = Bench(system, server)
            with bench.work(queues) as pid:
                bench.send(queues, 100, queues=queues)
                bench.finish(queues)
                time.sleep(extent.settle_seconds)
                marks = [(cpu_seconds(pid), server.cpu_seconds())]
                number = min(extent.jobs_of_queues, system.most_jobs)
                bench.send(number, 100, queues=queues)
                bench.finish(queues)
                marks.append((cpu_seconds(pid), server.cpu_seconds()))
        worker, redis = (after - before for before, after in zip(*marks, strict=True))
        found[f"queues {queues}"] = [each / number * 1e6 for each in (worker, redis)]


def _import(system: System, extent: Extent, found: dict[str, Any]) -> None:
    """Measure the processor time of an import."""
    if system.package:
        python = system.command[0]
        found["import"] = _processor_of(python, f"import {system.package}", extent) - _processor_of(
            python, "pass", extent
        )


def _processor_of(python: str, code: str, extent: Extent) -> float:
    times = []
    for _ in range(extent.starts * 2 + 1):
        before = os.times()
        subprocess.run([python, "-c", code], check=True, cwd=HOME)
        after = os.times()
        times.append(
            after.children_user + after.children_system
            - before.children_user - before.children_system
        )  # fmt: skip
    return statistics.median(times)


def _waits(extent: Extent, found: dict[str, Any]) -> None:
    """Measure the commands of many waiting receives of this library, in one process."""
    for queues in (1, extent.waits):
        with Server() as server:
            bench = Bench(OURS, server)
            command = bench.command(queues, "wait", str(extent.waits))
            waiting = subprocess.Popen(command, cwd=HOME, start_new_session=True)
            try:
                time.sleep(extent.settle_seconds * 2)
                found[f"waits {queues}"] = bench.rates(extent)
            finally:
                waiting.terminate()
                waiting.wait()


def _messages(extent: Extent) -> dict[str, dict[str, float]]:
    """Measure the memory of plain messages of this library and of the Node client."""
    ours, node = [sys.executable, str(FOLDER / "python" / "ours.py")], [
        "node", str(FOLDER / "node" / "rsmq.js")
    ]  # fmt: skip
    results = {}
    for label, command in (("rsmq, send_message", ours), ("Node rsmq, sendMessage", node)):
        found = results[label] = {}
        for size in (100, 10_000):
            with Server() as server, Contender(label, command, server.port) as contender:
                RSMQ.from_url(server.url).create_queue("q0", maxsize=-1)
                memory = []
                for count in (10, extent.waiting):
                    contender.request(
                        "run", action="send", way="from_url", queue="q0", body="x" * size,
                        count=count, step=1,
                    )  # fmt: skip
                    memory.append(int(server.client.info("memory")["used_memory"]))
                found[f"bytes waiting {size}"] = (memory[1] - memory[0]) / extent.waiting
    return results
