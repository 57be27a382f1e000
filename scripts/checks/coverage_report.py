"""
Prints the coverage of ``rsmq/`` by lines and branches, and the least covered modules.

``scripts/test`` runs it after the measured parts. With ``STRICT=yes`` it fails below 95 % of the
branches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MIN_BRANCH_PERCENT = 95.0
#: The number of modules to print.
LEAST_COVERED = 10


def main() -> int:
    """Print the report; return 1 if too few branches are covered and it is strict."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "coverage.json")
        command = [sys.executable, "-m", "coverage", "json", "-q", "-o", str(path)]
        subprocess.run(command, check=True)
        report: dict[str, Any] = json.loads(path.read_text())
    totals = report["totals"]
    percent = 100 * totals["covered_branches"] / totals["num_branches"]
    print(
        f"Lines: {totals['percent_statements_covered']:.1f} % of {totals['num_statements']:,}. "
        f"Branches: {percent:.1f} % of {totals['num_branches']:,}."
    )
    missing = {name: each["summary"]["missing_branches"] for name, each in report["files"].items()}
    for name in sorted(missing, key=missing.__getitem__, reverse=True)[:LEAST_COVERED]:
        print(f"{missing[name]:5} branches not covered  {name}")
    if percent < MIN_BRANCH_PERCENT:
        print(f"Less than {MIN_BRANCH_PERCENT:g} % of the branches are covered.")
        return int(os.environ.get("STRICT") == "yes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
