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

from .against import FAULTS as FAULTS_AGAINST
from .against import SYSTEMS, run_against
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
    add("--against", choices=SYSTEMS, help="the worker of another system, with kill and restart")
    add("--history", type=Path, metavar="FILE", help="keep the history in a file")
    arguments = parser.parse_args()
    possible = list(FAULTS_AGAINST) if arguments.against else faults_of(arguments.topology)
    if arguments.against and arguments.topology != "plain":
        parser.error("--against: needs --topology plain")
    arguments.faults = arguments.faults or possible
    for name in arguments.faults:
        if name not in possible:
            parser.error(f"--faults: no {name} here; possible are {', '.join(possible)}")
    return arguments


def main() -> int:
    """Run, print the verdict, and return the exit code of the checker."""
    arguments = _parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="rsmq-chaos-") as folder:
        history = arguments.history or Path(folder) / "history.jsonl"
        try:
            if arguments.against:
                return _run_against(arguments, history)
            return _run_ours(arguments, history)
        except KeyboardInterrupt:
            print("\nEnded before the verdict.", file=sys.stderr)
            return 130


def _run_ours(arguments: argparse.Namespace, history: Path) -> int:
    plan = Plan(
        arguments.topology, arguments.faults, arguments.seconds, arguments.rate, arguments.seed,
        arguments.appendfsync,
    )  # fmt: skip
    problems = run(plan, history)
    for problem in problems:
        print(problem, file=sys.stderr)
    return _check(history) or bool(problems)


def _run_against(arguments: argparse.Namespace, history: Path) -> int:
    """Run with the default settings, then with the safe ones if it has any, as the file has."""
    code = 0
    for is_safe in (False, True) if SYSTEMS[arguments.against].package else (False,):
        run_against(
            arguments.against, arguments.faults, is_safe=is_safe, seconds=arguments.seconds,
            rate=arguments.rate, seed=arguments.seed, appendfsync=arguments.appendfsync,
            history=history,
        )  # fmt: skip
        code = max(code, _check(history))
    return code


def _check(history: Path) -> int:
    command = [sys.executable, "-m", "scripts.chaos_checker", str(history.resolve())]
    return subprocess.run(command, cwd=_ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
