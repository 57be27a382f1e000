"""The faults by name, and the process that makes them at random moments."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from .client import VT_SECONDS
from .fleet import Fleet
from .recorder import Recorder
from .topologies import Facts, Topology

#: From the end of a fault to the begin of the next one: the shortest, and the longest.
PAUSES_SECONDS = (0.3, 1.2)

Cause = Callable[[Topology, Fleet, random.Random], Facts]


def _kill(_topology: Topology, fleet: Fleet, chance: random.Random) -> Facts:
    return {**fleet.kill(chance)}


def _freeze(topology: Topology, fleet: Fleet, chance: random.Random) -> Facts:
    """Suspend Redis, or a consumer for longer than its leases."""
    if chance.choice([True, False]):
        return {"target": "redis", **topology.freeze(chance)}
    member = fleet.freeze(chance)
    time.sleep(VT_SECONDS + 0.5)
    return {**fleet.thaw(member)}


#: The function of each fault.
FAULTS: dict[str, Cause] = {
    "kill": _kill,
    "restart": lambda topology, _fleet, _chance: topology.restart(),
    "cut": lambda topology, _fleet, chance: topology.cut(chance),
    "delay": lambda topology, _fleet, chance: topology.delay(chance),
    "freeze": _freeze,
    "failover": lambda topology, _fleet, chance: topology.failover(chance),
    "flush": lambda topology, _fleet, _chance: topology.flush(),
    "memory": lambda topology, _fleet, chance: topology.fill(chance),
}


def faults_of(topology: str) -> list[str]:
    """Return the names of the faults that a topology can have."""
    return [name for name in FAULTS if name != "failover" or topology != "plain"]


class Saboteur:
    """Makes faults, one at a time, and records them."""

    def __init__(
        self,
        topology: Topology,
        fleet: Fleet,
        names: list[str],
        recorder: Recorder,
        seed: int,
        *,
        pauses: tuple[float, float] = PAUSES_SECONDS,
    ) -> None:
        self._names = names
        self._pauses = pauses
        self._topology = topology
        self._fleet = fleet
        self._recorder = recorder
        self._chance = random.Random(seed)  # noqa: S311
        self._begin = self._checked_at = time.monotonic()
        self._primary = topology.primary
        self._in_step_at = topology.wait_until_in_step()

    def run(self, seconds: float) -> None:
        """Make rounds of faults until so many seconds are over. Each has all of them, shuffled."""
        while True:
            for name in self._chance.sample(self._names, len(self._names)):
                time.sleep(self._chance.uniform(*self._pauses))
                self._fleet.revive()
                self._make(name)
            if time.monotonic() > self._begin + seconds:
                return

    def _make(self, name: str) -> None:
        self.check_primary()
        begin = time.monotonic()
        facts = FAULTS[name](self._topology, self._fleet, self._chance)
        until = time.monotonic()
        self._record(name, begin, until, facts)
        self._primary = self._topology.primary
        shown = ", ".join(f"{key}: {value}" for key, value in facts.items())
        print(f"{begin - self._begin:7.1f} s  {name:9} {until - begin:5.1f} s  {shown}", flush=True)

    def _record(self, name: str, begin: float, until: float, facts: Facts) -> None:
        self._recorder.write(
            "fault", name=name, at=begin, until=until, in_step_at=self._in_step_at, **facts
        )

    def check_primary(self) -> None:
        """Record a failover that the servers have made on their own, as on a busy machine."""
        now = time.monotonic()
        if self._topology.primary is not self._primary:
            self._topology.heal()
            facts = {"how": "by the servers", "promoted": True}
            self._record("failover", self._checked_at, time.monotonic(), facts)
            self._primary = self._topology.primary
        self._checked_at = now
        self._in_step_at = self._topology.wait_until_in_step()
