"""
An audit of a queue whose workers were killed, from their event logs and lifetimes.

No visibility timeout ends here, because it is long. So an attempt begins only after the previous
attempt has ended, or after the process of that attempt has died and has a successor.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

_END_KINDS = {"end", "failed", "cancelled", "gave_up"}


@dataclass
class ProcessRun:
    """
    One run of a worker process.

    Attributes:
        name: name of the worker.
        started_at: a time before the process was started, Unix seconds.
        died_at: a time after the process was seen to be dead, Unix seconds.
        code: its exit code, negative for a signal.
        events: the lines of its event log.
    """

    name: str
    started_at: float
    died_at: float
    code: int
    events: list


class Audit:
    """
    The outcome of each message.

    Attributes:
        problems: violations of the guarantees, as texts.
        handled: ids of messages whose handler has returned.
        failures: for each id the receive counts with which its handler raised, each with its run.
        starts: for each id the receive counts with which its handler began.
        unexplained_gaps: for each id the receive counts that began no handler, and for which no
            worker had died since the last one that did.
    """

    def __init__(self, runs):
        self.problems = []
        self.handled = set()
        self.failures = defaultdict(list)
        self.starts = defaultdict(list)
        self.unexplained_gaps = defaultdict(list)
        self._runs = runs
        events_by_id = defaultdict(list)
        for run in runs:
            for event in run.events:
                if event.id != "-":
                    events_by_id[event.id].append((event.time, event, run))
        for id, events in events_by_id.items():
            events.sort(key=lambda each: each[0])
            self._check_attempts(id, events)

    def _check_attempts(self, id, events):
        # The last attempt that began: its event, the event of its end, its process run.
        previous = None
        for time, event, run in events:
            if event.kind == "begin":
                if previous is not None:
                    self._check_restart(id, previous, time, event)
                self._check_gap(id, previous, event)
                previous = [event, None, run]
                self.starts[id].append(event.count)
            elif event.kind in _END_KINDS:
                if previous is None or previous[0].count != event.count or previous[2] is not run:
                    self.problems.append(f"{id} ends, {event}, while somebody else has it")
                    continue
                previous[1] = event
                if event.kind == "end":
                    self.handled.add(id)
                elif event.kind == "failed":
                    self.failures[id].append((event.count, run))

    def _check_restart(self, id, previous, time, event):
        first_event, end_event, run = previous
        if event.count <= first_event.count:
            self.problems.append(f"{id} begins with count {event.count} after {first_event.count}")
        if end_event is not None and end_event.kind != "end":
            return
        if not self._has_successor(run, time):
            state = "has handled it" if end_event is not None else "handles it"
            self.problems.append(f"{id} begins, {event}, while {run.name} lives and {state}")

    def _check_gap(self, id, previous, event):
        """A message that waits for a slot when its worker is killed is received again."""
        last_count, since, deaths = 0, 0.0, 0
        if previous is not None:
            last_count, since = previous[0].count, previous[0].time
            deaths -= previous[1] is None  # this death ended the handler
        deaths += sum(run.code != 0 and since < run.died_at < event.time for run in self._runs)
        skipped = range(last_count + 1, event.count)
        self.unexplained_gaps[id] += skipped[deaths:]

    def _has_successor(self, run, time):
        """Return whether a process was dead at this time, and a process of its name had started."""
        return run.died_at < time and any(
            other.name == run.name and run.died_at <= other.started_at < time
            for other in self._runs
        )
