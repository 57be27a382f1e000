"""The real rfq, in its own environment and in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / "compat" / "rfq"
PYTHON = _FOLDER / ".venv" / "bin" / "python"
_COMMAND = _FOLDER / ".venv" / "bin" / "rfq"


class Refused(Exception):
    """An error that rfq raised."""


class Rfq:
    """
    rfq on a server: the methods of its ``Queue``, its command, and background programs.

    rfq has no namespaces, so tests use topics with names of their own.
    """

    def __init__(self, port):
        assert PYTHON.exists(), "rfq is missing: scripts/peers installs it"
        self._port = port
        self._running = []
        self._call_process = None

    def call(self, op, **args):
        """
        Call a method of Queue (publish, publish_batch, harvest, listq, info, ...) and return its
        result.
        """
        if self._call_process is None:
            self._call_process = self._spawn()
        self._call_process.stdin.write(json.dumps({"op": op, "args": args}) + "\n")
        self._call_process.stdin.flush()
        answer = json.loads(self._call_process.stdout.readline())
        if "error" in answer:
            raise Refused("{name}: {message}".format(**answer["error"]))
        return answer["result"]

    def publish(self, topic, message, *, front=False):
        """Publish a dict of texts, and return its id."""
        return self.call("publish", topic=topic, message=message, front=front)

    def publish_batch(self, topic, messages, *, front=False):
        """Publish several messages, and return their ids."""
        return self.call("publish_batch", topic=topic, messages=messages, front=front)

    def consume(self, topic):
        """
        Consume a message, which moves it to the nextlog; return its id and message. Waits forever.
        """
        task = self.call("consume", topic=topic)
        return task["id"], task["message"]

    def mark_done(self, topic, msgid):
        """Mark a message as done."""
        return self.call("done", topic=topic, msgid=msgid)

    def run_command(self, *arguments):
        """Run rfq's own command; return its exit code, standard output and standard error."""
        environment = {
            **os.environ, "RFQ_REDIS_HOST": "127.0.0.1", "RFQ_REDIS_PORT": str(self._port)
        }  # fmt: skip
        completed = subprocess.run(
            [_COMMAND, *arguments], env=environment, check=False, text=True,
            capture_output=True,
        )  # fmt: skip
        return completed.returncode, completed.stdout, completed.stderr

    def start_producer(self, topic, log):
        """Start a process that publishes {"n": "0"}, ..., and appends each n to this Redis list."""
        return self._start("produce", topic, log)

    def start_consumer(self, topic, log):
        """
        Start a process that consumes, appends each n to this Redis list, and then marks it as done.
        """
        return self._start("consume", topic, log)

    def _start(self, *work):
        self._running.append(self._spawn(*work))
        return self._running[-1]

    def _spawn(self, *work):
        return subprocess.Popen(
            [PYTHON, _FOLDER / "peer.py", str(self._port), *work],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def end_programs(self):
        """Kill the background programs."""
        _kill(self._running)
        self._running = []

    def close(self):
        """Kill all processes that are still running."""
        self.end_programs()
        if self._call_process is not None:
            _kill([self._call_process])


def _kill(processes):
    for process in processes:
        with process:  # closes its pipes, and waits
            process.kill()
