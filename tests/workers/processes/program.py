"""
A worker in a process of its own, whose handlers do what the message bodies say.

It appends each event to a file, one line each, with the time of the machine, on which the server
runs too. Each line is written before the next step, so the file is complete even if the process is
killed.

A body is JSON: ``{"n": number, "do": action, ...}``. ``for`` is in seconds: a number, or an object
of numbers by worker name. The actions:

    return          return at once
    sleep           sleep for `for` seconds, and ignore the lease
    watch           sleep for `for` seconds, and return early if the lease is lost
    hold_gil        sleep for `for` seconds while no other thread of the process can run
    fail            raise on each attempt
    fail_first      raise on the first `times` attempts
    exit, kill      end the process
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
from functools import partial

from rsmq import JSON, RSMQ
from rsmq.errors import WorkerExists, WorkerReplaced
from rsmq.worker import Middleware, Worker
from rsmq.worker.middlewares import LockByKey, RateLimit

#: Exit codes, besides 0 and those of signals.
REPLACED, EXISTS, POISONED = 3, 4, 5


class EventLog(Middleware):
    """A middleware that appends events to a file."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, event, message=None, detail=""):
        fields = f"{message.queue} {message.id} {message.receive_count}" if message else "- - 0"
        os.write(self._file, f"{time.time():.6f} {event} {fields} {detail}\n".encode())

    def before_start(self, worker):
        self.write("started")

    def before_stop(self, worker):
        self.write("stopping")

    def lease_lost(self, message, reason):
        self.write("lost", message, reason)


class ReceiveLog(EventLog):
    """An event log with an event for each receive, whether or not it returns messages."""

    def before_receive(self, queues):
        self.write("receive")


class LifeLog(EventLog):
    """An event log without the events of messages, for tests with very many of them."""

    def write(self, event, message=None, detail=""):
        if message is None:
            super().write(event, detail=detail)


class Failed(Exception):
    """The exception that handlers raise."""


class Handlers:
    """The handlers of the messages."""

    def __init__(self, event_log, name):
        self._event_log = event_log
        self._name = name

    def handle(self, body, message):
        self._event_log.write("begin", message, body["n"])
        action, deadline = self._start_action(body, message)
        while action in {"sleep", "watch"} and (remaining := deadline - time.monotonic()) > 0:
            if action == "watch" and message.lease_lost:
                self._event_log.write("gave_up", message)
                return
            time.sleep(min(remaining, 0.01))
        self._event_log.write("end", message)

    async def handle_async(self, body, message):
        self._event_log.write("begin", message, body["n"])
        action, deadline = self._start_action(body, message)
        try:
            if action in {"sleep", "watch"}:
                await asyncio.sleep(deadline - time.monotonic())
        except asyncio.CancelledError:
            self._event_log.write("cancelled", message)
            raise
        self._event_log.write("end", message)

    def handle_one(self, name, body, message):
        """Do what the body says for one of several handlers; the events name the handler."""
        self._event_log.write("begin", message, name)
        time.sleep(body.get("for", 0))
        if body.get("fails") == name and message.attempt == 1:
            self._event_log.write("failed", message, name)
            raise Failed(name)
        self._event_log.write("end", message, name)

    def _start_action(self, body, message):
        action = body["do"]
        if action == "exit":
            os._exit(POISONED)
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()
        if action == "hold_gil":
            ctypes.PyDLL(None).usleep(round(body["for"] * 1e6))
        if action == "fail" or (action == "fail_first" and message.attempt <= body["times"]):
            self._event_log.write("failed", message)
            raise Failed(f"attempt {message.attempt}")
        seconds = body.get("for", 0)
        if isinstance(seconds, dict):
            seconds = seconds[self._name]
        return action, time.monotonic() + seconds


def _make_limits(rate=None, locks=False):
    if rate is not None:
        yield RateLimit(*rate)
    if locks:
        yield LockByKey(lambda message: message.body["key"], after=0.1)


def main():
    settings = json.loads(sys.argv[1])
    logging.basicConfig(
        level="INFO", filename=settings["log"], format="%(asctime)s %(levelname)s %(message)s"
    )
    create_log = ReceiveLog if settings.get("logs_receives") else EventLog
    if not settings.get("logs_messages", True):
        create_log = LifeLog
    event_log = create_log(settings["event_log"])
    worker = Worker(
        RSMQ.from_url(settings["url"], ns=settings["ns"]),
        name=settings["name"],
        concurrency=settings.get("concurrency", 8),
        grace=settings.get("grace", 10),
        middleware=[event_log, *_make_limits(**settings.get("limits", {}))],
    )
    handlers = Handlers(event_log, settings["name"])
    for queue, options in settings.get("groups", {}).items():
        group = worker.handlers(queue, codec=JSON, **options)
        for name in "abc":
            group.handler(name)(partial(handlers.handle_one, name))
    for queue, options in settings["listeners"].items():
        handler = handlers.handle_async if options.pop("is_async", False) else handlers.handle
        worker.listener(queue, codec=JSON, **options)(handler)
    try:
        worker.run()
    except WorkerReplaced:
        event_log.write("replaced")
        time.sleep(settings.get("linger", 0))  # time for the handlers to notice it
        sys.exit(REPLACED)
    except WorkerExists:
        event_log.write("exists")
        sys.exit(EXISTS)
    event_log.write("stopped")


if __name__ == "__main__":
    main()
