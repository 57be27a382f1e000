"""
The upper limit: the same scripts through redis-benchmark, a client in C that does nothing else.

It can't delete received messages, because it repeats a single command: its figures for receiving
exclude the delete.
"""

from __future__ import annotations

import csv
import subprocess
from typing import Any

from rsmq.wire.ids import ID_RANDOM_LENGTH
from scripts.benchmark.cases import Action
from scripts.benchmark.contender import ContenderFailed
from scripts.benchmark.operations import Operations
from scripts.benchmark.server import Server

RANDOM = b"__rand_int__"  # redis-benchmark replaces it by twelve digits
RANDOM_BELOW = 10**12 - 1


class RedisBenchmark:
    """A runner of redis-benchmark over one connection."""

    def __init__(self, server: Server) -> None:
        self._operations = Operations(server.client)
        self._command = ["redis-benchmark", "-p", str(server.port), "-c", "1", "--csv"]
        self._command += ["-r", str(RANDOM_BELOW)]
        for operation in (self._operation("send", "any", ""), self._operation("receive", "any")):
            server.client.script_load(operation.script.source)

    def _operation(self, action: Action, queue: str, body: str = "") -> Any:
        if action == "send":
            return self._operations.send_message(queue, body)
        return self._operations.receive_message(queue)

    def run(
        self, *, action: Action, queue: str, body: str, count: int, step: int, **_: object
    ) -> dict[str, Any]:
        """
        Run one script ``count`` times, ``step`` at a time.

        Raises:
            ContenderFailed: redis-benchmark failed; the text is its error output.
        """
        operation = self._operation(action, queue, body)
        arguments = [
            argument[: -len(RANDOM)] + RANDOM if len(argument) == ID_RANDOM_LENGTH else argument
            for argument in operation.args
        ]
        keys = [str(len(operation.keys)), *operation.keys]
        completed = subprocess.run(
            [*self._command, "-n", str(count), "-P", str(step),
             "EVALSHA", operation.script.sha1, *keys, *arguments],
            capture_output=True, check=False, text=True,
        )  # fmt: skip
        if completed.returncode:
            raise ContenderFailed(f"redis-benchmark: {completed.stderr.strip()}")
        seconds = read_seconds(completed.stdout, count)
        return {"seconds": seconds, "cpu_seconds": None, "characters": None}


def read_seconds(output: str, count: int) -> float:
    """
    Return the time of a run of redis-benchmark.

    It measures whole milliseconds: a run of less than one has infinite requests a second.
    """
    row = next(csv.DictReader(output.splitlines()))
    return max(count / float(row["rps"]), 0.001)
