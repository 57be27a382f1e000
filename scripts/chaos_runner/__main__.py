"""
Run producers, consumers and workers on servers that suffer faults, and check what became of each
message.

``scripts/chaos`` calls it.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from .faults import FAULTS, faults_of
from .run import Plan, run
from .topologies import TOPOLOGIES

_ROOT = Path(__file__).parents[2]


def _faults(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in FAULTS:
            raise argparse.ArgumentTypeError(f"no fault {name!r}: use {', '.join(FAULTS)}")
    return names


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    add = parser.add_argument
    add("--topology", choices=TOPOLOGIES, default="plain")
    add("--faults", type=_faults, help="such as kill,cut; all by default: " + ", ".join(FAULTS))
    add(
        "--seconds",
        type=float,
        default=30,
        help="how long rounds of all faults are made, at least one (default: 30)",
    )
    add("--rate", type=float, default=100, help="messages sent per second (default: 100)")
    add("--seed", type=int, default=1, help="of the order of faults and their kinds (default: 1)")
    add("--appendfsync", choices=["always", "everysec", "no"], default="always")
    add("--history", type=Path, metavar="FILE", help="keep the history in a file")
    arguments = parser.parse_args()
    possible = faults_of(arguments.topology)
    arguments.faults = arguments.faults or possible
    for name in arguments.faults:
        if name not in possible:
            parser.error(f"--faults: {name} needs --topology sentinel or cluster")
    return arguments


def main() -> int:
    """Run, print the verdict, and return the exit code of the checker."""
    arguments = _parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = Plan(
        arguments.topology, arguments.faults, arguments.seconds, arguments.rate, arguments.seed,
        arguments.appendfsync,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="rsmq-chaos-") as folder:
        history = arguments.history or Path(folder) / "history.jsonl"
        try:
            problems = run(plan, history)
        except KeyboardInterrupt:
            print("\nEnded before the verdict.", file=sys.stderr)
            return 130
        for problem in problems:
            print(problem, file=sys.stderr)
        command = [sys.executable, "-m", "scripts.chaos_checker", str(history.resolve())]
        code = subprocess.run(command, cwd=_ROOT, check=False).returncode
    return code or bool(problems)


if __name__ == "__main__":
    sys.exit(main())
