"""
A worker of the BRPOPLPUSH pattern: ``python -m tests.migrate.brpoplpush JSON``.

It works as such workers commonly do:

- BRPOPLPUSH moves a task from the work list into the worker's own list, ``{worker}-queue``.
- A task is "event:payload". A task without a handler for its event is moved to the list of skipped
  tasks.
- A finished task is removed by its text with LREM, from the tail.
- At its start the worker continues with the head of its own list, which a kill has left there.
- SIGINT ends it after the current task, a second SIGINT at once.

Each handled payload is appended to a Redis list before its task is removed: after a kill it may be
in that list twice, but it is never missing. Payloads that are begun are appended to ``:begun``.
"""

from __future__ import annotations

import json
import signal
import sys
import time

import redis


class Worker:
    """A worker of the pattern, with the options of its command line."""

    def __init__(self, port, worker, work, skipped, log, events, seconds=0.0):
        self._redis = redis.Redis(port=port)
        self._processing_list = f"{worker}-queue"
        self._work_list = work
        self._skipped_list = skipped
        self._log_list = log
        self._events = [event.encode() for event in events]
        self._seconds = seconds
        self._is_busy = self._is_stopping = False

    def run(self):
        signal.signal(signal.SIGINT, self._on_interrupt)
        task = self._redis.lindex(self._processing_list, 0)
        while not self._is_stopping:
            if task is None:
                task = self._redis.brpoplpush(self._work_list, self._processing_list, 0)
            self._is_busy = True
            self._handle(task)
            self._is_busy = False
            task = None

    def _on_interrupt(self, *_):
        if self._is_stopping or not self._is_busy:
            sys.exit(0)
        self._is_stopping = True

    def _handle(self, task):
        event, _, payload = task.partition(b":")
        if event in self._events:
            self._redis.rpush(f"{self._log_list}:begun", payload)
            time.sleep(self._seconds)
            self._redis.rpush(self._log_list, payload)
        else:
            self._redis.lpush(self._skipped_list, task)
        self._redis.lrem(self._processing_list, -1, task)


if __name__ == "__main__":
    Worker(**json.loads(sys.argv[1])).run()
