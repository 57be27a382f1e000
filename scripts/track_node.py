"""
Runs the tests of pairs against the newest ``rsmq`` of npm, or against a version that is named.

If they pass, the README says so, with the version and the day.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PASSED, _FAILED, _NO_NPM = range(3)
#: The tests of Node's newest client; those of other clients are left out by their names.
_TESTS = ("pairs", "beyond", "errors", "deviations", "differential", "quirks")
_OTHERS = "not 0.7.2 and not PHP and not PyRSMQ and not pyrsmq and not version_of_a_client"
_SENTENCE = re.compile(r"npm's newest, \S+, on \d{4}-\d\d-\d\d")


class NoAnswer(Exception):
    """npm could not be asked."""


def _npm(*words: str) -> str:
    done = subprocess.run(["npm", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoAnswer(f"npm {' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def find_version(wanted: str | None) -> str:
    """
    Return a version that npm has.

    Args:
        wanted: a version; None for the one that ``npm install rsmq`` installs.

    Raises:
        NoAnswer: npm does not answer, or there is no such version.
    """
    return _npm("view", f"rsmq@{wanted or 'latest'}", "version").strip()


def is_passed(version: str) -> bool:
    """Install a version into a folder of its own, and return whether the tests pass with it."""
    with tempfile.TemporaryDirectory() as folder:
        _npm("install", "--silent", "--ignore-scripts", "--prefix", folder, f"rsmq@{version}")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-k", _OTHERS),
                *(f"compat/test_{name}.py" for name in _TESTS),
            ],
            cwd=_ROOT,
            env={**os.environ, "RSMQ_NODE_PACKAGE": f"{folder}/node_modules/rsmq"},
            check=False,
        )
    return done.returncode == 0


def with_result(readme: str, version: str, day: str) -> str:
    """
    Return the README with the version that was tested, and the day.

    Raises:
        ValueError: the README does not have the sentence once.
    """
    changed, times = _SENTENCE.subn(f"npm's newest, {version}, on {day}", readme)
    if times != 1:
        raise ValueError(
            f"README.md has the sentence {_SENTENCE.pattern!r} {times} times, not once"
        )
    return changed


def main() -> int:
    """Return 0 if the tests pass."""
    parser = argparse.ArgumentParser(prog="scripts/track-node", description=__doc__)
    parser.add_argument("version", nargs="?", help="another version than the newest")
    wanted = parser.parse_args().version
    tested = json.loads((_ROOT / "compat/node/package.json").read_text())["dependencies"]["rsmq"]
    try:
        version = find_version(wanted)
        print(f"npm's rsmq {version}; scripts/test runs {tested}", flush=True)
        passed = is_passed(version)
    except NoAnswer as error:
        print(error, file=sys.stderr)
        return _NO_NPM
    if not passed:
        print(f"rsmq {version} differs: see above", file=sys.stderr)
        return _FAILED
    if wanted is None:
        readme = _ROOT / "README.md"
        today = datetime.now(UTC).date().isoformat()
        readme.write_text(with_result(readme.read_text(), version, today))
        print(f"README.md says that {version} was tested on {today}")
        if version != tested:
            print(f"compat/node/package.json still has {tested}: npm install rsmq@{version} there")
    return _PASSED


if __name__ == "__main__":
    sys.exit(main())
