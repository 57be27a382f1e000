"""A job that is killed with all its processes, and checks of the queues after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.spark.session.conftest import ENVIRONMENT, FORKS, ROOT
from tests.spark.session.fatal import BATCH, MARK, POINT


class Job:
    """Runs of job.py on the same checkpoint."""

    def __init__(self, server, ns, folder, *sink):
        self._mark = folder / "mark"
        self._command = [
            sys.executable, "-m", "tests.spark.session.job", "--url", server.url, "--ns", ns,
            "--source", "source", "--checkpoint", str(folder / "checkpoint"), *sink,
        ]  # fmt: skip
        self._log = folder / "job.log"

    def start(self, point="", batch=1):
        self._mark.unlink(missing_ok=True)
        environment = {
            **os.environ, **ENVIRONMENT, FORKS: "",
            POINT: point, BATCH: str(batch), MARK: str(self._mark),
        }  # fmt: skip
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command, cwd=ROOT, env=environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def die_at(self, point, batch):
        """Run the job until it kills itself at a point."""
        assert self.start(point, batch).wait() == -signal.SIGKILL, self._read_log()
        assert self._mark.exists(), point

    def die_after(self, seconds):
        """Run the job and kill it after some seconds; return whether it ended before."""
        process = self.start()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False
        assert process.returncode == 0, self._read_log()
        return True

    def finish(self):
        assert self.start().wait() == 0, self._read_log()

    def _read_log(self):
        return self._log.read_text()[-4000:]


def fill(rsmq, number):
    rsmq.create_queue("source")
    bodies = [f"message {n}" for n in range(number)]
    for begin in range(0, number, 1000):
        rsmq.send_messages("source", bodies[begin : begin + 1000])
    return bodies


def read_parquet(spark, path):
    """Return the messages that readers of the stream's output see."""
    return [row["message"] for row in spark.read.parquet(str(path)).select("message").collect()]


def assert_nothing_left(raw, ns, *queues):
    for queue in queues:
        assert raw.zcard(f"{ns}:{queue}") == 0
        assert set(raw.hkeys(f"{ns}:{queue}:Q")) <= {
            b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv",
        }  # fmt: skip
        assert raw.exists(f"{ns}:{queue}:x:leases", f"{ns}:{queue}:x:staged") == 0
