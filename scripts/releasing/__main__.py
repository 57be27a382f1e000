"""Builds, tests and describes the files of a release, and prints the command that publishes."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .bill_of_materials import write_bill
from .distributions import build
from .source import check_changelog, check_place, read_version

_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / "dist"


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__)
    parser.add_argument(
        "--dry-run", action="store_true",
        help="do the same from any branch, without a tag and with changes that are not committed",
    )  # fmt: skip
    return parser.parse_args()


def main() -> int:
    """Return 0 if the release can be published, or its dry run has passed."""
    is_dry = _parse_arguments().dry_run
    place, changelog = check_place(_ROOT), check_changelog(_ROOT)
    for problem in [*changelog, *place]:
        print(problem, file=sys.stderr)
    if changelog or (place and not is_dry):
        return 1

    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir()
    files = list(build(_ROOT, _FOLDER))
    if not _pass_tests():
        return 1
    bill = _FOLDER / f"rsmq-{read_version(_ROOT)}.cdx.json"
    write_bill(_ROOT, files[0], bill)
    sums = _FOLDER / "SHA256SUMS"
    sums.write_text(
        "".join(
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
            for path in [*files, bill]
        )
    )
    print(f"\n{sums.read_text()}")
    if is_dry:
        print("A dry run: these files are not for publishing.")
    else:
        print("Publish with:\n")
        print(f"  .venv/bin/twine upload {' '.join(f'dist/{path.name}' for path in files)}")
    return 0


def _pass_tests() -> bool:
    """Run the tests of the distributions on those in ``dist``, on each Python that is present."""
    environment = os.environ | {"RSMQ_TEST_DISTRIBUTIONS": str(_FOLDER)}
    command = [".venv/bin/pytest", "-v", "-p", "no:cacheprovider", "tests/packaging"]
    return subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
