"""
Orders to a worker, and its report of its calls: fields of the hash of its messages in flight.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

#: The field of the report. No message has this id, nor that of the orders.
REPORT_FIELD = ":running"


@dataclass(frozen=True, slots=True)
class Orders:
    """
    The orders of a worker that have not ended.

    Attributes:
        is_paused: whether it receives nothing.
        concurrency: how many calls it runs at once; None is its own number.
        is_watched: whether it reports what it runs.
        is_to_stop: whether it is to stop.
        grace: seconds that its calls have to end then; None is its own number.
    """

    is_paused: bool = False
    concurrency: int | None = None
    is_watched: bool = False
    is_to_stop: bool = False
    grace: float | None = None


NO_ORDERS = Orders()


def read_orders(now_ms: int, stored: bytes) -> Orders:
    """
    Return the orders that ``order_worker.lua`` has stored; none if they can't be read.

    Args:
        now_ms: Unix ms of the server.
    """
    try:
        orders = {
            name: str(order["value"])
            for name, order in json.loads(stored).items()
            if int(order["ends"]) > now_ms
        }
        return Orders(
            is_paused="pause" in orders,
            concurrency=int(orders["concurrency"]) if "concurrency" in orders else None,
            is_watched="running" in orders,
            is_to_stop="stop" in orders,
            grace=float(orders["stop"]) if orders.get("stop") else None,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return NO_ORDERS


class StackLine(NamedTuple):
    """A line of a program."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class RunningCall:
    """
    A call that a worker runs, as it was when the worker looked.

    Attributes:
        queue: the name of the queue.
        id: the id of the message; of a batch the first one.
        messages: the number of messages: more than one for a batch.
        attempt: the number of the attempt, from 1.
        seconds: for how long it runs.
        kind: where it runs: ``thread``, ``task`` or ``process``.
        stack: the last lines of its stack, the one that it runs last; empty for child processes,
            and if it is not known. It has no values.
    """

    queue: str
    id: str
    messages: int
    attempt: int
    seconds: float
    kind: str
    stack: tuple[StackLine, ...]


def encode_report(calls: list[RunningCall]) -> bytes:
    """Return a report as it is stored."""
    fields = RunningCall.__dataclass_fields__
    return json.dumps([[getattr(call, name) for name in fields] for call in calls]).encode()


def read_report(stored: bytes | None) -> tuple[RunningCall, ...] | None:
    """Return the calls of a report; None without one, or if it can't be read."""
    try:
        return None if stored is None else tuple(_read_call(*each) for each in json.loads(stored))
    except (ValueError, TypeError, RecursionError):
        return None


def _read_call(*fields: Any) -> RunningCall:
    call = RunningCall(*fields)
    return replace(call, stack=tuple(StackLine(*line) for line in call.stack))
