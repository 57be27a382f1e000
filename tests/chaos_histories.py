"""Histories of runs with faults, written as lines, and a small model that makes valid ones."""

from __future__ import annotations

import json
import random

from scripts.chaos_checker.history import History, read_history
from scripts.chaos_checker.verdict import Verdict, check

_CALL_SECONDS = 0.1


class Story:
    """A history that a test writes. Each call takes 0.1 seconds from ``at``."""

    def __init__(self, **settings):
        self.lines = []
        self.left_count = 0
        self._numbers = 0
        self._write("run", version=1, topology="plain", **{"appendfsync": "always", **settings})

    def _write(self, record, **fields):
        self.lines.append(json.dumps({"record": record, **fields}))

    def call(
        self, kind, at, result, outcome="ok", seconds=_CALL_SECONDS, client="c", **arguments
    ):  # fmt: skip
        """Add a call; a result of None is a client that was killed."""
        self._numbers += 1
        op = f"c/{self._numbers}"
        self._write("begin", op=op, call=kind, client=client, at=at, **arguments)
        if result is not None:
            self._write("end", op=op, at=at + seconds, outcome=outcome, **result)

    def send(self, at, id, body=None, outcome="ok", **arguments):
        result = {"id": id} if outcome == "ok" else {}
        self.call("send", at, result, outcome, body=body or f"body of {id}", **arguments)

    def receive(self, at, id, count=1, *, vt=10, body=None, **arguments):
        body = body or f"body of {id}"
        self.call("receive", at, {"id": id, "body": body, "count": count}, vt=vt, **arguments)

    def receive_nothing(self, at):
        self.call("receive", at, {"id": None}, vt=10)

    def handle(self, at, id, count=1, *, returns=True, body=None, result=None, **more):
        end = {"result": result} if returns else None
        self.call("handle", at, end, id=id, body=body or f"body of {id}", count=count, **more)

    def handle_and_raise(self, at, id, count=1):
        self.call("handle", at, {}, "unknown", id=id, body=f"body of {id}", count=count)

    def job(self, at, id, state, result=None, **arguments):
        self.call("job", at, {"state": state, "result": result}, id=id, **arguments)

    def follow(self, body, *after):
        self._write("follow", body=body, after=after)

    def schedule(self, name, every, first, last):
        self._write("schedule", name=name, every=every, first=first, last=last)

    def delete(self, at, id, count=1, *, done=True, outcome="ok"):
        self.call("delete", at, {"done": done}, outcome, id=id, count=count)

    def extend(self, at, id, count=1, *, vt=10, done=True):
        self.call("extend", at, {"done": done}, id=id, count=count, vt=vt)

    def fault(self, name, at, until, **facts):
        self._write("fault", name=name, at=at, until=until, **facts)

    def left(self, id, count=0, *, body=None):
        self.left_count += 1
        self._write("left", id=id, body=body or f"body of {id}", count=count)

    def left_without_body(self, id):
        self.left_count += 1
        self._write("left", id=id, body=None, count=None)

    def close(self):
        self._write("close", at=1000, left=self.left_count)

    def read(self) -> History:
        self.close()
        return read_history(self.lines)

    def check(self) -> Verdict:
        return check(self.read())


class Model:
    """
    A queue, with a clock of its own and consumers that are late, die, and get no reply.

    ``story`` has the calls. Each call has its effect in the middle of its time.
    """

    def __init__(self, seed):
        self.story = Story()
        self._chance = random.Random(seed)
        self._now = 0.0
        self._queue = {}  # id: [due, order, count, body]
        self._receipts = []
        self._sent = 0

    def run(self, steps):
        for _ in range(steps):
            self._now += self._chance.choice([0.2, 0.2, 0.2, 3.0])
            self._chance.choice([self._send, self._receive, self._receive, self._settle])()
        for id, (_due, _order, count, body) in self._queue.items():
            self.story.left(id, count, body=body)
        return self.story

    def _is_answered(self):
        return self._chance.random() < 0.9

    def _send(self):
        self._sent += 1
        body, id = f"body {self._sent}", f"id{self._sent:06}"
        delay = self._chance.choice([0, 0, 0, 2])
        if self._chance.random() < 0.1:
            self.story.send(self._now, id, body, outcome="error", delay=delay)
            return
        is_answered = self._is_answered()
        if is_answered or self._chance.random() < 0.5:
            self._queue[id] = [self._now + _CALL_SECONDS / 2 + delay, id, 0, body]
        outcome = "ok" if is_answered else "unknown"
        self.story.send(self._now, id, body, outcome=outcome, delay=delay)

    def _receive(self):
        at, vt = self._now + _CALL_SECONDS / 2, self._chance.choice([1, 4])
        due = [(each[0], each[1], id) for id, each in self._queue.items() if each[0] <= at]
        if not due:
            self.story.receive_nothing(self._now)
            return
        id = min(due)[2]
        message = self._queue[id]
        message[0], message[2] = at + vt, message[2] + 1
        if self._is_answered():
            self.story.receive(self._now, id, message[2], vt=vt, body=message[3])
            self._receipts.append((id, message[2]))
        else:
            self.story.call("receive", self._now, None, vt=vt)

    def _settle(self):
        if not self._receipts:
            return
        id, count = self._chance.choice(self._receipts)
        is_valid = id in self._queue and self._queue[id][2] == count
        is_delete, is_answered = self._chance.random() < 0.7, self._is_answered()
        runs = is_valid and (is_answered or self._chance.random() < 0.5)
        if is_delete:
            if runs:
                del self._queue[id]
            outcome = "ok" if is_answered else "unknown"
            self.story.delete(self._now, id, count, done=is_valid, outcome=outcome)
        elif is_answered:
            if runs:
                self._queue[id][0] = self._now + _CALL_SECONDS / 2 + 4
            self.story.extend(self._now, id, count, vt=4, done=is_valid)
