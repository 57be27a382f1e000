"""
The same experiment with the worker of another system: workers are killed, Redis is restarted.

Each system runs twice: with the settings that it has by default, and with those that its
documentation advises against losses.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .faults import Saboteur
from .fleet import Fleet, Member
from .recorder import Recorder, write_history
from .topologies import OneServer, version_of

_ROOT = Path(__file__).parents[2]
_SYSTEMS = "scripts.chaos_runner.systems"
_PRODUCERS = 2
#: The run ends when nothing is left, or when this has not changed for so long.
_QUIET_SECONDS = 45
_DRAIN_SECONDS = 240
FAULTS = ("kill", "restart")
#: Workers take some seconds to start; a kill of one that has not started shows nothing.
_PAUSES_SECONDS = (2.0, 5.0)


@dataclass(frozen=True)
class System:
    """
    A system with workers.

    Attributes:
        package: its package with its version; None is this library.
        workers: the number of worker processes, for eight concurrent calls.
        work: the arguments of Python that start a worker.
        read_ids: returns the ids that the server has at the end, of failed tasks too.
    """

    package: str | None
    workers: int
    work: tuple[str, ...]
    read_ids: Callable[[OneServer], Iterable[str]]


def _read_ours(topology: OneServer) -> Iterable[str]:
    return [each["id"] for each in topology.read_left()]


def _read_celery(topology: OneServer) -> Iterable[str]:
    ask = topology.primary.ask
    waiting = [json.loads(each) for each in ask("LRANGE", "celery", 0, -1)]
    unacknowledged = [json.loads(each)[0] for each in ask("HVALS", "unacked")]
    return [each["headers"]["id"] for each in [*waiting, *unacknowledged]]


def _read_rq(topology: OneServer) -> Iterable[str]:
    ask = topology.primary.ask
    lists = ("rq:queue:default", "rq:queue:default:intermediate")
    sets = ("rq:wip:default", "rq:failed:default", "rq:scheduled:default")
    found = [id for key in lists for id in ask("LRANGE", key, 0, -1)]
    found += [id for key in sets for id in ask("ZRANGE", key, 0, -1)]
    return [id.decode().partition(":")[0] for id in found]


def _read_arq(topology: OneServer) -> Iterable[str]:
    return [id.decode() for id in topology.primary.ask("ZRANGE", "arq:queue", 0, -1)]


SYSTEMS = {
    "rsmq": System(None, 2, ("-m", f"{_SYSTEMS}.rsmq_system", "work"), _read_ours),
    "celery": System(
        "celery[redis]==5.7.0", 2,
        ("-m", "celery", "-A", f"{_SYSTEMS}.celery_system", "worker", "--concurrency", "4",
         "--loglevel", "warning"),
        _read_celery,
    ),
    "rq": System("rq==3.0.0", 8, ("-m", "rq.cli", "worker", "--url", "URL"), _read_rq),
    "arq": System("arq==0.28.0", 2, ("-m", "arq", f"{_SYSTEMS}.arq_system.Settings"), _read_arq),
}  # fmt: skip


def _make_environment(system: System) -> str:
    """Make an environment with the package of a system, if needed, and return its Python."""
    if system.package is None:
        return sys.executable
    folder = _ROOT / "scripts" / "chaos_runner" / "systems" / f".venv-{system.package}"
    python, is_made = folder / "bin" / "python", folder / ".made"
    if not is_made.exists():
        print(f"Installing {system.package} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        subprocess.run([str(python), *install, system.package], check=True)
        is_made.touch()
    return str(python)


def _fleet_of(name: str, topology: OneServer, folder: Path, rate: float, *, is_safe: bool) -> Fleet:
    system = SYSTEMS[name]
    python, port = _make_environment(system), str(topology.primary.port)
    environment = {
        "CHAOS_PORT": port, "CHAOS_FILE": "FILE", "CHAOS_IS_SAFE": str(int(is_safe)),
        "PYTHONPATH": str(_ROOT),
    }  # fmt: skip
    produce = ("produce",) if name == "rsmq" else ()
    producers = [
        Member(
            f"producer-{number}",
            [python, "-m", f"{_SYSTEMS}.{name}_system", *produce, str(rate / _PRODUCERS)],
            {**environment, "CHAOS_NAME": f"p{number}"},
        )
        for number in range(_PRODUCERS)
    ]
    work = [f"redis://127.0.0.1:{port}/0" if each == "URL" else each for each in system.work]
    workers = [
        Member(f"worker-{number}", [python, *work], {**environment, "CHAOS_NAME": f"w{number}"})
        for number in range(system.workers)
    ]
    return Fleet(folder, producers, workers, is_supervised=True)


def run_against(
    name: str, faults: list[str], *, is_safe: bool, seconds: float, rate: float, seed: int,
    appendfsync: str,
    history: Path,
) -> None:  # fmt: skip
    """Make a run with a system, and write its history."""
    topology = OneServer(appendfsync)
    topology.start()
    shown = SYSTEMS[name].package or f"rsmq {version('rsmq')}"
    settings: dict[str, Any] = {
        "topology": "plain", "system": shown, "is_safe": is_safe, "appendfsync": appendfsync,
        "seed": seed, "redis": version_of(topology),
    }  # fmt: skip
    print(f"{shown}, {'safe' if is_safe else 'default'} settings", flush=True)
    with tempfile.TemporaryDirectory(prefix="rsmq-chaos-", ignore_cleanup_errors=True) as path:
        folder = Path(path)
        fleet = _fleet_of(name, topology, folder, rate, is_safe=is_safe)
        try:
            fleet.start()
            recorder = Recorder(folder / "faults.jsonl")
            Saboteur(topology, fleet, faults, recorder, seed, pauses=_PAUSES_SECONDS).run(seconds)
            for problem in fleet.stop(fleet.producers):
                print(problem, file=sys.stderr)
            _drain(topology, fleet, SYSTEMS[name])
            fleet.stop(fleet.consumers)
            ids = dict.fromkeys(SYSTEMS[name].read_ids(topology))
            left = [{"id": id, "body": None, "count": None} for id in ids]
            write_history(history, settings, folder, left)
        finally:
            fleet.kill_all()
            topology.stop()


def _drain(topology: OneServer, fleet: Fleet, system: System) -> None:
    """Wait until nothing is left, or until nothing changes."""
    begin = changed_at = time.monotonic()
    before: set[str] = set()
    while time.monotonic() < begin + _DRAIN_SECONDS:
        fleet.revive()
        left = set(system.read_ids(topology))
        if left != before:
            before, changed_at = left, time.monotonic()
        if not left or time.monotonic() > changed_at + _QUIET_SECONDS:
            return
        time.sleep(1)
