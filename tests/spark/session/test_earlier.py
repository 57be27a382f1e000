"""A stream that an earlier and the present version of this library run in turns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter

from tests.scale import SOAK
from tests.spark.session.conftest import ENVIRONMENT, FORKS, ROOT
from tests.spark.session.killed import assert_nothing_left

EARLIER = ROOT / "compat" / "earlier" / "rsmq-34ae4f1.zip"
MESSAGES = 6000
#: The versions, and the number of batches after each turn; each turn costs a JVM.
TURNS = [(EARLIER, 2), (ROOT, 4), (EARLIER, 6)] if SOAK else [(EARLIER, 2), (ROOT, 6)]


def start(version, server, ns, folder):
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [
                sys.executable, ROOT / "compat" / "earlier" / "stream.py", server.url, ns,
                str(folder / "checkpoint"),
            ],
            env={**os.environ, **ENVIRONMENT, FORKS: "", "PYTHONPATH": str(version)},
            stdout=file, stderr=file,
            start_new_session=True,
            cwd=folder,  # Spark's processes import from the working folder first
        )  # fmt: skip
    return process, log


def test_two_versions_continue_the_same_stream_in_turns(server, ns, rsmq, raw, tmp_path):
    rsmq.create_queue("source")
    rsmq.create_queue("target")
    bodies = [f"message {n}" for n in range(MESSAGES)]
    rsmq.send_messages("source", bodies)
    logged = set()
    for version, batches in TURNS:
        process, log = start(version, server, ns, tmp_path)
        wanted = 1000 * batches
        while rsmq.get_queue_attributes("target").total_sent < wanted and process.poll() is None:
            time.sleep(0.01)
        if wanted < MESSAGES:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        else:
            assert process.wait() == 0, log.read_text()[-4000:]
        assert f"module {version}" in log.read_text()
        assert rsmq.get_queue_attributes("target").total_sent >= wanted, log.read_text()[-4000:]
        # Only the present version stores the namespace in offsets.
        offsets = set((tmp_path / "checkpoint" / "offsets").glob("[0-9]*")) - logged
        assert {'"ns"' in offset.read_text() for offset in offsets} == {version is ROOT}
        logged |= offsets

    arrived = raw.hmget(f"{ns}:target:Q", raw.zrange(f"{ns}:target", 0, -1))
    assert Counter(body.decode() for body in arrived) == Counter(bodies)
    assert_nothing_left(raw, ns, "source")
