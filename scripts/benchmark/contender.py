"""
A client in a process of its own that lives through the whole run.

It is asked over its standard input, one JSON object a line, and answers in one line: an object of
its own, or ``{"error": text}``.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent
STOP_DEADLINE = 10.0


class ContenderFailed(Exception):
    """A contender answered with an error, or died."""


class Contender:
    """The process; ``ask`` does both halves of a question, ``tell`` and ``hear`` one each."""

    def __init__(self, name: str, command: list[str], port: int) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [*command, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the benchmark, which closes it then
        )

    def ask(self, op: str, **arguments: Any) -> Any:
        """
        The answer to a question.

        Raises:
            ContenderFailed: there is none, or it is an error.
        """
        self.tell(op, **arguments)
        return self.hear()

    def tell(self, op: str, **arguments: Any) -> None:
        """Ask without waiting for the answer."""
        self._process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        """
        The answer to the last question.

        Raises:
            ContenderFailed: there is none, or it is an error.
        """
        line = self._process.stdout.readline()
        if not line:
            raise ContenderFailed(f"{self.name} has died; its error output is above.")
        answer = json.loads(line)
        if "error" in answer:
            raise ContenderFailed(f"{self.name}: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
