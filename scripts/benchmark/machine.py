"""The machine and the versions that the figures were measured on."""

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
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
#: The machines of the published runs: the file in ``measured``, and the KiB of the second-level
#: cache of a core, which tells kinds of processors apart. Names of virtual machines are vague.
PUBLISHED = {"EPYC": ("bench.md", 1024), "Xeon": ("bench-xeon.md", 1280)}
#: The largest difference of two sizes that count as the same.
_SAME_SIZE = 0.1
_CAN_PIN = hasattr(os, "sched_setaffinity")


def facts() -> dict[str, Any]:
    """Return the hardware and the operating system."""
    return {
        "cpu": _cpu_model(),
        "processors": os.cpu_count(),
        "second_level_cache_kib": second_level_cache_kib(),
        "on_one_processor": _CAN_PIN,
        "system": f"{platform.system()} {platform.release()}",
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def second_level_cache_kib() -> int | None:
    """Return the size of the second-level cache of a core; None if the system does not say it."""
    for cache in sorted(CACHES.glob("index*")):
        if (cache / "level").read_text().strip() == "2":
            return int((cache / "size").read_text().strip().removesuffix("K"))
    return None


def find_published(cache_kib: int | None) -> str | None:
    """Return the machine of a published run whose cache has about this size; None if none has."""
    sizes = {name: kib for name, (_, kib) in PUBLISHED.items()}
    alike = (n for n, kib in sizes.items() if cache_kib and abs(cache_kib / kib - 1) <= _SAME_SIZE)
    return next(alike, None)


def use_all_processors() -> None:
    """Allow this process, and all that it starts from now on, to use all processors again."""
    if _CAN_PIN:
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))


def pin_to_one_processor() -> None:
    """
    Pin this process, and all that it starts from now on, to one processor, if the system allows it.

    Otherwise the scheduler decides in each slice which process shares a processor with the server.
    That has more effect than the client, because waking another processor can take longer than a
    message.
    """
    if _CAN_PIN:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def versions(server: Server) -> dict[str, str]:
    """Return the versions of the server, of this library and of its dependencies."""
    return {
        "Redis": server.client.info("server")["redis_version"],
        "Python": platform.python_version(),
        "rsmq": version("rsmq"),
        "redis-py": version("redis"),
        "hiredis": version("hiredis"),
    }


def versions_of(contenders: Iterable[Contender]) -> dict[str, str]:
    """Return the versions of the programs and packages that the other contenders use."""
    versions_by_name = {}
    for contender in contenders:
        versions_by_name |= contender.request("versions")
    return versions_by_name


def _cpu_model() -> str:
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
