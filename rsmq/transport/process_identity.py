"""
Facts by which another process can see whether a process has died.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")


def place() -> str:
    """Where this process's number is its own: the same machine, since the same start."""
    try:
        return f"{_BOOT.read_text().strip()} {os.readlink(_PROCESSES)}"  # noqa: PTH115 - no path
    except OSError:
        return ""


def born(pid: int) -> str:
    """When a process of this place began, as the system counts; empty if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]  # Z, X: dead, and nobody has asked
    except (OSError, IndexError):
        return ""


def facts() -> dict[str, Any]:
    """What a process says of itself, that does not change."""
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "place": place(),
        "born": born(pid),
        "since_ms": round(time.time() * 1000),
    }


def died(says: str) -> bool:
    """Whether it can be seen from here that the process that says this has died."""
    try:
        info = json.loads(says)
    except ValueError:
        return False
    here = place()
    if not here or info.get("place") != here:
        return False
    return not info.get("born") or born(int(info.get("pid", 0))) != info["born"]
