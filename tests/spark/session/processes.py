"""The processes of a Spark application, found in /proc, to kill one of them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_WORKER = "pyspark.daemon pyspark.worker"
_SOURCE = "python_streaming_source_runner"


@dataclass(frozen=True)
class Process:
    """
    A process that runs.

    Attributes:
        pid: its id.
        parent: the id of its parent.
        command: its command line, with spaces between arguments.
    """

    pid: int
    parent: int
    command: str


def list_processes():
    """Return all processes that run, by id, without those that have ended."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            # The name in parentheses may have spaces.
            state, parent, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if state != "Z":
                pid = int(folder.name)
                found[pid] = Process(pid, int(parent), command)
    return found


def _has_ancestor(processes, process, pids):
    while process is not None:
        if process.parent in pids:
            return True
        process = processes.get(process.parent)
    return False


def find_executors(mark):
    """Return the ids of the JVMs of executors whose options have the mark."""
    return [
        each.pid
        for each in list_processes().values()
        if mark in each.command and _EXECUTOR in each.command and "java" in each.command.split()[0]
    ]


def find_python_workers(folder):
    """
    Return the ids of the Python processes of executors: the daemons and their workers.

    Workers whose daemon was killed live on without it, and executors continue to use them.

    Args:
        folder: the folder in whose subfolders the executors run.
    """
    found = []
    for each in list_processes().values():
        if _WORKER not in each.command:
            continue
        with suppress(OSError):  # it may have ended
            if Path(folder) in Path(f"/proc/{each.pid}/cwd").readlink().parents:
                found.append(each.pid)
    return found


def find_sources(job):
    """Return the ids of the processes of streaming sources, of the application of a process."""
    processes = list_processes()
    return [
        each.pid
        for each in processes.values()
        if _SOURCE in each.command and _has_ancestor(processes, each, {job})
    ]


def kill_marked(variable):
    """Kill all processes that have inherited an environment variable, written NAME=value."""
    for each in list_processes().values():
        with suppress(OSError):
            environment = Path(f"/proc/{each.pid}/environ").read_bytes().split(b"\0")
            if variable.encode() in environment:
                os.kill(each.pid, signal.SIGKILL)
