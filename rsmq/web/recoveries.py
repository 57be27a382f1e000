"""
The alerts that have ended within the last minutes, as this process has seen them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rsmq.explain.alerts.alert import Alert
from rsmq.explain.alerts.facts import AlertFacts
from rsmq.explain.alerts.record import alert_name

#: For how long an ended alert is shown.
_SHOWN_MS = 600_000
#: After a longer time without a look, it is not known when an alert has ended.
_MAX_GAP_MS = 60_000


@dataclass(frozen=True, slots=True)
class Recovery:
    """
    An alert that has ended.

    Attributes:
        ended_ms: when it was first not seen any more, Unix ms.
        waited: the visible messages of its queue when it was last seen; None without a queue.
    """

    alert: Alert
    ended_ms: int
    waited: int | None


class Recoveries:
    """The alerts of a namespace that were seen last, and those that have ended since."""

    def __init__(self) -> None:
        self._looked_ms = 0
        self._present: dict[str, tuple[Alert, int | None]] = {}
        self._ended: dict[str, Recovery] = {}

    def look(self, alerts: Iterable[Alert], facts: AlertFacts) -> None:
        """Compare the present alerts, all of them, with those of the last look."""
        before, now_ms = self._present, facts.now_ms
        self._present = {
            alert_name(each): (each, count_visible(facts, each))
            for each in alerts
            if each.level != "note"
        }
        if now_ms - self._looked_ms <= _MAX_GAP_MS:
            for name in before.keys() - self._present.keys():
                alert, waited = before[name]
                self._ended[name] = Recovery(alert, now_ms, waited)
        self._looked_ms = now_ms
        self._ended = {
            name: each
            for name, each in self._ended.items()
            if name not in self._present and now_ms - each.ended_ms < _SHOWN_MS
        }

    def __iter__(self) -> Iterator[Recovery]:
        """Iterate over the alerts that have ended, the last first."""
        return iter(sorted(self._ended.values(), key=lambda each: -each.ended_ms))


def count_visible(facts: AlertFacts, alert: Alert) -> int | None:
    """Return the visible messages of the queue of an alert; None without a queue."""
    state = None if alert.queue is None else facts.states.get(alert.queue)
    return None if state is None else state.visible
