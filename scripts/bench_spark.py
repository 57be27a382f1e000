"""
Measure Spark on queues, beside plain Python loops and beside Spark without Redis.

Each case is messages per second and processor time per message, the median of the rounds. The time
of the start of the session and of the first, cold jobs is left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.benchmark.server import Server
from scripts.benchmark.spark.cases import Case, make_cases, measure_once, warm_up
from scripts.benchmark.spark.environment import Environment
from scripts.benchmark.spark.latency import measure_latencies
from scripts.benchmark.spark.report import report

_QUICK_MESSAGES = 10_000


def main() -> None:
    """Measure, print the report, and write it to files."""
    parser = argparse.ArgumentParser(prog="scripts/bench-spark", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, metavar="N")
    parser.add_argument(
        "--grouped", type=int, default=100_000, metavar="N", help="messages in 10,000 groups"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--quick", action="store_true", help="only see whether all of it runs")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="the cases with this in the name"
    )
    parser.add_argument(
        "--output", type=Path, default=Path(), metavar="FOLDER", help="for bench-spark.md, .json"
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.messages, arguments.rounds = _QUICK_MESSAGES, 1
        arguments.grouped = _QUICK_MESSAGES
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = Path(tempfile.mkdtemp(prefix="rsmq-bench-"))
    try:
        with Server() as server:
            env = Environment(server.url, arguments.messages, folder, grouped=arguments.grouped)
            try:
                cases = [each for each in make_cases(env) if arguments.only in each.name]
                warm_up(env)
                for _ in range(arguments.rounds):
                    for case in cases:
                        measure_once(env, case)
                latencies, idle_commands = [], 0.0
                if not arguments.only:
                    idle_commands = env.measure_idle_commands(1 if arguments.quick else 20)
                    latencies = measure_latencies(env, *((1, 1) if arguments.quick else (10, 8)))
            finally:
                env.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = report(cases, latencies, idle_commands, arguments.messages, arguments.rounds)
    if arguments.quick:
        text = f"A quick run: these figures say nothing.\n\n{text}"
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "bench-spark.md").write_text(text)
    figures = {
        "messages": arguments.messages,
        "cases": [_describe(case) for case in cases],
        "latencies": [asdict(latency) for latency in latencies],
        "idle_commands_a_second": idle_commands,
    }
    (arguments.output / "bench-spark.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(text, end="")


def _describe(case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "target": case.target,
        "target_rate": case.target_rate,
        "rate": case.rate,
        "runs": [asdict(run) for run in case.runs],
    }


if __name__ == "__main__":
    main()
