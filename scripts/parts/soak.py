"""
Runs tests with large counts, part after part, and ends with a table of all.

``scripts/soak`` calls it. A test that has a large count says so with ``tests.scale``, or by
RSMQ_SOAK, or groups servers of each engine; such files are found by these words, so that none is
forgotten.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

_LARGE = re.compile(r"\bSOAK\b|\bscaled\(|\bRSMQ_SOAK\b|def (sentinels|servers)\(engine\):")
_PYTEST = (".venv/bin/python", "-m", "pytest", "-v", "-s")
#: Options of parts: these mostly wait, or have thousands of short tests.
_OPTIONS = {
    "clusters": ("-n", "4", "--dist", "worksteal"),
    "contract": ("-n", "2"),
}
#: The parts that are not the large tests of a folder.
_COMMANDS = {
    "busy": ["scripts/test", "--busy"],
    "spark-versions": ["sh", "-ec", "scripts/test --spark 4.0; scripts/test --spark 4.1"],
    "costs": ["scripts/bench", "--costs", "--quick"],
    "docs": ["scripts/docs", "--strict", "--mkdocs"],
    "release": [
        "sh", "-ec",
        ("folder=$(mktemp -d); trap 'rm -rf $folder' EXIT; git clone -q . $folder/rsmq;"
        " $folder/rsmq/scripts/release --dry-run"),
    ],
}  # fmt: skip
#: The results of pytest that are no failures.
_STATUSES = {0: "passed", 5: "no test"}
#: Where servers form groups; these tests are a part of their own.
_CLUSTERS = re.compile(
    r"tests/faults/test_(cluster|atomic_slot|sentinel|partitions|replication|servers|total_queue|two_primaries)"
    r"|_on_cluster\.py"
)


def large_tests(root: Path = ROOT) -> dict[str, list[str]]:
    """
    Return for each part of large tests its files and folders.

    A folder whose ``conftest.py`` chooses the counts is one; the files in it are left out.
    """
    parts: dict[str, list[str]] = {}
    for path in sorted([*root.glob("compat/test_*.py"), *root.glob("tests/*/**/*.py")]):
        name = path.relative_to(root).as_posix()
        folder = name.removeprefix("tests/").partition("/")[0]
        is_whole = path.name == "conftest.py"
        is_test = is_whole or path.name.startswith("test_")
        # Unit tests have no large counts, but one writes about them.
        if is_test and folder != "unit" and _LARGE.search(path.read_text()):
            part = "clusters" if _CLUSTERS.search(name) else folder
            parts.setdefault(part, []).append(str(Path(name).parent) if is_whole else name)
    for names in parts.values():
        names[:] = [each for each in names if not set(map(str, Path(each).parents)) & set(names)]
    return parts


def commands_of(options: Sequence[str] = ()) -> Mapping[str, Sequence[str]]:
    """Return the command of each part, with options of pytest for large tests."""
    return _COMMANDS | {
        part: [*_PYTEST, *_OPTIONS.get(part, ()), *files, *options]
        for part, files in sorted(large_tests().items())
    }


def main() -> int:
    """Run the parts that the command line names; return 1 if one fails."""
    parser = argparse.ArgumentParser(
        prog="scripts/soak",
        description="Run all tests beside busy processes, then those with large counts.",
        usage="%(prog)s [PART ...] [OPTION OF PYTEST ...]",
        epilog=f"The parts are {', '.join(commands_of())}. With options of pytest and no part, the"
        " large tests that they select are run.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="only these parts")
    words = sys.argv[1:]
    first_option = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    options = words[first_option:]
    chosen = parser.parse_args(words if {"-h", "--help"} & set(options) else words[:first_option])
    commands = commands_of(options)
    if unknown := set(chosen.parts).difference(commands):
        parser.error(f"no part {', '.join(sorted(unknown))}; they are {', '.join(commands)}")
    parts = chosen.parts or [each for each in commands if not options or each not in _COMMANDS]
    environment = os.environ | {"RSMQ_SOAK": "1", "PYTEST_TIMEOUT": "10800"}
    results = {}
    for part in parts:
        print(f"== {part}", flush=True)
        begin = time.monotonic()
        is_large = part not in _COMMANDS
        run = subprocess.run(
            commands[part], cwd=ROOT, env=environment if is_large else None, check=False
        )
        results[part] = run.returncode, time.monotonic() - begin
        if run.returncode < 0:  # by a signal, such as Ctrl-C's
            break
    print(f"\n{'part':16} {'took':>8}")
    for part, (code, seconds) in results.items():
        status = _STATUSES.get(code, "FAILED")
        print(f"{part:16} {seconds:6.0f} s  {status}")
    return int(any(code not in _STATUSES for code, _ in results.values()))


if __name__ == "__main__":
    sys.exit(main())
