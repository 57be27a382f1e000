"""
A client in a process that runs during the whole benchmark.

It reads requests from its standard input, one JSON object per line, and writes one line for each:
a JSON object as the reply, or ``{"error": text}``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

FOLDER = Path(__file__).parent
STOP_TIMEOUT_SECONDS = 10.0


def _python(program: str, environment: str = "") -> list[str]:
    """Return the command of a Python program, in this environment or in another one."""
    path = str(FOLDER / "python" / program)
    if not environment:
        return [sys.executable, path]
    # -E: PYTHONPATH might lead to this library, whose package is named like PyRSMQ's.
    return [str(FOLDER / "python" / environment / "bin" / "python"), "-E", path]


CONTENDERS = {
    "ours": _python("ours.py"),
    "waiting": _python("waiting.py"),
    "pyrsmq": _python("pyrsmq.py", ".venv"),
    "node": ["node", str(FOLDER / "node" / "rsmq.js")],
    "bullmq": ["node", str(FOLDER / "node" / "bullmq.js")],
    "php": ["php", str(FOLDER / "php" / "rsmq.php")],
    "our_worker": _python("our_worker.py"),
    "rq": _python("rq_worker.py", ".venv-workers"),
    "dramatiq": _python("dramatiq_worker.py", ".venv-workers"),
    "saq": _python("saq_worker.py", ".venv-workers"),
    "arq": _python("arq_worker.py", ".venv-workers"),
}


class ContenderFailed(Exception):
    """A contender replied with an error, or died."""


class Contender:
    """
    The process; ``request`` sends and waits, ``send_request`` and ``read_reply`` do one half each.
    """

    def __init__(self, name: str, command: list[str], port: int) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [*command, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the benchmark, which then closes this process
        )

    def request(self, op: str, **arguments: Any) -> Any:
        """
        Send a request, and return the reply.

        Raises:
            ContenderFailed: there is no reply, or it is an error.
        """
        self.send_request(op, **arguments)
        return self.read_reply()

    def send_request(self, op: str, **arguments: Any) -> None:
        """Send a request without waiting for the reply."""
        self._process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        self._process.stdin.flush()

    def read_reply(self) -> Any:
        """
        Return the reply to the last request.

        Raises:
            ContenderFailed: there is no reply, or it is an error.
        """
        line = self._process.stdout.readline()
        if not line:
            raise ContenderFailed(f"{self.name} has died; its error output is above.")
        reply = json.loads(line)
        if "error" in reply:
            raise ContenderFailed(f"{self.name}: {reply['error']}")
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
