"""
Workers by name: which are alive, which messages they have in flight, and takeover.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.control.operations import list_workers as read_entries
from rsmq.control.operations import parse_workers
from rsmq.errors import WorkerExists
from rsmq.errors.guarded_log import get_logger
from rsmq.operations.time_limit import start_time_limit
from rsmq.transport.process_identity import has_died
from rsmq.wire.workers import TTL, WorkerInfo
from rsmq.worker.operations import Identity, RegisteredWorker, list_in_flight, register_worker

#: Seconds between two heartbeats.
HEARTBEAT_SECONDS = 1.0
#: The deaths that a worker says of its predecessors: the last ones, within so many ms.
_MAX_DEATHS, _DEATHS_MS = 20, 3_600_000

_log = get_logger("rsmq.worker")


def list_workers(rsmq: RSMQ) -> list[WorkerInfo]:
    """
    Return the workers of a namespace, by name: those alive, and those that died within a day.

    A worker that shut down gracefully is not listed. One atomic read.

    Args:
        rsmq: a client of the namespace.
    """
    return read_workers(rsmq)[1]


def read_workers(rsmq: RSMQ, timeout: float | None = None) -> tuple[int, list[WorkerInfo]]:
    """
    Return the server's time in Unix ms, and the workers as ``list_workers`` does.

    Args:
        rsmq: a client of the namespace.
        timeout: seconds for the call with all its attempts; None is the deadline of the client.
    """
    operation = read_entries(rsmq.namespace)
    operation.limit = start_time_limit(timeout)
    return parse_workers(*rsmq.run(operation))


def held_by(rsmq: RSMQ, name: str) -> dict[str, list[str]]:
    """
    Return the ids of the messages that a worker has in flight, by queue.

    For a dead worker these are the messages that it had in flight when it died.

    Args:
        rsmq: a client of the namespace.
        name: the worker's name.

    Raises:
        MissingParameter: the name is None or empty.
        InvalidFormat: the name has characters that a queue's name can't have.
    """
    in_flight = rsmq.run_steps(list_in_flight(rsmq.namespace, name))
    return {queue: [id for id, _ in receipts] for queue, receipts in in_flight.items()}


def register(
    rsmq: RSMQ, worker: Identity, info: dict[str, Any], check_stop: Callable[[], None]
) -> tuple[float, list[int]]:
    """
    Register a worker under its name, once the name is free.

    A worker that died a short time ago still counts as alive. If its process can be checked and is
    dead, its name is free at once; else this waits until its time to live is over. If another
    heartbeat arrives meanwhile, that worker is alive.

    Args:
        rsmq: a client of the namespace.
        worker: the name, and the token of the new worker.
        info: its description of itself.
        check_stop: called before each attempt; its exception ends the wait.

    Returns:
        Monotonic seconds before the registration: until TTL later the worker counts as alive. And
        the deaths of its predecessors, as ``WorkerInfo`` has them; if there are any, they belong
        into its descriptions of itself.

    Raises:
        WorkerExists: another worker of the name is alive.
    """
    first_seen: RegisteredWorker | None = None
    dead_token = ""
    first_expiry = 0.0
    while True:
        check_stop()
        began_at = time.monotonic()
        holder = rsmq.run(register_worker(worker, info, ttl=TTL, dead=dead_token))
        if holder is None:
            return began_at, []
        if holder.expired_ms:
            deaths = _deaths_until(holder)
            # It may die before its first heartbeat.
            rsmq.run(register_worker(worker, {**info, "deaths": deaths}, ttl=TTL, dead=""))
            return began_at, deaths
        if has_died(holder.info):
            dead_token = holder.token
            continue
        if first_seen is None:
            _log.info(
                "worker %s waits to see whether another one of its name is alive", worker.name
            )
            first_seen = holder
            first_expiry = time.monotonic() + holder.remaining_ms / 1000
        # At the earliest: the server has answered at some time since ``began_at``.
        expiry = began_at + holder.remaining_ms / 1000
        if holder.token != first_seen.token or expiry > first_expiry + HEARTBEAT_SECONDS / 4:
            raise WorkerExists(worker.name, _describe(holder.info))
        time.sleep(min(HEARTBEAT_SECONDS / 4, max(holder.remaining_ms / 1000, 0.01)))


def _deaths_until(last: RegisteredWorker) -> list[int]:
    """Return the deaths of a worker and of those before it, as far as they are remembered."""
    died_ms = last.expired_ms - round(TTL * 1000)
    try:
        before = [int(each) for each in json.loads(last.info).get("deaths", ())]
    except (AttributeError, TypeError, ValueError):  # another program wrote it
        before = []
    deaths = [*before, died_ms]
    return [each for each in deaths if each > died_ms - _DEATHS_MS][-_MAX_DEATHS:]


def _describe(info: str) -> str:
    try:
        facts = json.loads(info)
        return f"host {facts['host']}, process {facts['pid']}"
    except (KeyError, TypeError, ValueError):
        return info[:80]
