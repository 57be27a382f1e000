"""
The comparison of a run with a saved one: what got better or worse beyond the noise.

The same code is faster on a faster machine. The peers' code is the same in both runs, so the ratio
of their figures is that of the machines: the median over the peers of the same kind of work. But a
machine is not equally faster for all programs. So the noise of a change has three parts: the
readings of both runs, and how far the peers' own ratios are from their medians.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from scripts.benchmark import cases, mixed, pushes, worker_cases
from scripts.benchmark.figures import table

Results = dict[str, Any]
Group = tuple[Any, ...]

PEERS = {
    *(case.label for case in cases.CASES if case.process in {"node", "pyrsmq", "php", "bullmq"}),
    *(each.label for each in worker_cases.DIFFERENCES if not each.label.startswith("rsmq")),
    mixed.NODE,
    pushes.PLAIN,
}
#: One change in twenty is larger by chance.
STANDARD_ERRORS = 2.0
#: The standard error of a median of normally distributed readings is this part of the width of
#: their middle half, divided by the square root of their number.
_ERROR_PER_WIDTH = 1.2533 / 1.349


HEADINGS = ["case", "before", "now", "change", "noise", ""]


class NotComparable(Exception):
    """A file has no results of a whole run."""


@dataclass(frozen=True)
class Figure:
    """
    A measured rate.

    Attributes:
        group: the kind of work, of which the machine is equally faster for all cases.
        is_peer: whether the program is not ours.
        rate: the median per second.
        error: its relative standard error.
    """

    group: Group
    is_peer: bool
    rate: float
    error: float


def read_results(path: Path) -> Results:
    """
    Return the results of a saved run.

    Raises:
        NotComparable: the file cannot be read, or has other contents, or a quick run.
    """
    try:
        results = json.loads(path.read_text())
        is_quick = results["quick"]
        list(_figures(results))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise NotComparable(
            f"{path} has no results to compare with ({error!r}). "
            "Pass a bench.json of scripts/bench."
        ) from error
    if is_quick:
        raise NotComparable(f"{path} is of a quick run, too short to compare with.")
    return results


def compare(before: Results, now: Results) -> str:
    """Return the differences between two runs as Markdown."""
    old, new = dict(_figures(before)), dict(_figures(now))
    logs = {name: math.log(new[name].rate / old[name].rate) for name in old if name in new}
    peers: dict[Group, list[float]] = {}
    for name, log in logs.items():
        if new[name].is_peer:
            peers.setdefault(new[name].group, []).append(log)
    machine = {group: median(values) for group, values in peers.items()}
    spread = _spread(peers, machine)
    ours = {name: each for name, each in {**old, **new}.items() if not each.is_peer}
    compared = [name for name in ours if name in logs and ours[name].group in machine]
    rows = []
    for name in sorted(compared, key=lambda name: logs[name] - machine[ours[name].group]):
        change = logs[name] - machine[ours[name].group]
        noise = STANDARD_ERRORS * math.hypot(old[name].error, new[name].error, spread)
        if abs(change) > noise:
            rates = [f"{each[name].rate:,.0f}" for each in (old, new)]
            verdict = "better" if change > 0 else "**worse**"
            rows.append([name, *rates, f"{math.exp(change):.2f}x", _percent(noise), verdict])
    lines = [
        _origin(before),
        *_other_versions(before, now),
        _correction(list(machine.values()), spread),
        f"{len(compared)} cases were compared, and {len(compared) - len(rows)} have not changed.",
        "By chance about one in twenty changes by more than the noise.",
    ]
    missing = [name for name in ours if name not in compared]
    if missing:
        lines.append(f"Not in both runs, or without a peer: {'; '.join(missing)}.")
    text = "\n".join(lines) + "\n"
    return f"{text}\n{table(HEADINGS, rows)}" if rows else text


def _origin(run: Results) -> str:
    machine = run["machine"]
    return f"`{run['command']}` on {run['date']}: {machine['cpu']}, {machine['system']}."


def _correction(logs: list[float], spread: float) -> str:
    if not logs:
        return "No peer was measured in both runs."
    return (
        f"By kind of work, the peers are {math.exp(min(logs)):.2f} to {math.exp(max(logs)):.2f} "
        "times as fast as then. Changes are corrected by this.\n"
        f"The ratio of a single peer differs from that by {_percent(spread)}."
    )


def _spread(peers: dict[Group, list[float]], machine: dict[Group, float]) -> float:
    """Return the standard deviation of the peers' ratios from those of the machine."""
    squares = [(log - machine[group]) ** 2 for group, logs in peers.items() for log in logs]
    return math.sqrt(sum(squares) / max(len(squares) - len(machine), 1))


def _percent(log: float) -> str:
    return f"± {(math.exp(log) - 1) * 100:.0f} %"


def _other_versions(before: Results, now: Results) -> list[str]:
    names = sorted(before["versions"].keys() & now["versions"].keys() - {"rsmq"})
    changed = [
        f"{name} {before['versions'][name]}, now {now['versions'][name]}"
        for name in names
        if before["versions"][name] != now["versions"][name]
    ]
    return [f"Other versions: {'; '.join(changed)}."] if changed else []


def _figures(results: Results) -> Iterator[tuple[str, Figure]]:
    """Return the figures of a run, each with a name that other runs have too."""
    for each in results.get("throughput", ()):
        action, label, size = each["action"], each["contender"], each["body_bytes"]
        yield (
            f"{action}, {size} B: {label}",
            _figure((action, size), label, each["messages_per_second"]),
        )
    for part in ("workers", "workers_on_all", "handler_times"):
        for each in results.get(part, ()):
            label, sleep_ms = each["contender"], each.get("sleep_ms", 0)
            name = f"{part}, {sleep_ms} ms, {each['at_a_time']} at a time: {label}"
            yield name, _figure((part, sleep_ms), label, each["jobs_per_second"])
    for each in results.get("mixed", ()):
        label, at_a_time = each["contender"], each["at_a_time"]
        name = f"mixed traffic, {at_a_time} at a time: {label}"
        yield name, _figure(("mixed",), label, each["messages_per_second"])
    for label, rates in results.get("pushes", {}).get("rates", {}).items():
        yield f"pushes: {label}", _figure(("pushes",), label, rates)


def _figure(group: Group, label: str, rates: dict[str, Any]) -> Figure:
    low, high = rates["middle_half"]
    error = _ERROR_PER_WIDTH * (high - low) / rates["median"] / math.sqrt(len(rates["readings"]))
    return Figure(group, label in PEERS, rates["median"], error)
