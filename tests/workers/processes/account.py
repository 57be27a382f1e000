"""
An account of a queue whose workers were killed: from what they wrote, and when they lived.

No message is left to its visibility timeout here, which is long: so one begins again only when its
attempt has ended, or when who made it is dead and has a successor.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

_ENDS = {"end", "failed", "cancelled", "gave_up"}


@dataclass
class Life:
    """
    One process: of which name, from when on, until when, and what it wrote.

    Attributes:
        name: the worker's.
        begun: before the process was started, Unix seconds.
        dead: after it was seen to be dead.
        code: its exit code, negative for a signal.
        events: what it wrote.
    """

    name: str
    begun: float
    dead: float
    code: int
    events: list


class Account:
    """
    What became of each message.

    Attributes:
        problems: what may never be.
        handled: ids of messages whose handler has returned.
        failures: by id the receive counts with which its handler raised.
    """

    def __init__(self, lives):
        self.problems = []
        self.handled = set()
        self.failures = defaultdict(list)
        self.begun = defaultdict(list)
        self._lives = lives
        told = defaultdict(list)
        for life in lives:
            for event in life.events:
                if event.id != "-":
                    told[event.id].append((event.at, event, life))
        for id, events in told.items():
            events.sort(key=lambda each: each[0])
            self._follow(id, events)

    def _follow(self, id, events):
        before = None  # the attempt that began last: its event, its end, whose it was
        for at, event, life in events:
            if event.what == "begin":
                if before is not None:
                    self._again(id, before, at, event)
                before = [event, None, life]
                self.begun[id].append(event.count)
            elif event.what in _ENDS:
                if before is None or before[0].count != event.count or before[2] is not life:
                    self.problems.append(f"{id} ends, {event}, while somebody else has it")
                    continue
                before[1] = event
                if event.what == "end":
                    self.handled.add(id)
                elif event.what == "failed":
                    self.failures[id].append((event.count, life))

    def _again(self, id, before, at, event):
        first, end, life = before
        if event.count <= first.count:
            self.problems.append(f"{id} begins with count {event.count} after {first.count}")
        if end is not None and end.what != "end":
            return
        if not self._succeeded(life, at):
            said = "has handled it" if end is not None else "handles it"
            self.problems.append(f"{id} begins, {event}, while {life.name} lives and {said}")

    def _succeeded(self, life, at):
        """Whether a process was dead by then, and its name had another one."""
        return life.dead < at and any(
            other.name == life.name and life.dead <= other.begun < at for other in self._lives
        )
