"""
A worker of the BRPOPLPUSH pattern: ``python -m tests.migrate.brpoplpush JSON``.

As such workers are commonly written: BRPOPLPUSH from the work list into a list of its own,
``{worker}-queue``; the task is "event:payload"; a task without a handler for its event goes to the
list of skipped ones; a task that is done is removed with LREM, from the tail, by its text. At its
start it goes on with the head of its own list, which a kill has left there. SIGINT ends it when
the task in its hands is done, a second one at once.

Each payload that is handled is noted in a Redis list before its task is removed: after a kill it
may stand there twice, but never not at all. What is begun is noted beside it, under ``:begun``.
"""

from __future__ import annotations

import json
import signal
import sys
import time

import redis


class Worker:
    """One such worker, and what it is told at its start."""

    def __init__(self, port, worker, work, skipped, log, events, seconds=0.0):
        self._redis = redis.Redis(port=port)
        self._own = f"{worker}-queue"
        self._work = work
        self._skipped = skipped
        self._log = log
        self._events = [event.encode() for event in events]
        self._seconds = seconds
        self._busy = self._stopping = False

    def run(self):
        signal.signal(signal.SIGINT, self._interrupted)
        task = self._redis.lindex(self._own, 0)
        while not self._stopping:
            if task is None:
                task = self._redis.brpoplpush(self._work, self._own, 0)
            self._busy = True
            self._do(task)
            self._busy = False
            task = None

    def _interrupted(self, *_):
        if self._stopping or not self._busy:
            sys.exit(0)
        self._stopping = True

    def _do(self, task):
        event, _, payload = task.partition(b":")
        if event in self._events:
            self._redis.rpush(f"{self._log}:begun", payload)
            time.sleep(self._seconds)
            self._redis.rpush(self._log, payload)
        else:
            self._redis.lpush(self._skipped, task)
        self._redis.lrem(self._own, -1, task)


if __name__ == "__main__":
    Worker(**json.loads(sys.argv[1])).run()
