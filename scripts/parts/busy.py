"""A busy machine: two processes that compute all the time, and delays around calls to Redis."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Python imports the file ``sitecustomize.py`` in it when it starts.
_FOLDER = Path(__file__).parents[2] / "tests" / "busy"

#: Ends by itself if ``scripts/test`` is killed.
_COMPUTE = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(1_000_000))
"""


def delays(seed: int) -> dict[str, str]:
    """Return the environment of processes that wait around calls to Redis, by a seed."""
    path = os.pathsep.join(filter(None, (str(_FOLDER), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "RSMQ_TEST_DELAYS": str(seed)}


@contextmanager
def busy_processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run two processes that compute until the block ends, and pass them to it."""
    # In groups of their own, because Ctrl-C would print their tracebacks.
    processes = [
        subprocess.Popen([sys.executable, "-S", "-c", _COMPUTE], process_group=0) for _ in range(2)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
