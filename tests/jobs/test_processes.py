"""Tracked messages whose handlers run in child processes."""

from __future__ import annotations

import importlib
import os
import signal
from pathlib import Path

import pytest

from rsmq.errors import JobCancelled
from rsmq.jobs import ReportedProgress
from rsmq.worker.children import child_process
from rsmq.worker.children.channel import Channel
from rsmq.worker.state import lane
from tests.jobs import process_app
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def app(env, monkeypatch, tmp_path):
    monkeypatch.setenv("JOBS_URL", env.url)
    monkeypatch.setenv("JOBS_NS", env.ns)
    monkeypatch.setenv("JOBS_EVENTS", str(tmp_path / "events"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    env.create_queues("q")
    monkeypatch.setattr(lane, "MAX_TRACKED_RENEW_SECONDS", 0.1)
    monkeypatch.setattr(lane, "MIN_PROGRESS_SECONDS", 0.1)
    module = importlib.reload(process_app)
    module.worker.start()
    yield module
    module.worker.stop(0)
    module.rsmq.close()


def begin(env, app, body):
    """Send a message, wait until its handler runs, and return its job and the process id."""
    job = env.rsmq.job("q", env.rsmq.send_message("q", body, track=True))
    wait_until(lambda: app.EVENTS.exists() and app.EVENTS.read_text())
    return job, int(app.EVENTS.read_text().split()[0])


def has_ended(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"


def check_cancel(env, app, body):
    job, pid = begin(env, app, body)
    wait_until(lambda: job.progress() == ReportedProgress(2, 3, body))
    assert job.cancel() == "requested"
    with pytest.raises(JobCancelled):
        job.result(WAIT_SECONDS)
    assert app.EVENTS.read_text() == f"{pid} True"
    wait_until(lambda: has_ended(pid))
    wait_until(lambda: env.is_empty("q"))
    assert "error" not in env.record(job.id)
    assert app.worker.numbers.failed == 0


def test_a_child_reports_progress_and_is_cancelled_or_killed(env, app, monkeypatch):
    monkeypatch.setattr(child_process, "KILL_SECONDS", 0.3)
    job = env.rsmq.job("q", env.rsmq.send_message("q", "return"))
    assert job.result(WAIT_SECONDS) == 3
    assert job.progress() == ReportedProgress(3, 3, "all")
    for body in ("stop", "stay"):
        app.EVENTS.unlink()
        check_cancel(env, app, body)


def test_a_child_that_reads_nothing_is_killed_after_a_cancel(env, app, monkeypatch):
    monkeypatch.setattr(child_process, "KILL_SECONDS", 0.3)
    job, pid = begin(env, app, "halt")
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    monkeypatch.setattr(Channel, "has_room", lambda _: False)  # its socket is full
    assert job.cancel() == "requested"
    with pytest.raises(JobCancelled):
        job.result(WAIT_SECONDS)
    wait_until(lambda: has_ended(pid))


def test_a_child_that_reads_a_cancel_together_with_the_call_does_not_call_the_handler(
    env, app, monkeypatch
):
    sent = []
    send = Channel.send

    def record(self, message, *args):
        send(self, message, *args)
        sent.extend(message)

    monkeypatch.setattr(Channel, "send", record)
    monkeypatch.setattr(child_process, "KILL_SECONDS", 60)
    assert env.rsmq.job("q", env.rsmq.send_message("q", "return")).result(WAIT_SECONDS) == 3
    pid = int(app.EVENTS.read_text())
    app.EVENTS.unlink()
    os.kill(pid, signal.SIGSTOP)
    try:
        job = env.rsmq.job("q", env.rsmq.send_message("q", "stay"))
        wait_until(lambda: job.status().state == "running")
        assert job.cancel() == "requested"
        wait_until(lambda: "cancel" in sent)
    finally:
        os.kill(pid, signal.SIGCONT)
    with pytest.raises(JobCancelled):
        job.result(WAIT_SECONDS)
    assert not app.EVENTS.exists()
