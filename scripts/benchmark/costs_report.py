"""The tables of the costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scripts.benchmark.figures import table


def report(results: dict[str, Any]) -> str:
    """Return the tables of the costs, below the machine and the versions."""
    machine, versions = results["machine"], results["versions"]
    quick = " A quick run: no figure means anything." if results["quick"] else ""
    head = (
        f"# Costs\n\n`{results['command']}` on {results['date']}: {machine['processors']} x"
        f" {machine['cpu']}, {machine['system']}, load {machine['load_at_start']} when it began."
        f" {', '.join(f'{name} {version}' for name, version in versions.items())}.{quick}\n"
    )
    results = results["costs"]
    systems = {name: each for name, each in results.items() if "jobs" in each}
    pairs = {
        name: lambda value: f"{value[0]:.1f} / {value[1]:.1f}"
        for name in ("send, no result", "work, no result", "send, result", "work, result")
    }

    def rows(facts: dict[str, Any], chosen: dict[str, Any]) -> list[list[str]]:
        return [
            [label, *(show(each[name]) if name in each else "" for name, show in facts.items())]
            for label, each in chosen.items()
        ]

    def section(title: str, names: Sequence[str], facts: dict[str, Any], chosen: Any) -> str:
        return f"{title}\n\n{table(['', *names], rows(facts, chosen))}"

    whole, rate = "{:,.0f}".format, lambda value: f"{value[0]:.2f} / {value[1]:.2f}"
    return "\n".join(
        (
            head,
            section(
                "Bytes of Redis memory for a job:",
                [
                    "waiting, 100 B",
                    "waiting, 10 KB",
                    "finished, with a result",
                    "finished, without",
                ],
                {
                    "bytes waiting 100": whole,
                    "bytes waiting 10000": whole,
                    "bytes finished, result": whole,
                    "bytes finished, no result": whole,
                },
                results,
            ),
            section(
                "Commands of Redis, with those of scripts, and round trips for a job:",
                ["send", "worker", "send, with a result", "worker, with a result"],
                pairs,
                systems,
            ),
            section(
                "Commands and round trips of idle workers a second, and of waiting receives:",
                ["1 worker", "10", "100", "1,000 receives on 1 queue", "on 1,000 queues"],
                dict.fromkeys(("idle 1", "idle 10", "idle 100", "waits 1", "waits 1000"), rate),
                systems,
            ),
            section(
                "A worker: seconds from its start to its first job, processor seconds until then "
                "and of its import; MB of memory when idle and after jobs:",
                ["first job, s", "CPU, s", "import, s", "idle, MB", "after jobs, MB", "jobs"],
                {
                    "start seconds": "{:.2f}".format,
                    "start processor": "{:.2f}".format,
                    "import": "{:.2f}".format,
                    "memory idle": whole,
                    "memory after": whole,
                    "jobs": whole,
                },
                systems,
            ),
            section(
                "Processor time of a job in a worker of so many queues, worker / Redis with the "
                "send, µs:",
                ["1 queue", "10", "100"],
                {
                    f"queues {number}": lambda value: f"{value[0]:,.0f} / {value[1]:,.0f}"
                    for number in (1, 10, 100)
                },
                systems,
            ),
        )
    )
