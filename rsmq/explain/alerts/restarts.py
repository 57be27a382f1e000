"""
The rule about workers that died and were not started again.
"""

from __future__ import annotations

from collections.abc import Iterator

from rsmq.explain.alerts.alert import Alert, AlertKind
from rsmq.explain.alerts.facts import AlertFacts
from rsmq.explain.sentences import format_moment
from rsmq.wire.workers import WorkerInfo

#: A service manager has so many seconds to start a worker again.
_RESTART_SECONDS = 60


def find_not_restarted(facts: AlertFacts) -> Iterator[Alert]:
    """
    Find workers that died, and have no message in flight any more.

    One that was stopped gracefully is not known, and one that was started again with its name is
    alive.
    """
    successors = [each for each in facts.workers if each.alive]
    dead = [each for each in facts.workers if not each.alive]
    # Of a later death fewer workers can be the successor, so it chooses first.
    for worker in sorted(dead, key=lambda each: -each.seen_ms):
        found = next((each for each in successors if _replaces(each, worker)), None)
        if found is not None:
            successors.remove(found)
            continue
        is_recent = facts.now_ms - worker.seen_ms < _RESTART_SECONDS * 1000
        if is_recent or worker.name in facts.held:
            continue
        yield Alert(
            AlertKind.NOT_RESTARTED, "note", worker.name,
            f"Worker {worker.name} has been dead since "
            f"{format_moment(worker.seen_ms, facts.now_ms)} and was not started again.",
            f"It ran on {worker.host or 'an unknown host'}, process {worker.pid}. Start it again "
            "unless you do not need it; it is listed for a day.",
            None, None,
        )  # fmt: skip


def _replaces(worker: WorkerInfo, dead: WorkerInfo) -> bool:
    """Return whether a worker of another name was started in place of one that died."""
    is_older = worker.since_ms < dead.seen_ms
    is_of_its_own = any(each >= dead.seen_ms for each in worker.deaths)
    return not is_older and not is_of_its_own and dead.queues.keys() <= worker.queues.keys()
