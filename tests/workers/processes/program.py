"""
A worker in a process of its own, whose handlers do what their messages say.

It writes what begins and what ends into a file, a line each, with the time of the machine that the
server runs on too: a line is there before what comes next is done, so the file is the truth even of
a process that is killed.

A body is JSON: ``{"n": number, "do": what, ...}``; ``for`` is in seconds, and may tell them by the
worker's name:

    return          handled at once
    sleep           takes its time, for, and sees nothing
    watch           takes its time, and ends early when its lease is lost
    hold_gil        takes its time, and no other thread of its process runs meanwhile
    fail            raises, always
    fail_first      raises on its first attempts, times
    exit, kill      takes its process down
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import threading
import time

from rsmq import JSON, RSMQ
from rsmq.errors import WorkerExists, WorkerReplaced
from rsmq.worker import Middleware, Worker

#: Exit codes, beside 0 and those of signals.
REPLACED, EXISTS, POISONED = 3, 4, 5


class Diary(Middleware):
    """Writes down what happens."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, event, message=None, more=""):
        what = f"{message.queue} {message.id} {message.receive_count}" if message else "- - 0"
        os.write(self._file, f"{time.time():.6f} {event} {what} {more}\n".encode())

    def before_start(self, worker):
        self.write("started")

    def before_stop(self, worker):
        self.write("stopping")

    def lease_lost(self, message, reason):
        self.write("lost", message, reason)


class Failed(Exception):
    """What handlers raise."""


class Doing:
    """The handlers."""

    def __init__(self, diary, name):
        self._diary = diary
        self._name = name

    def handle(self, body, message):
        self._diary.write("begin", message, body["n"])
        what, ends = self._begun(body, message)
        while what in {"sleep", "watch"} and (left := ends - time.monotonic()) > 0:
            if what == "watch" and message.lease_lost:
                self._diary.write("gave_up", message)
                return
            time.sleep(min(left, 0.01))
        self._diary.write("end", message)

    async def handle_async(self, body, message):
        self._diary.write("begin", message, body["n"])
        what, ends = self._begun(body, message)
        try:
            if what in {"sleep", "watch"}:
                await asyncio.sleep(ends - time.monotonic())
        except asyncio.CancelledError:
            self._diary.write("cancelled", message)
            raise
        self._diary.write("end", message)

    def _begun(self, body, message):
        what = body["do"]
        if what == "exit":
            os._exit(POISONED)
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()
        if what == "hold_gil":
            ctypes.PyDLL(None).usleep(round(body["for"] * 1e6))
        if what == "fail" or (what == "fail_first" and message.attempt <= body["times"]):
            self._diary.write("failed", message)
            raise Failed(f"attempt {message.attempt}")
        seconds = body.get("for", 0)
        if isinstance(seconds, dict):
            seconds = seconds[self._name]
        return what, time.monotonic() + seconds


def main():
    given = json.loads(sys.argv[1])
    logging.basicConfig(
        level="INFO", filename=given["log"], format="%(asctime)s %(levelname)s %(message)s"
    )
    diary = Diary(given["diary"])
    worker = Worker(
        RSMQ.from_url(given["url"], ns=given["ns"]),
        name=given["name"],
        concurrency=given.get("concurrency", 8),
        grace=given.get("grace", 10),
        middleware=[diary],
    )
    doing = Doing(diary, given["name"])
    for queue, options in given["listeners"].items():
        handler = doing.handle_async if options.pop("is_async", False) else doing.handle
        worker.listener(queue, codec=JSON, **options)(handler)
    try:
        worker.run()
    except WorkerReplaced:
        diary.write("replaced")
        time.sleep(given.get("linger", 0))  # for its handlers to see it
        sys.exit(REPLACED)
    except WorkerExists:
        diary.write("exists")
        sys.exit(EXISTS)
    diary.write("stopped")


if __name__ == "__main__":
    main()
