"""Measure this library and other clients side by side: the program behind ``scripts/bench``."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.benchmark import costs, depth, machine, mixed, pushes
from scripts.benchmark.compare import NotComparable, compare, read_results
from scripts.benchmark.contender import CONTENDERS, Contender, ContenderFailed
from scripts.benchmark.costs_report import report as report_costs
from scripts.benchmark.figures import Track
from scripts.benchmark.report import report
from scripts.benchmark.server import Server
from scripts.benchmark.targets import TARGETS
from scripts.benchmark.throughput import Throughput
from scripts.benchmark.wakeup import WakeUp
from scripts.benchmark.worker_cases import HANDLER_TIME_CASES, WORKER_CASES
from scripts.benchmark.workers import Workers

CLIENTS = ("ours", "node", "pyrsmq", "php", "bullmq")
WORKERS = ("ours", "our_worker", "rq", "dramatiq", "saq", "arq", "bullmq")
WAITERS = ("node", "waiting")
OURS = ("ours", "our_worker", "waiting")


@dataclass(frozen=True)
class Method:
    """The extent of a measurement."""

    rounds: int
    slice_seconds: float
    worker_rounds: int
    worker_slice_seconds: float
    handler_time_rounds: int
    handler_time_slice_seconds: float
    handler_time_at_a_time: tuple[int, ...]
    wake_up_rounds: int
    wake_up_messages: int
    depth_rounds: int
    depths: tuple[int, ...]
    mixed_rounds: int
    mixed_cycles: int
    push_rounds: int
    push_messages: int


FULL = Method(
    rounds=25,
    slice_seconds=0.1,
    worker_rounds=10,
    worker_slice_seconds=0.3,
    handler_time_rounds=5,
    handler_time_slice_seconds=1.0,
    handler_time_at_a_time=(1, 8, 100),
    wake_up_rounds=20,
    wake_up_messages=20,
    depth_rounds=30,
    depths=(1_000, 10_000, 100_000, 1_000_000),
    mixed_rounds=5,
    mixed_cycles=20,
    push_rounds=10,
    push_messages=4_000,
)
QUICK = Method(
    rounds=2,
    slice_seconds=0.01,
    worker_rounds=2,
    worker_slice_seconds=0.01,
    handler_time_rounds=2,
    handler_time_slice_seconds=0.001,
    handler_time_at_a_time=(1, 8),
    wake_up_rounds=2,
    wake_up_messages=5,
    depth_rounds=2,
    depths=(1_000, 10_000),
    mixed_rounds=2,
    mixed_cycles=1,
    push_rounds=2,
    push_messages=200,
)


def measure(method: Method, track: Track, *, only_workers: bool) -> dict[str, Any]:
    """Run all parts, or those of the workers, one after the other."""
    machine.pin_to_one_processor()
    results: dict[str, Any] = {"machine": machine.facts()}
    if only_workers:
        with Server() as server:
            results["versions"] = machine.versions(server)
    else:
        results |= _measure_clients(method, track)
    with ExitStack() as stack:
        server, contenders = _start(stack, WORKERS)
        results["versions"] |= _versions_of(contenders)
        results["workers"] = Workers(server, contenders).measure(
            WORKER_CASES, method.worker_rounds, method.worker_slice_seconds, track
        )
    # Sender and receiver rarely share a processor; on one processor they would alternate.
    machine.use_all_processors()
    if not only_workers:
        with ExitStack() as stack:
            server, contenders = _start(stack, WAITERS)
            results["wake_up"] = WakeUp(server, contenders["node"], contenders["waiting"]).measure(
                method.wake_up_rounds, method.wake_up_messages, track
            )
        results["mixed"] = mixed.measure(method.mixed_rounds, method.mixed_cycles, track)
    with ExitStack() as stack:
        workers = Workers(*_start(stack, WORKERS))
        results["workers_on_all"] = workers.measure(
            WORKER_CASES, method.worker_rounds, method.worker_slice_seconds, track
        )
        results["handler_times"] = workers.measure(
            [case for case in HANDLER_TIME_CASES if case.step in method.handler_time_at_a_time],
            method.handler_time_rounds,
            method.handler_time_slice_seconds,
            track,
        )
    results["pushes"] = pushes.measure(method.push_rounds, method.push_messages, track)
    return results


def _measure_clients(method: Method, track: Track) -> dict[str, Any]:
    """Measure the clients on one processor."""
    with ExitStack() as stack:
        server, contenders = _start(stack, CLIENTS)
        return {
            "versions": machine.versions(server) | _versions_of(contenders),
            "throughput": Throughput(server, contenders).measure(
                method.rounds, method.slice_seconds, track
            ),
            "depth": depth.measure(server, method.depths, method.depth_rounds, track),
        }


def _start(stack: ExitStack, names: tuple[str, ...]) -> tuple[Server, dict[str, Contender]]:
    """Start a server and clients for it."""
    server = stack.enter_context(Server())
    return server, {
        name: stack.enter_context(Contender(name, CONTENDERS[name], server.port)) for name in names
    }


def _versions_of(contenders: dict[str, Contender]) -> dict[str, str]:
    return machine.versions_of(each for name, each in contenders.items() if name not in OURS)


def main() -> int:
    """Run the benchmark; return 0 if everything was measured, whatever the figures are."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only see whether all of it runs")
    parser.add_argument(
        "--only-workers", action="store_true", help="measure the workers, and no clients"
    )
    parser.add_argument(
        "--costs",
        action="store_true",
        help="measure memory, commands and starts beside other systems, into costs.json and .md",
    )
    parser.add_argument(
        "--output", type=Path, default=Path(), metavar="FOLDER", help="for the files"
    )
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="FILE",
        help="a saved bench.json: also say what got better or worse beyond the noise",
    )
    arguments = parser.parse_args()
    try:
        saved = arguments.compare and read_results(arguments.compare)
    except NotComparable as error:
        parser.error(str(error))
    method = QUICK if arguments.quick else FULL
    results = {
        "command": shlex.join(["scripts/bench", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "quick": arguments.quick,
        "method": asdict(method),
    }
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    # Without auto_refresh the bar is drawn between slices, never during one.
    progress = Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), auto_refresh=False
    )
    try:
        arguments.output.mkdir(parents=True, exist_ok=True)
        with progress:
            if arguments.costs:
                extent = costs.QUICK if arguments.quick else costs.FULL
                results |= costs.measure(extent, progress.track)
            else:
                results |= measure(method, progress.track, only_workers=arguments.only_workers)
    except (ContenderFailed, RedisError, OSError, subprocess.SubprocessError) as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    if not arguments.only_workers and not arguments.costs:
        results["targets"] = [target.compare(results) for target in TARGETS]
    text = report_costs(results) if arguments.costs else report(results)
    name = "costs" if arguments.costs else "bench"
    if saved:
        text += f"\n## Compared with {arguments.compare}\n\n{compare(saved, results)}"
    (arguments.output / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (arguments.output / f"{name}.md").write_text(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
