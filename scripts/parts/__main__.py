"""
Runs all tests on a machine that has only Python 3.11, and reports the time of each part.

``scripts/test`` calls it.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from .busy import busy_processes, delays
from .lanes import Part, Result, run_parts
from .table import (
    SPARK_VERSIONS,
    all_parts,
    parts_of_spark,
    parts_of_version,
    quick_parts,
    repeated_parts,
)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/test", description=__doc__.split("\n")[1])
    add = parser.add_argument
    add("--quick", action="store_true", help="the tests that need only redis-server")
    add("--coverage", action="store_true", help="also measure the coverage of rsmq/: takes longer")
    add(
        "--strict", action="store_true",
        help="the same; fail if a part computes twice as long as its budget, or too few branches"
        " are covered",
    )  # fmt: skip
    add(
        "--all-engines", action="store_true",
        help="fail if a server of tests/engines.py is not installed",
    )  # fmt: skip
    add("--python", metavar="VERSION", help="the core parts with this Python, such as 3.13")
    add(
        "--spark", choices=SPARK_VERSIONS,
        help="frames, jobs on frames, the sink and streams with this version of PySpark",
    )  # fmt: skip
    add(
        "--busy", metavar="SEED", type=int, nargs="?", const=random.randrange(10_000),  # noqa: S311
        help="beside two busy processes, with random delays around calls to Redis",
    )  # fmt: skip
    add(
        "--repeat", metavar=("TIMES", "TESTS"), nargs=argparse.REMAINDER,
        help="these tests this many times, two at a time; with --busy each with another seed",
    )  # fmt: skip
    return parser.parse_args()


def run_and_print(parts: Sequence[Part], *, is_strict: bool, waiting_lanes: int = 1) -> bool:
    """
    Run parts, and print the output of each when it ends, and a summary.

    Args:
        parts: the parts.
        is_strict: whether a part that takes more than twice its budget of processor time fails.
        waiting_lanes: the number of parts that run beside one that computes.

    Returns:
        Whether all have passed.
    """
    lines: dict[str, str] = {}
    failed: list[str] = []
    used: list[float] = []
    begin = time.monotonic()

    def end(result: Result) -> None:
        part, status = result.part, result.status
        if status == "passed" and result.cpu_seconds > 2 * part.budget_seconds:
            status = "FAILED by its budget" if is_strict else "passed, but slow"
        if not status.startswith("passed"):
            failed.append(part.name)
        lines[part.name] = (
            f"{part.name:44} {result.seconds:4.0f} s {result.cpu_seconds:7.0f} s of"
            f" {part.budget_seconds:4}  {status}"
        )
        used.append(result.cpu_seconds)
        print(f"== {part.name}", flush=True)
        sys.stdout.buffer.write(result.output)
        print(f"-- {status}: {part.name}", flush=True)

    run_parts(
        parts,
        lambda part: print(f"-- starts: {part.name}", flush=True),
        end,
        waiting_lanes=waiting_lanes,
    )
    print(f"\n{'part':44} {'took':>6} {'processor':>9}   budget")
    for part in parts:
        print(lines[part.name])
    print(f"{'all parts':44} {time.monotonic() - begin:4.0f} s {sum(used):7.0f} s")
    return not failed


def main() -> int:
    """Run the parts that the command line selects; return 1 if one fails."""
    arguments = _parse_arguments()
    # scripts/checks/coverage_report.py reads it.
    os.environ["STRICT"] = "yes" if arguments.strict else "no"
    # Absolute, because tests start programs in other folders.
    os.environ["COVERAGE_FILE"] = str(Path.cwd() / ".coverage")
    is_busy = arguments.busy is not None
    if is_busy:
        print(f"Delays around calls to Redis: --busy {arguments.busy} repeats them.", flush=True)
        os.environ.update(delays(arguments.busy))
    with tempfile.TemporaryDirectory() as folder, busy_processes() if is_busy else nullcontext():
        waiting_lanes = 1
        if arguments.repeat:
            times, *tests = arguments.repeat
            parts = repeated_parts(int(times), tests, seed=arguments.busy or 0)
        elif arguments.python:
            parts = parts_of_version(arguments.python)
        elif arguments.spark:
            parts = parts_of_spark(arguments.spark)
        elif arguments.quick:
            parts = quick_parts()
        else:
            is_measured = arguments.coverage or arguments.strict
            if is_measured:
                subprocess.run([".venv/bin/coverage", "erase"], check=True)
            parts = all_parts(Path(folder), is_measured=is_measured)
            # Spark gives a process of Python ten seconds to start.
            waiting_lanes = 1 if is_busy else 2
        try:
            has_passed = run_and_print(
                parts, is_strict=arguments.strict, waiting_lanes=waiting_lanes
            )
        except KeyboardInterrupt:
            print("Interrupted.")
            return 130
    # Prints the missing engines.
    engines = subprocess.run([sys.executable, "-m", "tests.engines"], check=False)
    has_passed = has_passed and not (arguments.all_engines and engines.returncode)
    print("All parts passed." if has_passed else "FAILED.")
    return int(not has_passed)


if __name__ == "__main__":
    sys.exit(main())
