"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scripts.benchmark.contender import Contender
from scripts.benchmark.server import Server

CPU_INFO = Path("/proc/cpuinfo")
_CAN_SETTLE = hasattr(os, "sched_setaffinity")


def facts() -> dict[str, Any]:
    """The hardware and the system."""
    return {
        "cpu": _cpu_model(),
        "processors": os.cpu_count(),
        "on_one_processor": _CAN_SETTLE,
        "system": f"{platform.system()} {platform.release()}",
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def use_all_processors() -> None:
    """Run this process, and all that it starts from now on, on any processor again."""
    if _CAN_SETTLE:
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))


def settle_on_one_processor() -> None:
    """
    Run this process, and all that it starts from now on, on one processor, where that is possible.

    Otherwise the process that shares one with the server is the scheduler's choice, made anew in
    each slice, and counts more than which client it is: to wake another processor can take longer
    than a message.
    """
    if _CAN_SETTLE:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def versions(server: Server) -> dict[str, str]:
    """The server, and what this library runs on."""
    return {
        "Redis": server.client.info("server")["redis_version"],
        "Python": platform.python_version(),
        "rsmq": version("rsmq"),
        "redis-py": version("redis"),
        "hiredis": version("hiredis"),
    }


def versions_of(contenders: Iterable[Contender]) -> dict[str, str]:
    """The programs and packages that others run on."""
    found = {}
    for contender in contenders:
        found |= contender.ask("versions")
    return found


def _cpu_model() -> str:
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
