"""
Workers by name: which are alive, which messages they hold, and takeover.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rsmq.client import RSMQ
from rsmq.errors import WorkerExists
from rsmq.operations import worker as worker_operations
from rsmq.operations.worker import Identity, Predecessor, enter_worker, held_messages
from rsmq.transport.process_identity import has_died

#: Seconds between two signs of life, and without one until a worker counts as dead.
BEAT = 1.0
TTL = 5.0

_log = logging.getLogger("rsmq.worker")


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """
    A worker, as it said of itself last.

    Attributes:
        name: its name.
        alive: whether it gave a sign of life within the last five seconds.
        since_ms: Unix ms when it began, by its own clock.
        seen_ms: Unix ms of its last sign of life, by the server's clock.
        host: the name of its machine.
        pid: its process there.
        queues: how many messages of each of its queues it held then.
        handled: how many it had handled.
        failed: how often a handler had failed.
    """

    name: str
    alive: bool
    since_ms: int
    seen_ms: int
    host: str
    pid: int
    queues: dict[str, int]
    handled: int
    failed: int


def list_workers(rsmq: RSMQ) -> list[WorkerInfo]:
    """
    The workers of a namespace, by name: those that are alive, and those that died within a day.

    One that stopped in order is not among them. One atomic reading.

    Args:
        rsmq: a client of the namespace.
    """
    now, stored = rsmq.run(worker_operations.list_workers(rsmq.namespace))
    found = []
    for name, entry in sorted(stored.items()):
        until, _, rest = entry.partition(b":")
        info: dict[str, Any] = {}
        with contextlib.suppress(ValueError):  # written by somebody else
            info = json.loads(rest.partition(b":")[2])
        found.append(
            WorkerInfo(
                name=name,
                alive=int(until) > now,
                since_ms=int(info.get("since_ms", 0)),
                seen_ms=int(until) - round(TTL * 1000),
                host=str(info.get("host", "")),
                pid=int(info.get("pid", 0)),
                queues=dict(info.get("queues", {})),
                handled=int(info.get("handled", 0)),
                failed=int(info.get("failed", 0)),
            )
        )
    return found


def held_by(rsmq: RSMQ, name: str) -> dict[str, list[str]]:
    """
    The ids of the messages that a worker holds now, or held when it died, by queue.

    Args:
        rsmq: a client of the namespace.
        name: the worker's name.

    Raises:
        MissingParameter: the name is None or empty.
        InvalidFormat: the name has other characters than a queue's.
    """
    held = rsmq.run_steps(held_messages(rsmq.namespace, name))
    return {queue: [id for id, _ in receipts] for queue, receipts in held.items()}


def enter(rsmq: RSMQ, worker: Identity, info: dict[str, Any], look: Callable[[], None]) -> None:
    """
    Take a worker's name, once it is free.

    One that died not long ago still counts as alive: unless it can be seen to be dead, this waits
    until its time is over. One that gives another sign of life meanwhile is alive.

    Args:
        rsmq: where.
        worker: whose name it is, and its token.
        info: what it says of itself.
        look: called at every look; what it raises ends the wait.

    Raises:
        WorkerExists: another worker of the name is alive.
    """
    first: Predecessor | None = None
    dead = ""
    until = 0.0
    while True:
        look()
        other = rsmq.run(enter_worker(worker, info, ttl=TTL, dead=dead))
        if other is None:
            return
        if has_died(other.says):
            dead = other.token
            continue
        if first is None:
            _log.info(
                "worker %s waits to see whether another one of its name is alive", worker.name
            )
            first = other
            until = time.monotonic() + other.left_ms / 1000
        ends = time.monotonic() + other.left_ms / 1000
        if other.token != first.token or ends > until + BEAT / 4:
            raise WorkerExists(worker.name, _shown(other.says))
        time.sleep(min(BEAT / 4, max(other.left_ms / 1000, 0.01)))


def _shown(says: str) -> str:
    try:
        info = json.loads(says)
        return f"host {info['host']}, process {info['pid']}"
    except (KeyError, TypeError, ValueError):
        return says[:80]
