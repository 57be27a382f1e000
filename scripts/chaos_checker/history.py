"""
The history of a run: a file of JSON Lines, each with a ``record`` of one of these kinds.

| record | fields |
|---|---|
| ``run`` | the first line: ``version`` (1), ``topology``, ``appendfsync``, ``epoch``, others |
| ``begin`` | ``op``, ``call``, ``client``, ``at``, and the arguments of the call |
| ``end`` | ``op``, ``at``, ``outcome``, and the result of the call |
| ``fault`` | ``name``, ``at``, ``until``, ``client``, ``promoted``, ``planned``, ``in_step_at`` |
| ``follow`` | ``body``, ``after``: it is sent when the messages with these bodies are handled |
| ``schedule`` | ``name``, ``every``, ``first``, ``last``: it sends a message for each tick |
| ``left`` | ``id``, ``body``, ``count``: a message that is in the queue at the end |
| ``close`` | the last line: ``at``, ``left``: how many messages are left |

All times are seconds of one monotonic clock; ``epoch`` is its zero as seconds since 1970. ``op`` is
the name of an operation, unique in the run. A fault without a ``client`` is one of all clients.

| call | arguments | result |
|---|---|---|
| ``send`` | ``body``, ``delay``, ``confirmed``, ``repeatable``, and the options below | ``id`` |
| ``receive`` | ``vt``, ``queue``, ``ignores_expiry`` | ``id``, ``body``, ``count``; or no ``id`` |
| ``handle`` | ``id``, ``body``, ``count``: a worker calls its handler | ``result`` |
| ``delete`` | ``id``, ``count``; a count of null: by the id alone | ``done`` |
| ``extend`` | ``id``, ``count``, ``vt`` | ``done`` |
| ``job`` | ``id``, ``final``: a status is read, at last after all work | ``state``, ``result`` |

A send may have a ``queue``, and the options ``group``, ``limit_key`` with ``max_running``,
``unique_key`` and ``expires`` of the library. The body of a schedule's message is a JSON object
with the name of its ``schedule``, and its ``tick`` as a time in UTC (``2026-10-25T01:30:00Z``).
``first`` and ``last`` are the seconds since 1970 of the first and the last tick that the schedule
certainly had. An ``id`` of null says that a receive found no message.

The outcome is ``ok``, ``error`` (the call has certainly not run) or ``unknown``. An operation
without an end is unknown: its client was killed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

VERSION = 1
CALLS = frozenset({"send", "receive", "handle", "delete", "extend", "job"})
OUTCOMES = frozenset({"ok", "error", "unknown"})
RECORDS = frozenset({"run", "begin", "end", "fault", "follow", "schedule", "left", "close"})


class BadHistory(Exception):
    """A history that can't be judged: a line of it is wrong, or its end is missing."""


@dataclass
class Call:
    """
    One operation of a client.

    Attributes:
        name: its name in the run.
        kind: the call, such as ``send``.
        client: the name of the client.
        begin: when it began.
        lines: the numbers of its lines in the file.
        end: when it ended; infinite if its client was killed, or if it may still run later.
        outcome: ``ok``, ``error`` or ``unknown``.
        id: of the message, or None.
        body: of the message, or None.
        count: the receive count, or None.
        vt: the visibility timeout in seconds.
        delay: the delay of a send in seconds.
        is_confirmed: whether a send waited for a replica.
        is_repeatable: whether a send has a key by which the server knows a repeated one.
        is_done: whether a delete or an extension says that it found the message.
        queue: the queue of a send or a receive; empty if the run has one only.
        group: the group of a sent message, or None.
        limit_key: the limit key of a sent message, or None.
        max_running: how many messages of the limit key may run.
        unique_key: the unique key of a sent message, or None.
        expires: the expiry of a sent message in seconds; infinite without one.
        ignores_expiry: whether the client of a receive knows no expiry.
        is_final: whether the status of a job was read after all work.
        state: the state of a job, or None.
        result: what a handler returned, or the result of a job.
    """

    name: str
    kind: str
    client: str
    begin: float
    lines: list[int]
    end: float = math.inf
    outcome: str = "unknown"
    id: str | None = None
    body: str | None = None
    count: int | None = None
    vt: float = 0.0
    delay: float = 0.0
    is_confirmed: bool = False
    is_repeatable: bool = False
    is_done: bool = False
    queue: str = ""
    group: str | None = None
    limit_key: str | None = None
    max_running: int = 0
    unique_key: str | None = None
    expires: float = math.inf
    ignores_expiry: bool = False
    is_final: bool = False
    state: str | None = None
    result: Any = None

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def is_possible(self) -> bool:
        """Whether it may have run on the server."""
        return self.outcome != "error"


@dataclass
class Left:
    """A message that is in the queue at the end; its count is None if the system has none."""

    line: int
    id: str
    body: str | None
    count: int | None


@dataclass
class Fault:
    """
    A fault.

    Attributes:
        name: such as ``restart``.
        begin: when it began.
        end: when it was over.
        client: the only client that it concerns, or None: it concerns all.
        is_promotion: whether another server was the primary afterwards.
        is_planned: whether the old primary had waited for it, so that nothing was lost.
        in_step_at: the last time at which the replicas had all of the primary's data.
    """

    name: str
    begin: float
    end: float
    client: str | None = None
    is_promotion: bool = False
    is_planned: bool = False
    in_step_at: float | None = None


@dataclass
class Follow:
    """
    A message that the server sends when other ones were handled.

    Attributes:
        line: the number of its line.
        body: its body.
        after: the bodies of the others.
    """

    line: int
    body: str
    after: list[str]


