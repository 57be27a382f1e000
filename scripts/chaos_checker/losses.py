"""
Which acknowledged changes a setting of Redis may lose, computed from the faults.

Two settings lose changes: ``appendfsync everysec`` if a server is killed, and a failover to a
replica that has not read everything. A change in such a window may be undone: a sent message
disappears, a deleted one is delivered again, a received one has its earlier receive count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .history import Call, Fault, History

#: Redis writes its file once a second. While the disk is busy with the last write, it waits for up
#: to two seconds more.
EVERYSEC_SECONDS = 3.0
#: A failover without a record of when the replicas were in step.
UNKNOWN_LAG_SECONDS = 5.0


@dataclass(frozen=True)
class Window:
    """
    A time in which acknowledged changes may be undone.

    Attributes:
        begin: its begin.
        end: its end.
        setting: the setting that allows it.
        spares_confirmed: whether a send that waited for a replica is kept.
    """

    begin: float
    end: float
    setting: str
    spares_confirmed: bool


class Windows:
    """All windows of a run."""

    def __init__(self, history: History) -> None:
        fsync = history.settings.get("appendfsync")
        self._windows = [window for fault in history.faults for window in _of(fault, fsync)]

    def excuse(self, calls: Iterable[Call]) -> str | None:
        """Return the setting that may have undone one of these calls, or None."""
        for call in calls:
            for window in self._windows:
                is_spared = call.is_confirmed and window.spares_confirmed
                if call.begin <= window.end and call.end >= window.begin and not is_spared:
                    return window.setting
        return None

    def excuse_between(self, begin: float, end: float) -> str | None:
        """Return the setting that may have undone a change between two times, or None."""
        for window in self._windows:
            if begin <= window.end and end >= window.begin:
                return window.setting
        return None


def _of(fault: Fault, fsync: str | None) -> Iterable[Window]:
    if fault.name == "restart" and not fault.is_promotion and fsync not in {"always", "no"}:
        # With "no", Redis writes its file before each reply, too: only a power cut loses it.
        yield Window(fault.begin - EVERYSEC_SECONDS, fault.end, f"appendfsync {fsync}", False)
    if fault.is_promotion and not fault.is_planned:
        begin = fault.begin - UNKNOWN_LAG_SECONDS if fault.in_step_at is None else fault.in_step_at
        yield Window(begin, fault.end, "a failover without confirm", True)
