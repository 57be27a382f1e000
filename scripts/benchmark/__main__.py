"""Measure this library beside the other clients: the program behind ``scripts/bench``."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.benchmark import depth, machine
from scripts.benchmark.contender import HERE, Contender, ContenderFailed
from scripts.benchmark.figures import Track
from scripts.benchmark.report import report
from scripts.benchmark.server import Server
from scripts.benchmark.targets import TARGETS
from scripts.benchmark.throughput import Throughput
from scripts.benchmark.wakeup import WakeUp

PYRSMQ_PYTHON = HERE / "python" / ".venv" / "bin" / "python"
CONTENDERS = {
    "ours": [sys.executable, str(HERE / "python" / "ours.py")],
    "waiting": [sys.executable, str(HERE / "python" / "waiting.py")],
    # -E: PYTHONPATH might lead to this library, whose package has the same name.
    "pyrsmq": [str(PYRSMQ_PYTHON), "-E", str(HERE / "python" / "pyrsmq.py")],
    "node": ["node", str(HERE / "node" / "rsmq.js")],
    "bullmq": ["node", str(HERE / "node" / "bullmq.js")],
    "php": ["php", str(HERE / "php" / "rsmq.php")],
}


@dataclass(frozen=True)
class Method:
    """How much is measured."""

    rounds: int
    slice_seconds: float
    wake_up_rounds: int
    wake_up_messages: int
    depth_rounds: int
    depths: tuple[int, ...]


WHOLE = Method(
    rounds=25,
    slice_seconds=0.1,
    wake_up_rounds=20,
    wake_up_messages=20,
    depth_rounds=30,
    depths=(1_000, 10_000, 100_000, 1_000_000),
)
QUICK = Method(
    rounds=2,
    slice_seconds=0.01,
    wake_up_rounds=2,
    wake_up_messages=5,
    depth_rounds=2,
    depths=(1_000, 10_000),
)


def measure(method: Method, track: Track) -> dict[str, Any]:
    """All parts, one after the other."""
    machine.settle_on_one_processor()
    found: dict[str, Any] = {"machine": machine.facts()}
    with ExitStack() as stack:
        server, contenders = _started(stack)
        found["versions"] = machine.versions(server, contenders)
        found["throughput"] = Throughput(server, contenders).measure(
            method.rounds, method.slice_seconds, track
        )
        found["depth"] = depth.measure(server, method.depths, method.depth_rounds, track)
    # Who sends and who waits seldom share a processor, and one alone would make them take turns.
    machine.use_all_processors()
    with ExitStack() as stack:
        server, contenders = _started(stack)
        found["wake_up"] = WakeUp(server, contenders["node"], contenders["waiting"]).measure(
            method.wake_up_rounds, method.wake_up_messages, track
        )
    return found


def _started(stack: ExitStack) -> tuple[Server, dict[str, Contender]]:
    """A server, and the clients beside it, all new."""
    server = stack.enter_context(Server())
    return server, {
        name: stack.enter_context(Contender(name, command, server.port))
        for name, command in CONTENDERS.items()
    }


def main() -> int:
    """Run it; 0 if all was measured, whatever came out."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only see whether all of it runs")
    parser.add_argument(
        "--output", type=Path, default=Path(), metavar="FOLDER", help="for bench.json and bench.md"
    )
    arguments = parser.parse_args()
    method = QUICK if arguments.quick else WHOLE
    results = {
        "command": shlex.join(["scripts/bench", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "quick": arguments.quick,
        "method": asdict(method),
    }
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    # Without auto_refresh it is drawn between slices, never within one.
    progress = Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), auto_refresh=False
    )
    try:
        arguments.output.mkdir(parents=True, exist_ok=True)
        with progress:
            results |= measure(method, progress.track)
    except (ContenderFailed, RedisError, OSError) as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    results["targets"] = [target.held_against(results) for target in TARGETS]
    text = report(results)
    (arguments.output / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    (arguments.output / "bench.md").write_text(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