@dataclass
class Schedule:
    """
    A schedule, which sends a message for each of its ticks.

    Attributes:
        line: the number of its line.
        name: its name.
        every: the seconds from tick to tick.
        first: the first tick that it certainly had, in seconds since 1970.
        last: the last one.
    """

    line: int
    name: str
    every: float
    first: float
    last: float


@dataclass
class History:
    """
    All records of a run, in the order of the file.

    ``end`` is the time of the last one.
    """

    settings: dict[str, Any]
    end: float = math.inf
    follows: list[Follow] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


def read_history(lines: Iterable[str]) -> History:
    """
    Return the history of a file.

    Raises:
        BadHistory: a line is wrong, or the last one is missing.
    """
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        try:
            reader.read(number, json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise BadHistory(f"Line {number} is wrong: {error!r}.") from error
    return reader.finish()


class _Reader:
    def __init__(self) -> None:
        self._history: History | None = None
        self._calls: dict[str, Call] = {}
        self._ended: set[str] = set()
        self._close: dict[str, Any] | None = None

    def read(self, number: int, record: dict[str, Any]) -> None:
        kind = record["record"]
        _require(kind in RECORDS, f"unknown record {kind!r}")
        _require(self._close is None, "a record after the last one, close")
        if self._history is None:
            _require(kind == "run", "the first record is not run")
            version = record["version"]
            _require(version == VERSION, f"version {version!r}, this checker reads {VERSION}")
            self._history = History(record)
            return
        _require(kind != "run", "a second record run")
        if kind == "begin":
            self._begin(number, record)
        elif kind == "end":
            self._end(number, record)
        elif kind == "fault":
            self._history.faults.append(_fault(record))
        elif kind == "follow":
            after = [str(each) for each in record["after"]]
            _require(bool(after), "follow has no message in after")
            self._history.follows.append(Follow(number, str(record["body"]), after))
        elif kind == "schedule":
            self._history.schedules.append(_schedule(number, record))
        elif kind == "left":
            left = Left(number, record["id"], record["body"], record["count"])
            self._history.left.append(left)
        else:
            self._close = record

    def _begin(self, number: int, record: dict[str, Any]) -> None:
        name, kind = record["op"], record["call"]
        _require(name not in self._calls, f"operation {name!r} begins twice")
        _require(kind in CALLS, f"unknown call {kind!r}")
        call = Call(name, kind, record["client"], float(record["at"]), [number])
        if kind in {"send", "handle"}:
            call.body = record["body"]
        if kind in {"handle", "delete", "extend"}:
            call.id, call.count = record["id"], record["count"]
        if kind == "job":
            call.id, call.is_final = record["id"], bool(record.get("final", False))
        if kind in {"receive", "extend"}:
            call.vt = float(record["vt"])
        call.delay = float(record.get("delay", 0))
        call.is_confirmed = bool(record.get("confirmed", False))
        call.is_repeatable = bool(record.get("repeatable", False))
        call.queue = str(record.get("queue", ""))
        call.group, call.unique_key = record.get("group"), record.get("unique_key")
        call.limit_key = record.get("limit_key")
        if call.limit_key is not None:
            call.max_running = int(record["max_running"])
        call.expires = float(record.get("expires", math.inf))
        call.ignores_expiry = bool(record.get("ignores_expiry", False))
        self._calls[name] = call

    def _end(self, number: int, record: dict[str, Any]) -> None:
        name = record["op"]
        _require(name in self._calls, f"operation {name!r} ends without a begin")
        _require(name not in self._ended, f"operation {name!r} ends twice")
        self._ended.add(name)
        call = self._calls[name]
        at, outcome = float(record["at"]), record["outcome"]
        _require(at >= call.begin, f"operation {name!r} ends before it begins")
        _require(outcome in OUTCOMES, f"unknown outcome {outcome!r}")
        call.lines.append(number)
        call.outcome = outcome
        if outcome == "unknown":
            return  # it may still run after its client has given up
        call.end = at
        if outcome == "error":
            return
        if call.kind in {"send", "receive"}:
            call.id = record["id"]
        if call.kind == "send":
            call.is_confirmed = record.get("confirmed", call.is_confirmed)
        if call.kind == "receive" and call.id is not None:
            call.body, call.count = record["body"], record["count"]
        if call.kind in {"delete", "extend"}:
            call.is_done = bool(record["done"])
        if call.kind == "job":
            call.state = record["state"]
        call.result = record.get("result")

    def finish(self) -> History:
        if self._history is None or self._close is None:
            raise BadHistory("The last record, close, is missing: the run has not ended.")
        if self._close["left"] != len(self._history.left):
            raise BadHistory(
                f"The last record counts {self._close['left']} messages that are left, but "
                f"{len(self._history.left)} are listed."
            )
        self._history.calls = list(self._calls.values())
        self._history.end = float(self._close["at"])
        return self._history


def _schedule(number: int, record: dict[str, Any]) -> Schedule:
    every = float(record["every"])
    _require(every > 0, f"schedule {record['name']!r} has every {every}: it must be above 0")
    first, last = float(record["first"]), float(record["last"])
    return Schedule(number, record["name"], every, first, last)


def _fault(record: dict[str, Any]) -> Fault:
    begin, end = float(record["at"]), float(record["until"])
    _require(end >= begin, f"fault {record['name']!r} ends before it begins")
    return Fault(
        record["name"],
        begin,
        end,
        record.get("client"),
        is_promotion=bool(record.get("promoted")),
        is_planned=bool(record.get("planned")),
        in_step_at=record.get("in_step_at"),
    )


def _require(is_right: bool, text: str) -> None:  # noqa: FBT001
    if not is_right:
        raise ValueError(text)
