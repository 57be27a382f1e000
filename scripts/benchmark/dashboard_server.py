"""
The dashboard that benchmarks ask for pages: a process of ``rsmq web``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rsmq import RSMQ

_COMMAND = ("-m", "rsmq")
#: Each page reads Redis again, however often it is asked for.
_COMMAND_WITHOUT_SHARING = (
    "-c",
    (
        "import rsmq.cli, rsmq.web.pages.reads as r, rsmq.web.walks as w; "
        "r.REFRESH_SECONDS = w._MIN_SECONDS = w._TIMES_ITS_OWN = 0; rsmq.cli.main()"
    ),
)


@dataclass(frozen=True, slots=True)
class WebServer:
    """A running server: its host and port, and its process."""

    address: tuple[str, int]
    pid: int

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads."""
        files = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in files) / 1e9


@contextlib.contextmanager
def serving(url: str, *, shares_answers: bool = True) -> Iterator[WebServer]:
    """Run the server."""
    process = subprocess.Popen(
        [
            sys.executable,
            *(_COMMAND if shares_answers else _COMMAND_WITHOUT_SHARING),
            *("web", "--port", "0", "--no-auth"),
        ],
        env={**os.environ, "RSMQ_URL": url, "RSMQ_CONFIG": "/dev/null"},
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: Any = process.stderr
    try:
        parts = urlsplit(lines.readline().partition(": Ctrl")[0])
        yield WebServer((parts.hostname or "", parts.port or 0), process.pid)
    finally:
        process.terminate()
        process.wait()


def make_queues(url: str, number: int) -> None:
    """Make queues, and two more: ``large`` and ``pair``."""
    with RSMQ.from_url(url) as client:
        for name in (*(f"q{each:05}" for each in range(number)), "large", "pair"):
            client.create_queue(name)


#: The pages of a tour.
PATHS = (
    "/", "/queues", "/queues?sort=name", "/queues?sort=-hidden", "/queues?sort=-oldest",
    "/queues/large", "/queues/large?span=24h", "/queues/large/messages",
    "/queues/large/messages?state=in_flight", "/queues/pair", "/queues/pair/messages", "/workers",
    "/delayed", "/doctor", "/activity", "/webhooks", "/dead-letters",
)  # fmt: skip
