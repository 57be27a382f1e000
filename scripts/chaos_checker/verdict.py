"""The verdict on a history: the figures, and all violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from .constraints import check_constraints
from .contents import check_contents
from .disturbances import Disturbances
from .flows import check_flows
from .handled import check_handled
from .history import BadHistory, History
from .jobs import check_jobs
from .leases import check_leases
from .losses import Windows
from .messages import Messages, group
from .order import check_order
from .ticks import check_ticks
from .violation import Violation

_SHOWN_OF_A_KIND = 5


@dataclass(frozen=True)
class Verdict:
    """
    The result of a check.

    Attributes:
        figures: numbers by name.
        violations: the broken promises that no setting of Redis allows.
        allowed: those that a setting of Redis allows.
    """

    figures: dict[str, int]
    violations: list[Violation]
    allowed: list[Violation]

    def lines(self) -> Iterable[str]:
        """Yield the text."""
        for name, figure in self.figures.items():
            yield f"{name:32} {figure:>9,}"
        for (kind, setting), count in _count_allowed(self.allowed).items():
            yield f"{kind}, allowed by {setting}: {count}"
            yield from _first(each for each in self.allowed if each.kind == kind)
        for kind, count in Counter(each.kind for each in self.violations).items():
            yield f"VIOLATION, {kind}: {count}"
            yield from _first(each for each in self.violations if each.kind == kind)
        yield "Verdict: " + (
            f"broken promises: {len(self.violations)}."
            if self.violations
            else "no promise is broken."
        )


def check(history: History) -> Verdict:
    """
    Return the verdict on a history.

    Raises:
        BadHistory: no send was acknowledged, so that there is nothing to judge.
    """
    if not any(each.kind == "send" and each.is_ok for each in history.calls):
        raise BadHistory("No send was acknowledged: there is nothing to judge.")
    messages, windows = group(history), Windows(history)
    disturbances = Disturbances(history.faults)
    found = [
        *check_contents(messages, windows),
        *check_leases(messages, windows, history.faults),
        *check_order(messages, windows),
        *check_handled(messages, windows, disturbances),
        *check_constraints(messages, windows, disturbances),
        *check_flows(messages, windows, history.follows),
        *check_ticks(messages, windows, history),
        *check_jobs(messages, windows),
    ]
    return Verdict(
        _count(history, messages),
        [each for each in found if each.allowed_by is None],
        [each for each in found if each.allowed_by is not None],
    )


def _count(history: History, messages: Messages) -> dict[str, int]:
    sends = [each for each in history.calls if each.kind == "send"]
    outcomes = Counter(each.outcome for each in history.calls)
    deliveries = [len(each.deliveries) for each in messages.by_id.values()]
    return {
        "faults": len(history.faults),
        "calls": len(history.calls),
        "calls with an unknown outcome": outcomes["unknown"],
        "calls that were refused": outcomes["error"],
        "sends": len(sends),
        "sends that were acknowledged": sum(each.is_ok for each in sends),
        "messages that were delivered": sum(number > 0 for number in deliveries),
        "of these more than once": sum(number > 1 for number in deliveries),
        "messages that are left": len(history.left),
    }


def _count_allowed(allowed: list[Violation]) -> Counter[tuple[str, str | None]]:
    return Counter((each.kind, each.allowed_by) for each in allowed)


def _first(violations: Iterable[Violation]) -> Iterable[str]:
    for number, each in enumerate(violations):
        if number == _SHOWN_OF_A_KIND:
            yield "  ..."
            return
        yield f"  {each}"
