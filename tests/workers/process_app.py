"""
A worker whose handlers run in child processes, which import this module.

Environment variables name the server, and a file of events: one line for each event.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rsmq import JSON, RSMQ
from rsmq.worker import (
    DeadLetter,
    Defer,
    Discard,
    HandlerTimedOut,
    Middleware,
    Retry,
    Worker,
    current_message,
    json_field,
)
from tests.hostile_errors import make_hostile_error

EVENTS = Path(os.environ.get("PROCESS_APP_EVENTS", os.devnull))
#: While this file exists, children wait before they are ready.
HOLD_START = EVENTS.with_name("hold_start")
#: Handlers with the body "wait" wait for this file.
GO = EVENTS.with_name("go")


def note(*words):
    with EVENTS.open("a") as file:
        file.write(" ".join(map(str, (os.getpid(), *words))) + "\n")


class NoSuchOrder(Exception):
    """An error that is not retried."""


class NoSuchItem(NoSuchOrder):
    """An error of a subclass."""


class BadNote:
    def __str__(self):
        raise RuntimeError("no text")


class ChildStart(Middleware):
    def __init__(self):
        self.calls = []

    def child_start(self, worker):
        if "PROCESS_APP_FAILS_IN_CHILD" in os.environ:
            raise RuntimeError("no model")
        note("child_start", worker.name)
        while HOLD_START.exists():
            time.sleep(0.01)

    def after_dead_letter(self, message, queue, reason, error):
        self.calls.append((message.body if error.args != ("?",) else None, reason, error))


rsmq = RSMQ.from_url(
    os.environ.get("PROCESS_APP_URL", "redis://127.0.0.1:1"),
    ns=os.environ.get("PROCESS_APP_NS", "rsmq"),
    codec=JSON,
)
hooks = ChildStart()
worker = Worker(rsmq, concurrency=3, grace=5, middleware=[hooks])


def end_fork():
    """Fork a process, end it by SIGTERM, and return the number of the signal that has ended it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writer, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(reader, 1)  # Python forgets a signal that arrives during the fork
    os.close(reader)
    os.close(writer)
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.WTERMSIG(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


def act(order, message):  # noqa: PLR0912 - one branch for each order
    """Do what the body says."""
    note("call", str(order)[:20].replace(" ", ""), message.attempt)
    match order:
        case "raise":
            raise ValueError("no stock")
        case "final":
            raise NoSuchItem("no item")
        case "retry" if message.attempt == 1:
            raise Retry("later", after=0.05)
        case "defer" if message.receive_count < 4:
            raise Defer("locked", after=0.05)
        case "discard":
            raise Discard("old")
        case "dead":
            raise DeadLetter("wrong address")
        case "surrogate":
            raise ValueError("a half of a character: \ud800")
        case "bad_note":
            error = Discard("old")
            error.__notes__ = [BadNote()]
            raise error
        case "bad_retry":
            error = Retry("later")
            error.after = object()
            raise error
        case str() if order.startswith("hostile "):
            raise make_hostile_error(order.removeprefix("hostile "))
        case "wait":
            while not GO.exists():
                time.sleep(0.01)
        case "fork":
            note("fork_ended", end_fork())
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), 9)
        case "sleep":
            time.sleep(60)
        case "gil":
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            ctypes.PyDLL(None).sleep(60)
        case "stubborn":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            note("started", child.pid)
            while True:
                try:
                    time.sleep(60)
                except HandlerTimedOut as error:
                    note("caught", type(error).__name__)
        case "until_stopped":
            note("stopping", message.stopping.is_set(), message.stopping.wait(60))
            note("read", current_message().stopping is message.stopping)
            raise Defer("half done", after=0.1)
        case "with_finally" | "slow_finally":
            try:
                time.sleep(60)
            except Exception:  # noqa: BLE001 - as handlers do
                note("swallowed")
            finally:
                note("finally")
                if order == "slow_finally":
                    time.sleep(60)
        case "until_lost":
            while not message.lease_lost:
                time.sleep(0.01)
            note("lost")


options = {"max_retries": 1, "backoff": 0.05, "dead_letter_queue": "dead", "no_retry": NoSuchOrder}
worker.listener("q", process=True, max_runtime=20, **options)(act)
worker.listener("short", process=True, max_runtime=0.3, **options)(act)


@worker.listener("batches", process=True, batch=10, **options)
def handle_batch(orders, messages):
    for order, message in zip(orders, messages, strict=True):
        if order == "bad":
            message.fail(NoSuchItem("bad"))
    if "raise" in orders:
        raise ValueError("all")


router = worker.router("routes", by=json_field("type"), process=True, **options)


@router.on("created")
def handle_created(order):
    note("created", order["id"])


#: The same handler in threads.
threads = Worker(rsmq, concurrency=3, grace=5)
threads.listener("q", **options)(act)

if "PROCESS_APP_STARTS" in os.environ:
    worker.start()
