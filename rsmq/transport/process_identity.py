"""
The identity of a process, by which another process can find out that it has died.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def pid_scope() -> str:
    """
    Return the scope in which the process ids that this process sees are unique.

    It consists of the id of the boot of the machine and of the PID namespace. Empty if the system
    does not provide them.
    """
    try:
        return f"{_BOOT_ID.read_text().strip()} {os.readlink(_PID_NAMESPACE)}"  # noqa: PTH115 - no path
    except OSError:
        return ""


def start_time(pid: int) -> str:
    """Return when a process started, in clock ticks since the boot; empty if it is not running."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]  # Z, X: dead, its parent has not waited yet
    except (OSError, IndexError):
        return ""


def describe_process() -> dict[str, Any]:
    """Return the identity of this process, which does not change except for ``since_ms``."""
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "place": pid_scope(),
        "born": start_time(pid),
        "since_ms": round(time.time() * 1000),
    }


def has_died(identity: str) -> bool:
    """
    Return whether a process has certainly died; False if this can't be seen from here.

    Args:
        identity: the JSON text of what ``describe_process`` returned in that process.
    """
    try:
        info = json.loads(identity)
    except ValueError:
        return False
    scope = pid_scope()
    if not scope or not isinstance(info, dict) or info.get("place") != scope:
        return False
    return not info.get("born") or start_time(int(info.get("pid", 0))) != info["born"]
