"""The demo of the dashboard, as a person starts and ends it."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium
from tests.nodes import wait_until
from tests.scale import WAIT_SECONDS
from tests.servers import ROOT


@pytest.fixture
def demo(tmp_path):
    """Start the demo, whose files are in a folder; return its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scripts.demos.dashboard", "--incident", "wrong-purge"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    if process.poll() is None:
        process.terminate()
    process.wait()
    process.stdout.close()


def _processes_of(folder):
    """Return the command lines of the processes whose log is in a folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if (process / "fd/1").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_bytes())
        except OSError:  # it is no process, has ended, or is of another user
            continue
    return found


def _handled(answer):
    """Return the names of the workers that have handled messages."""
    return {each["name"] for each in answer["workers"] if each["handled"]}


def test_the_demo_has_an_incident_and_leaves_nothing_behind(demo, tmp_path):
    found = next(filter(None, (re.search(r"The dashboard: (\S+)", line) for line in demo.stdout)))
    address = found[1]
    key = re.search(r"with the token (\S+):", demo.stdout.readline())[1]
    browser = Chromium()
    try:
        text, _ = browser.log_in(address, key)
    finally:
        browser.quit()
    assert "What is wrong" in text
    login = {"Authorization": f"Basic {base64.b64encode(f':{key}'.encode()).decode()}"}
    assert "kim, with the password" in demo.stdout.readline()
    assert "Incident: campaign had 300 messages" in demo.stdout.readline()

    def read(path):
        request = urllib.request.Request(f"{address}/api/v1/{path}", headers=login)
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    assert read("queues/campaign")["messages"] == 0
    assert {each["user"] for each in read("audit?queue=campaign")["entries"]} == {"kim"}
    wait_until(lambda: _handled(read("workers")) >= {"shop-1", "shop-2", "thumbs-1"})
    wrong = {each["kind"] for each in read("alerts")["alerts"]}
    assert not wrong & {"paused", "new-dead-letters", "webhook-stopped"}  # all else is well
    hours = read("queues/orders/history?step=3600")
    assert hours["total_sent"] > 1000
    assert len(_processes_of(tmp_path)) == 6
    demo.send_signal(signal.SIGINT)
    assert demo.wait(WAIT_SECONDS) == 0
    assert _processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
