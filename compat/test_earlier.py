"""An earlier version of this library and the current one, in turns on the same keys."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rsmq import JSON, RSMQ
from rsmq.worker import held_by
from tests.scale import WAIT_SECONDS

FOLDER = Path(__file__).parent / "earlier"
EARLIER = FOLDER / "rsmq-34ae4f1.zip"
CURRENT = FOLDER.parents[1]
#: Keys that the earlier version does not know, nor needs.
FIGURES = {":jobs:x:calls", ":jobs:x:call_times"}


class WorkerProcess:
    """A worker of one version, in a process of its own."""

    def __init__(self, version, server, ns, path):
        self._path = path
        self._first_line = len(self._read_lines())
        self._process = subprocess.Popen(
            [sys.executable, FOLDER / "worker.py", server.url, ns, str(path)],
            env={**os.environ, "PYTHONPATH": str(version)},
        )
        self.wait_for("module")
        assert str(version) in self.lines("module")[0]

    def _read_lines(self):
        return self._path.read_text().splitlines() if self._path.exists() else []

    def lines(self, kind):
        return [line for line in self._read_lines()[self._first_line :] if line.startswith(kind)]

    def wait_for(self, kind, number=1):
        deadline = time.monotonic() + WAIT_SECONDS
        while len(lines := self.lines(kind)) < number:
            assert time.monotonic() < deadline, (kind, number, self._read_lines())
            assert self._process.poll() is None, self._read_lines()
            time.sleep(0.01)
        return lines

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        # The earlier version sees a signal that comes between two waits only after a minute: Python
        # runs a handler when the wait of the main thread ends. The current one waits for a second.
        assert self._process.wait(WAIT_SECONDS) == 0


def key_types(raw, ns):
    """Return the keys of a namespace that both versions know, each with its type."""
    types = {key.decode().removeprefix(ns): raw.type(key) for key in raw.keys(f"{ns}:*")}
    types.pop(":jobs:x:retrying", None)
    return types


@pytest.mark.parametrize("versions", [(EARLIER, CURRENT), (CURRENT, EARLIER)])
def test_workers_of_two_versions_take_over_from_each_other(server, ns, tmp_path, versions):
    raw = server.raw()
    with RSMQ.from_url(server.url, ns=ns, codec=JSON) as rsmq:
        for queue in ("jobs", "dead"):
            rsmq.create_queue(queue)
        path = tmp_path / "lines"
        seen = []
        for version, other in (versions, versions[::-1]):
            hung_ids = rsmq.send_messages("jobs", [{"do": "hang"}] * 3)
            first = WorkerProcess(version, server, ns, path)
            first.wait_for("begin", 3)
            first.kill()
            assert sorted(held_by(rsmq, "turns")["jobs"]) == sorted(hung_ids)
            seen.append(key_types(raw, ns))

            failing_ids = rsmq.send_messages("jobs", [{"do": "fail"}] * 2)
            ids = rsmq.send_messages("jobs", [{"do": "return"}] * 50)
            successor = WorkerProcess(other, server, ns, path)
            ended_ids = {line.split()[1] for line in successor.wait_for("end", 53)}
            assert ended_ids == {*hung_ids, *ids}
            deadline = time.monotonic() + WAIT_SECONDS
            while raw.zcard(f"{ns}:jobs"):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            successor.stop()
            dead = rsmq.peek_messages("dead", 0, 100)
            assert {message.id for message in dead[-2:]} == set(failing_ids)
            assert all("ValueError" in repr(message.reason) for message in dead)
            seen.append(key_types(raw, ns))

    # The keys and their types are the same, whichever version wrote them.
    seen = [{key: kind for key, kind in each.items() if key not in FIGURES} for each in seen]
    assert seen[0] == {key: kind for key, kind in seen[2].items() if key in seen[0]}
    assert seen[1] == seen[3]
    assert raw.zcard(f"{ns}:dead") == 4
