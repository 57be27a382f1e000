"""Handlers and hooks that fork: the copy of the process handles no message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

APP = """
import asyncio
import os
import sys
import time
from pathlib import Path

from rsmq import RSMQ
from rsmq.worker import Middleware, Worker

EVENTS = Path({events!r})
KIND, END = {kind!r}, {end!r}


def note(*words):
    with EVENTS.open("a") as file:
        file.write(" ".join(map(str, (os.getpid(), *words))) + "\\n")


def fork():
    pid = os.fork()
    if pid:
        return pid
    note("forked")
    if END == "sys.exit":
        sys.exit(3)
    if END == "raise":
        raise ValueError("in the copy")
    return 0


class Forking(Middleware):
    def before_receive(self, queues):
        if KIND == "hook" and not EVENTS.exists():
            finish(fork())


def finish(pid):
    if pid:
        _, status = os.waitpid(pid, 0)
        note("copy_ended", os.waitstatus_to_exitcode(status))


def handle(body):
    note("call", body)
    if body == "fork":
        finish(fork())


async def handle_async(body):
    handle(body)
    await asyncio.sleep(0)


worker = Worker(
    RSMQ.from_url({url!r}, ns={ns!r}), concurrency=1, grace=5, middleware=[Forking()]
)
worker.listener("q", max_retries=0, dead_letter_queue="dead", process=KIND == "child")(
    handle_async if KIND == "task" else handle
)
"""


@pytest.mark.parametrize(("end", "code"), [("return", "0"), ("sys.exit", "3"), ("raise", "1")])
@pytest.mark.parametrize("kind", ["thread", "task", "child", "hook"])
def test_copy_of_the_process_ends_and_handles_no_message(env, rsmq, tmp_path, kind, end, code):
    env.create_queues("q", "dead")
    events = tmp_path / "events"
    text = APP
    settings = {"url": env.url, "ns": env.ns, "events": str(events), "kind": kind, "end": end}
    for name, value in settings.items():
        text = text.replace("{" + name + "!r}", repr(value))
    (tmp_path / "forking.py").write_text(text)
    bodies = ["warm", "fork" if kind != "hook" else "x", *map(str, range(20))]
    rsmq.send_messages("q", bodies)
    done = subprocess.run(
        [sys.executable, "-c", "import forking; forking.worker.run(until_empty=True, timeout=45)"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    found = [line.split() for line in events.read_text().splitlines()]
    calls = [(pid, body) for pid, event, *details in found for body in details if event == "call"]
    assert sorted(body for _, body in calls) == sorted(bodies)
    assert len({pid for pid, _ in calls}) == 1
    assert [details for _, event, *details in found if event == "copy_ended"] == [[code]]
    assert env.scores("dead") == {}
    assert env.is_empty("q")
    assert ("instead of calling os._exit()" in done.stderr) == (end != "sys.exit")


def test_message_during_whose_call_a_copy_returns_is_not_done(env, rsmq, tmp_path):
    """The copy returns from its handler while the child process runs the next call."""
    events = tmp_path / "events"
    (tmp_path / "forking.py").write_text(
        f"""
import os, time
from pathlib import Path
from rsmq import RSMQ
from rsmq.worker import Worker

EVENTS = Path({str(events)!r})
worker = Worker(RSMQ.from_url({env.url!r}, ns={env.ns!r}), concurrency=1, grace=5)
PIDS = []

@worker.listener("q", process=True, max_retries=0, dead_letter_queue="dead")
def handle(body):
    if body == "fork":
        pid = os.fork()
        if pid:
            PIDS.append(pid)
        else:
            while not EVENTS.exists():
                time.sleep(0.01)
    else:
        EVENTS.touch()
        os.waitpid(PIDS[0], 0)
        raise ValueError("not done")
"""
    )
    env.create_queues("q", "dead")
    ids = rsmq.send_messages("q", ["fork", "next"])
    done = subprocess.run(
        [sys.executable, "-c", "import forking; forking.worker.run(until_empty=True, timeout=45)"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert env.scores("dead").keys() == {ids[1]}
    assert env.is_empty("q")
