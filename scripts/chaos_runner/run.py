"""One run: start everything, make faults, drain the queue, and write the history."""

from __future__ import annotations

import json
import platform
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import redis

import rsmq
from rsmq import RSMQ

from .beat import Beat
from .client import QUEUE
from .faults import PAUSES_SECONDS, Saboteur
from .fleet import CLIENTS, our_fleet
from .job_reader import read_jobs
from .recorder import Recorder, merge, write_history
from .task_functions import TASK_QUEUE
from .topologies import TOPOLOGIES, Topology, version_of

#: Without a change for so long, messages are stuck. The checker needs less.
_DRAIN_SECONDS = 120
#: How long a run waits for a call of each kind of ``Plan.kinds``.
_CALLS_SECONDS = 300.0
#: How long all clients work after the last fault: there, the checker excuses nothing by a fault.
CALM_SECONDS = 20.0


@dataclass(frozen=True)
class Plan:
    """The settings of a run."""

    topology: str
    faults: list[str]
    seconds: float
    rate: float
    seed: int
    appendfsync: str
    clients: tuple[str, ...] = CLIENTS
    pauses: tuple[float, float] = PAUSES_SECONDS
    calm: float = CALM_SECONDS
    kinds: frozenset[str] = frozenset()
    """The run does not end before a call of each of these kinds has succeeded."""


def run(plan: Plan, history: Path) -> list[str]:
    """
    Make a run, and write its history.

    Returns:
        Texts about processes that did not end well.
    """
    topology = TOPOLOGIES[plan.topology](plan.appendfsync)
    with tempfile.TemporaryDirectory(prefix="rsmq-chaos-") as name:
        folder = Path(name)
        topology.start()
        try:
            epoch = time.time() - time.monotonic()
            settings = {
                **vars(plan),
                "kinds": sorted(plan.kinds),
                **_versions(topology),
                "epoch": epoch,
            }
            print(
                f"Redis {settings['redis']}, rsmq {settings['rsmq']}, {plan.topology}, "
                f"appendfsync {plan.appendfsync}, seed {plan.seed}",
                flush=True,
            )
            problems = _run(plan, topology, folder)
            write_history(history, settings, folder, topology.read_left())
        finally:
            topology.stop()
    return problems


def _run(plan: Plan, topology: Topology, folder: Path) -> list[str]:
    with RSMQ.from_url(topology.url, ns=topology.ns) as queues:
        queues.create_queue(QUEUE)
        queues.create_queue(TASK_QUEUE)
        return _run_fleet(plan, topology, queues, folder)


def _run_fleet(plan: Plan, topology: Topology, queues: RSMQ[str], folder: Path) -> list[str]:
    beat = Beat(queues) if "worker" in plan.clients else None
    fleet = our_fleet(topology, folder, plan.clients, plan.rate, plan.seed)
    try:
        fleet.start()
        recorder = Recorder(folder / "faults.jsonl")
        saboteur = Saboteur(topology, fleet, plan.faults, recorder, plan.seed, pauses=plan.pauses)
        saboteur.run(plan.seconds)
        time.sleep(plan.calm)
        _wait_for_calls(folder, plan.kinds)
        saboteur.check_primary()
        if beat is not None:
            beat.end(recorder)
        problems = fleet.stop(fleet.producers)
        # Workers find the messages that wait for one which Node has deleted, within a minute. More
        # deletes by Node would let them wait again.
        consumers = [each for each in fleet.consumers if not each.name.startswith("node")]
        problems += fleet.stop([each for each in fleet.consumers if each not in consumers])
        problems += _drain(topology)
        problems += fleet.stop(consumers)
        read_jobs(queues, folder, recorder)
        return problems
    finally:
        fleet.kill_all()


def _wait_for_calls(folder: Path, kinds: frozenset[str]) -> None:
    calls: dict[str, str] = {}
    deadline = time.monotonic() + _CALLS_SECONDS
    while kinds:
        records = [json.loads(line) for line in merge(folder)]
        calls |= {each["op"]: each["call"] for each in records if each["record"] == "begin"}
        kinds -= {calls[each["op"]] for each in records if each.get("outcome") == "ok"}
        if time.monotonic() > deadline:
            raise SystemExit(f"No {', '.join(sorted(kinds))} in {_CALLS_SECONDS:.0f} s.")
        time.sleep(0.1)


def _drain(topology: Topology) -> list[str]:
    """Wait until the consumers have emptied the queues; return a problem if they stop before."""
    before, deadline = topology.count(), time.monotonic() + _DRAIN_SECONDS
    while count := topology.count():
        if count != before:
            before, deadline = count, time.monotonic() + _DRAIN_SECONDS
        if time.monotonic() > deadline:
            return [f"The consumers have left {count} messages for {_DRAIN_SECONDS} seconds."]
        time.sleep(0.1)
    return []


def _versions(topology: Topology) -> dict[str, str]:
    return {
        "redis": version_of(topology),
        "rsmq": rsmq.__version__,
        "redis-py": redis.__version__,
        "python": platform.python_version(),
    }
