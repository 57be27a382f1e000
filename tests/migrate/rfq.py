"""The real rfq, in its own environment and in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

_FOLDER = Path(__file__).parents[2] / "compat" / "rfq"
_PYTHON = _FOLDER / ".venv" / "bin" / "python"
_COMMAND = _FOLDER / ".venv" / "bin" / "rfq"


class Refused(Exception):
    """rfq raised an error."""


class Rfq:
    """
    rfq on a server: its ``Queue``'s methods, its command, and programs that go on by themselves.

    rfq has no namespaces: topics are to be named after the test.
    """

    def __init__(self, port):
        assert _PYTHON.exists(), "rfq is missing: scripts/peers installs it"
        self._port = port
        self._running = []
        self._answers = None

    def ask(self, op, **args):
        """What a method of Queue returns: publish, publish_batch, harvest, listq, info ..."""
        if self._answers is None:
            self._answers = self._begun()
        self._answers.stdin.write(json.dumps({"op": op, "args": args}) + "\n")
        self._answers.stdin.flush()
        answer = json.loads(self._answers.stdout.readline())
        if "error" in answer:
            raise Refused("{name}: {message}".format(**answer["error"]))
        return answer["result"]

    def publish(self, topic, message, *, front=False):
        """Publish a dict of texts; its id."""
        return self.ask("publish", topic=topic, message=message, front=front)

    def publish_batch(self, topic, messages, *, front=False):
        """Publish several; their ids."""
        return self.ask("publish_batch", topic=topic, messages=messages, front=front)

    def consume(self, topic):
        """Consume one, which then is in the nextlog: id and message. Waits forever."""
        task = self.ask("consume", topic=topic)
        return task["id"], task["message"]

    def done(self, topic, msgid):
        """Say that a message is done."""
        return self.ask("done", topic=topic, msgid=msgid)

    def command(self, *arguments):
        """Exit code, standard output and standard error of rfq's own command."""
        environment = {
            **os.environ, "RFQ_REDIS_HOST": "127.0.0.1", "RFQ_REDIS_PORT": str(self._port)
        }  # fmt: skip
        ended = subprocess.run(
            [_COMMAND, *arguments], env=environment, check=False, text=True, timeout=20,
            capture_output=True,
        )  # fmt: skip
        return ended.returncode, ended.stdout, ended.stderr

    def producing(self, topic, log):
        """A process that publishes {"n": "0"} ..., and notes each n in the Redis list of a key."""
        return self._start("produce", topic, log)

    def consuming(self, topic, log):
        """A process that consumes, notes each n, and then says done."""
        return self._start("consume", topic, log)

    def _start(self, *work):
        self._running.append(self._begun(*work))
        return self._running[-1]

    def _begun(self, *work):
        return subprocess.Popen(
            [_PYTHON, _FOLDER / "peer.py", str(self._port), *work],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def end_programs(self):
        """End what goes on by itself."""
        _end(self._running)
        self._running = []

    def close(self):
        """End what is still running."""
        self.end_programs()
        if self._answers is not None:
            _end([self._answers])


def _end(processes):
    for process in processes:
        process.kill()
        process.communicate()
